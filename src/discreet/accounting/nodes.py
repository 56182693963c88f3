"""Filling a contour with the values of the laws at its nodes, and leaving out the nodes that provably do not matter.

For every law |M(c + is)| ≤ M(c). So the product over *some* of the parts bounds the size of a node's whole term, for
now and for every part that is composed later: a node below e^cut is dropped for good, and its bound is added to the error.
This is not
"the term is small, stop": every node is looked at, and lattice losses may revive as they like.
"""

from dataclasses import replace
from math import exp, frexp, fsum, ldexp

import numpy as np

from discreet.accounting.contour import Line
from discreet.accounting.ladder import Ladder, Parts, envelope, largest
from discreet.accounting.laws import EPS, Floats

_BLOCK = 1 << 17  # nodes times parts worked on at once, but at least 2^13 nodes
_MANY = 12  # parts from which on a cheap bound is taken first


def short(step: float) -> float:
    """`step` rounded down to 24 bits, so that its multiples by whole numbers below 2^29 are exact doubles."""
    mantissa, exponent = frexp(step)
    return ldexp(int(mantissa * (1 << 24)), exponent - 24)


def prepare(parts: Parts, ladder: Ladder, c: float, step: float, count: int, smooth: float, cut: float) -> Line:
    """A contour with nodes n·step, n < count, for these parts."""
    s, reach = step * np.arange(float(count)), step * (count - 1)
    zeros = np.zeros(count)
    empty = Line(c, step, s, zeros.astype(complex), zeros, 0.0, 0.0, 0.0, reach, 1.0, smooth, cut, ladder, 0.0)
    return extend(thin(empty, parts), parts, ladder)


def extend(line: Line, parts: Parts, ladder: Ladder) -> Line:
    """The contour of what it had and `parts` together; `ladder` is K of all of it."""
    reals = [law.real(np.array([line.c])) for law, _ in parts]
    bases = [float(value[0]) for value, _ in reals]
    # |M(c + is)| ≤ M(c) ≤ e^{base + error}: what parts can contribute at nodes that were dropped before they were looked at.
    excess = exp(min(700.0, fsum(times * float(error[0]) for (_, times), (_, error) in zip(parts, reals, strict=True))))
    products = [base * times for base, (_, times) in zip(bases, parts, strict=True)]
    size = max(1 << 13, _BLOCK // max(1, len(parts)))
    blocks = [_block(line, parts, bases, slice(i, i + size)) for i in range(0, len(line.s), size)]
    return replace(
        line,
        s=np.concatenate([block.s for block in blocks]),
        logs=np.concatenate([block.logs for block in blocks]),
        slack=np.concatenate([block.slack for block in blocks]),
        base=line.base + fsum(products),
        base_error=line.base_error + 2 * EPS * fsum(abs(p) for p in products) + EPS * abs(line.base),
        tail=(line.tail + fsum(block.tail for block in blocks)) * excess,
        envelope=line.envelope * envelope(parts, line.c, line.reach) * excess,
        ladder=ladder,
        most=line.most + largest(parts),
    )


def _block(line: Line, parts: Parts, bases: list[float], part: slice) -> Line:
    """Some of the nodes with all parts multiplied in; `tail` is what was dropped among them."""
    block = replace(line, s=line.s[part], logs=line.logs[part], slack=line.slack[part], tail=0.0)
    logs, slack = block.logs, block.slack
    for i, ((law, times), base) in enumerate(zip(parts, bases, strict=True)):
        ratio = law.ratio(line.c, base, block.s)
        size = ratio.log.real
        wide = np.logaddexp(np.log(ratio.error + 1e-300), size) - size  # ln((|r| + error)/|r|)
        slack = slack + float(times) * (wide * (1 + 8 * EPS) + 4 * EPS * (1 + np.abs(ratio.log)))
        logs = logs + float(times) * ratio.log
        if i + 1 == len(parts) or i % 8 == 7:
            block = dropped(replace(block, logs=logs, slack=slack), logs.real + slack)
            logs, slack = block.logs, block.slack
    return block


def dropped(line: Line, size: Floats) -> Line:
    """Without the nodes whose terms stay below e^cut, given bounds on ln|Π M/M(c)| there."""
    bound = size - line.smooth / 2 * line.s * line.s - 2 * np.log(np.maximum(line.s, line.c))
    keep = (bound > min(line.cut, 600.0)) | (line.s == 0)  # e^600 is already no bound at all
    if keep.all():
        return line
    lost = float(np.exp(np.minimum(bound[~keep], 700.0)).sum()) * (1 + 1e-9)
    return replace(line, s=line.s[keep], logs=line.logs[keep], slack=line.slack[keep], tail=line.tail + lost)


def thin(line: Line, parts: Parts) -> Line:
    """Drop, by cheap bounds on |M| alone, most of the nodes that many parts together make small."""
    if len(parts) < _MANY or len(line.s) < 1024:
        return line
    near = line.s[:256]
    total, size = replace(line, s=line.s[256:], logs=line.logs[256:], slack=line.slack[256:]), np.zeros(len(line.s) - 256)
    for i, (law, times) in enumerate(parts):
        size = size + float(times) * law.size(line.c, total.s)
        if i % 8 == 7 or i + 1 == len(parts):
            before = total.s
            total = dropped(total, size)
            if len(total.s) < len(before):
                size = size[np.isin(before, total.s, assume_unique=True)]
    keep = len(near)
    return replace(
        total,
        s=np.concatenate([near, total.s]),
        logs=np.concatenate([line.logs[:keep], total.logs]),
        slack=np.concatenate([line.slack[:keep], total.slack]),
    )
