"""Filling a contour with the values of the laws at its nodes, and leaving out the nodes that provably do not matter.

For every law |M(c + is)| ≤ M(c). So the product over *some* of the parts bounds the size of a node's whole term, for
now and for every part that is composed later: a node below e^cut is dropped for good, and its bound is added to the error.
This is not
"the term is small, stop": every node is looked at, and lattice losses may revive as they like.
"""

from dataclasses import replace
from math import exp, frexp, fsum, ldexp

import numpy as np

from discreet.accounting.contour import Contour
from discreet.accounting.ladder import CgfTable, Parts, total_decay_bound, total_max_loss
from discreet.accounting.laws import EPS, Floats

_BLOCK = 1 << 17  # nodes times parts worked on at once, but at least 2^13 nodes
_MANY_PARTS = 12  # parts from which on a cheap bound is taken first


def round_step(step: float) -> float:
    """`step` rounded down to 24 bits, so that its multiples by whole numbers below 2^29 are exact doubles."""
    mantissa, exponent = frexp(step)
    return ldexp(int(mantissa * (1 << 24)), exponent - 24)


def build_contour(
    parts: Parts, cgf_table: CgfTable, c: float, step: float, count: int, smoothing: float, log_cutoff: float
) -> Contour:
    """A contour with nodes n·step, n < count, for these parts."""
    s, reach = step * np.arange(float(count)), step * (count - 1)
    zeros = np.zeros(count)
    empty = Contour(
        c, step, s, zeros.astype(complex), zeros, 0.0, 0.0, 0.0, reach, 1.0, smoothing, log_cutoff, cgf_table, 0.0
    )
    return extend_contour(drop_nodes_early(empty, parts), parts, cgf_table)


def extend_contour(contour: Contour, parts: Parts, cgf_table: CgfTable) -> Contour:
    """The contour of what it had and `parts` together; `ladder` is K of all of it."""
    reals = [law.cgf(np.array([contour.c])) for law, _ in parts]
    bases = [float(value[0]) for value, _ in reals]
    # |M(c + is)| ≤ M(c) ≤ e^{base + error}: what parts can contribute at nodes that were dropped before they were looked at.
    excess = exp(min(700.0, fsum(times * float(error[0]) for (_, times), (_, error) in zip(parts, reals, strict=True))))
    products = [base * times for base, (_, times) in zip(bases, parts, strict=True)]
    size = max(1 << 13, _BLOCK // max(1, len(parts)))
    blocks = [_extend_block(contour, parts, bases, slice(i, i + size)) for i in range(0, len(contour.s), size)]
    return replace(
        contour,
        s=np.concatenate([block.s for block in blocks]),
        logs=np.concatenate([block.logs for block in blocks]),
        slack=np.concatenate([block.slack for block in blocks]),
        base=contour.base + fsum(products),
        base_error=contour.base_error + 2 * EPS * fsum(abs(p) for p in products) + EPS * abs(contour.base),
        tail=(contour.tail + fsum(block.tail for block in blocks)) * excess,
        envelope=contour.envelope * total_decay_bound(parts, contour.c, contour.reach) * excess,
        cgf_table=cgf_table,
        max_loss=contour.max_loss + total_max_loss(parts),
    )


def _extend_block(contour: Contour, parts: Parts, bases: list[float], part: slice) -> Contour:
    """Some of the nodes with all parts multiplied in; `tail` is what was dropped among them."""
    block = replace(contour, s=contour.s[part], logs=contour.logs[part], slack=contour.slack[part], tail=0.0)
    logs, slack = block.logs, block.slack
    for i, ((law, times), base) in enumerate(zip(parts, bases, strict=True)):
        ratio = law.mgf_ratio(contour.c, base, block.s)
        size = ratio.log.real
        wide = np.logaddexp(np.log(ratio.error + 1e-300), size) - size  # ln((|r| + error)/|r|)
        slack = slack + float(times) * (wide * (1 + 8 * EPS) + 4 * EPS * (1 + np.abs(ratio.log)))
        logs = logs + float(times) * ratio.log
        slack = slack + EPS * np.abs(logs)  # the rounding of this addition
        if i + 1 == len(parts) or i % 8 == 7:
            block = drop_small_nodes(replace(block, logs=logs, slack=slack), logs.real + slack)
            logs, slack = block.logs, block.slack
    return block


def drop_small_nodes(contour: Contour, size: Floats) -> Contour:
    """Without the nodes whose terms stay below e^cut, given bounds on ln|Π M/M(c)| there."""
    bound = size - contour.smoothing / 2 * contour.s * contour.s - 2 * np.log(np.maximum(contour.s, contour.c))
    keep = (bound > min(contour.log_cutoff, 600.0)) | (contour.s == 0)  # e^600 is already no bound at all
    if keep.all():
        return contour
    lost = float(np.exp(np.minimum(bound[~keep], 700.0)).sum()) * (1 + 1e-9)
    return replace(contour, s=contour.s[keep], logs=contour.logs[keep], slack=contour.slack[keep], tail=contour.tail + lost)


def drop_nodes_early(contour: Contour, parts: Parts) -> Contour:
    """Drop, by cheap bounds on |M| alone, most of the nodes that many parts together make small."""
    if len(parts) < _MANY_PARTS or len(contour.s) < 1024:
        return contour
    near = contour.s[:256]
    total, size = (
        replace(contour, s=contour.s[256:], logs=contour.logs[256:], slack=contour.slack[256:]),
        np.zeros(len(contour.s) - 256),
    )
    for i, (law, times) in enumerate(parts):
        size = size + float(times) * law.modulus_bounds(contour.c, total.s)
        if i % 8 == 7 or i + 1 == len(parts):
            before = total.s
            total = drop_small_nodes(total, size)
            if len(total.s) < len(before):
                size = size[np.isin(before, total.s, assume_unique=True)]
    keep = len(near)
    return replace(
        total,
        s=np.concatenate([near, total.s]),
        logs=np.concatenate([contour.logs[:keep], total.logs]),
        slack=np.concatenate([contour.slack[:keep], total.slack]),
    )
