"""What is looked at in an answer: codes (this or that) and sizes (more or less)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.auditor.outputs import Floats, Ints, Outputs, merge_columns, to_bits
from discreet.auditor.parse_output import PLACE_OF_LARGEST, SUMMARY, TEXT_OF

MAX_ORDERED = 6
EXACTLY, LOWEST_BIT = "the exact value of ", "the lowest bit of "
NO_EXPONENT = 9999
"""The trailing exponent of zero, and of what is no number."""


@dataclass(frozen=True)
class CategoricalFeature:
    """A feature with values that are equal or not."""

    name: str
    compute: Callable[[Outputs], Ints]


@dataclass(frozen=True)
class NumericFeature:
    """A feature with values that are smaller or larger; NaN where an answer has none."""

    name: str
    compute: Callable[[Outputs], Floats]


def list_features(
    columns: tuple[str, ...], exact: tuple[str, ...], lowest: tuple[str, ...]
) -> tuple[list[CategoricalFeature], list[NumericFeature]]:
    """Everything that is looked at, for answers with these columns: of some the exact values, of some the lowest bits."""
    numbers = tuple(name for name in columns if not name.startswith("the ") and name not in SUMMARY)
    codes = [
        CategoricalFeature("the sort of answer", lambda a: a.kinds),
        CategoricalFeature("the exact answer", lambda a: a.digests),
    ]
    codes += [CategoricalFeature(f"{LOWEST_BIT}{name}", _trailing(name)) for name in lowest]
    codes += [CategoricalFeature(f"{EXACTLY}{name}", _exact_bits(name)) for name in exact if not name.startswith(TEXT_OF)]
    codes += [
        CategoricalFeature(name, _code(name)) for name in columns if name.startswith(TEXT_OF) or name == PLACE_OF_LARGEST
    ]
    sizes = [
        NumericFeature(name, _column(name)) for name in columns if not name.startswith(TEXT_OF) and name != PLACE_OF_LARGEST
    ]
    if len(numbers) > 1:
        codes += [
            CategoricalFeature(
                "which are there", lambda a: _mix_codes((~np.isnan(a.get_numbers(numbers))).astype(np.int64))
            ),
            CategoricalFeature("the signs", lambda a: _mix_codes(np.sign(_numbers(a, numbers, 0.0)).astype(np.int64))),
        ]
    if 1 < len(numbers) <= MAX_ORDERED:
        codes.append(
            CategoricalFeature(
                "the order", lambda a: _mix_codes(np.argsort(_numbers(a, numbers, np.inf), axis=1, kind="stable"))
            )
        )
    return codes, sizes


def compute_trailing_exponents(values: Floats) -> Ints:
    """The exponent of the lowest bit that is set: the grid that a double lies on [Mir12].

    >>> compute_trailing_exponents(np.array([1.0, 0.5, 3.0, 0.75, 0.0])).tolist()
    [0, -1, 0, -2, 9999]
    """
    mantissa, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.log2((whole & -whole).astype(np.float64) + (whole == 0)).astype(np.int64)
    return np.where(whole == 0, NO_EXPONENT, exponent - 53 + lowest)


def _column(name: str) -> Callable[[Outputs], Floats]:
    return lambda answers: answers.get_numbers((name,))[:, 0]


def _trailing(name: str) -> Callable[[Outputs], Ints]:
    return lambda answers: compute_trailing_exponents(answers.get_numbers((name,))[:, 0])


def _exact_bits(name: str) -> Callable[[Outputs], Ints]:
    return lambda answers: to_bits(answers.get_numbers((name,))[:, 0])


def _code(name: str) -> Callable[[Outputs], Ints]:
    return lambda answers: np.nan_to_num(answers.get_numbers((name,))[:, 0], nan=-1.0).astype(np.int64)


def _numbers(answers: Outputs, columns: tuple[str, ...], missing: float) -> Floats:
    found = answers.get_numbers(columns)
    return np.where(np.isnan(found), missing, found)


def _mix_codes(codes: Ints) -> Ints:
    """One code per row."""
    found = np.zeros(len(codes), np.uint64)
    for j in range(codes.shape[1]):
        found = (
            (found ^ (found >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9) + codes[:, j].astype(np.uint64) + np.uint64(1)
        )
    return found.view(np.int64)


# Which numbers of an answer tell two inputs apart most: all of them are looked at, on the training part, and few are kept.
#
# Four measures rank the columns, each for another kind of leak: the distance of the means in standard errors (a shift), the
# largest distance of the distribution functions (a shape), and twice the excess of a chi-square over what chance
# explains, of
# the exact values (atoms) and of their lowest bits (grids). The best of each are kept in turn, so no measure needs to be
# compared with another. Nothing depends on this choice but the power of the attack.


MAX_COLUMNS = 64
MAX_CODED_COLUMNS = 4
"""Of so many columns the exact values and the lowest bits are looked at."""
MAX_COMPARED = 1 << 23
"""Numbers that are compared at most, unless fewer than `FEWEST` answers a side would be."""
MIN_COMPARED = 6
MAX_SCREENED_COLUMNS = 1 << 16
"""Of more columns than these, those whose means differ most are looked at more closely."""
STRIP_SIZE = 1 << 20
"""Numbers that are compared at a time."""


@dataclass(frozen=True)
class InformativeColumns:
    """The columns that are kept, and those of which exact values and lowest bits are looked at."""

    columns: tuple[str, ...]
    exact: tuple[str, ...]
    lowest: tuple[str, ...]


def select_informative_columns(left: Outputs, right: Outputs) -> InformativeColumns:
    """The columns to learn from."""
    names = merge_columns([left, right])
    single = [j for j, name in enumerate(names.own) if name not in SUMMARY]
    always = [name for name in names.own if name in SUMMARY]
    width = len(single) + len(names) - len(names.own)
    if width <= 1:
        every = (*always, *(name for name in names if name not in SUMMARY))
        return InformativeColumns(every, (), tuple(filter(_is_numeric, every)))
    rows = max(MIN_COMPARED, MAX_COMPARED // (2 * width))
    a, b = (side.select_rows(0, rows).align_columns(names) for side in (left, right))
    places = np.concatenate([np.array(single, np.int64), np.arange(len(names.own), len(names))])
    if width > MAX_SCREENED_COLUMNS:
        places = np.sort(
            places[
                np.argsort(-_apply_in_strips(_compute_mean_shifts, a, b, places)[0], kind="stable")[:MAX_SCREENED_COLUMNS]
            ]
        )
    measures = _apply_in_strips(_compute_separations, a, b, places)
    ranks = np.argsort(-measures, axis=1, kind="stable")
    kept, exact, lowest = (
        [names[int(places[j])] for j in found]
        for found in (_interleave_ranks(ranks), ranks[2][:MAX_CODED_COLUMNS], ranks[3][: 2 * MAX_CODED_COLUMNS])
    )
    return InformativeColumns((*always, *kept), tuple(exact), tuple(filter(_is_numeric, lowest))[:MAX_CODED_COLUMNS])


def _is_numeric(name: str) -> bool:
    return not name.startswith(TEXT_OF) and name not in SUMMARY


def _interleave_ranks(ranks: NDArray[np.int64]) -> list[int]:
    """The best columns of each measure in turn, until there are enough; in the order in which they stand."""
    return sorted(list(dict.fromkeys(ranks.T[:MAX_COLUMNS].ravel().tolist()))[:MAX_COLUMNS])


def _apply_in_strips(
    separation: Callable[[Floats, Floats], Floats], a: Floats, b: Floats, places: NDArray[np.int64]
) -> Floats:
    """The measures of these columns, some at a time."""
    step = max(1, STRIP_SIZE // (len(a) + len(b)))
    strips = (places[i : i + step] for i in range(0, len(places), step))
    return np.concatenate([separation(a[:, strip], b[:, strip]) for strip in strips], axis=1)


def _compute_separations(a: Floats, b: Floats) -> Floats:
    """The four measures of each column, one row each."""
    pooled = np.concatenate([a, b])
    far, apart = _compare_distributions(np.where(np.isnan(pooled), -np.inf, pooled), len(a))
    _, grid = _compare_distributions(compute_trailing_exponents(pooled).astype(np.float64), len(a))
    return np.stack([_compute_mean_shifts(a, b)[0], far, apart, grid])


def _compute_mean_shifts(a: Floats, b: Floats) -> Floats:
    """The means' distance in standard errors, as one row; what is missing counts as 0."""
    sides = [np.clip(np.nan_to_num(side, nan=0.0), -1e100, 1e100) for side in (a, b)]
    means = [side.mean(axis=0) for side in sides]
    spread = sum(side.var(axis=0) / len(side) for side in sides)
    least = 1e-15 * (1 + np.abs(means[0]) + np.abs(means[1]))  # where all are alike
    return np.asarray(np.abs(means[0] - means[1]) / np.sqrt(spread + least**2))[None]


def _compare_distributions(pooled: Floats, first: int) -> tuple[Floats, Floats]:
    """Per column, the first rows against the others: the largest distance of the distribution functions, and by how many
    standard deviations Σ (o − e)²/e over the distinct values exceeds what chance explains."""
    rows, width = pooled.shape
    second = rows - first
    order = np.argsort(pooled, axis=0, kind="stable")
    ordered = np.take_along_axis(pooled, order, axis=0)
    starts = np.ones((rows, width), bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    mine = (order < first).T  # column after column, so that runs of equal values follow each other
    run = np.cumsum(starts.T.ravel()) - 1
    a = np.bincount(run, weights=mine.ravel())
    size = np.bincount(run).astype(np.float64)
    column = np.repeat(np.arange(width), rows)[starts.T.ravel()]
    excess = (a * second - (size - a) * first) ** 2 / (first * second * size) - 1
    noise = np.bincount(column, weights=2 * (1 - 1 / size), minlength=width)
    chi = np.bincount(column, weights=excess, minlength=width) / np.sqrt(noise + 1)
    gaps = np.cumsum(a / first - (size - a) / second)  # every column adds up to 0, so the sum starts anew in each
    far = np.zeros(width)
    np.maximum.at(far, column, np.abs(gaps))
    return far, chi


# Learning what tells two inputs apart: numbers for answers, from log-ratios on the training part.


BINS = 64
MAX_SHOWN = 8
MIN_CODE_COUNT = 8
"""A code seen less often than this while learning is pooled with all other rare ones."""
LOWEST_SCORE = -1e300


@dataclass(frozen=True)
class Score:
    """A number for every answer; `simple` if its events are plain statements about a size."""

    name: str
    compute: Callable[[Outputs], Floats]
    describe: Callable[[float, bool], str]
    simple: bool = False


def learn_scores(left: Outputs, right: Outputs, informative: InformativeColumns) -> list[Score]:
    """Scores that rise where the left side is likelier, and the plain sizes, over the numbers that tell most."""
    codes, sizes = list_features(informative.columns, informative.exact, informative.lowest)
    sorts = {**left.labels, **right.labels}
    scores = [_learn_categorical(code, left, right, sorts) for code in codes]
    binned = [_learn_binned(size, left, right) for size in sizes]
    scores += [_make_threshold_score(size) for size in sizes] + [score for score in binned if score is not None]
    own = [not size.name.startswith("the ") and size.name not in SUMMARY for size in sizes]
    single = [score for score, counts in zip(binned, own, strict=True) if score and counts]
    if len(single) > 1:
        scores.append(_sum_scores([*single, scores[0]]))
    return scores


def _log_ratio(a: Floats, b: Floats) -> Floats:
    """ln of the ratio of shares, drawn towards 0 where there is little to go by."""
    total, other = max(1.0, float(a.sum())), max(1.0, float(b.sum()))
    prior = (a + b) / (total + other)
    return np.asarray(np.log((a + prior) / (total + 1)) - np.log((b + prior) / (other + 1)), np.float64)


def _learn_categorical(code: CategoricalFeature, left: Outputs, right: Outputs, sorts: dict[int, str]) -> Score:
    """A log-ratio per code."""
    a, b = code.compute(left), code.compute(right)
    values, first, places = np.unique(np.concatenate([a, b]), return_index=True, return_inverse=True)
    in_a = np.bincount(places[: len(a)], minlength=len(values)).astype(np.float64)
    in_b = np.bincount(places[len(a) :], minlength=len(values)).astype(np.float64)
    common = in_a + in_b >= (1 if code.name == "the sort of answer" else MIN_CODE_COUNT)
    kept = values[common]
    pooled = _log_ratio(
        np.append(in_a[common], in_a[~common].sum()) + 1e-9, np.append(in_b[common], in_b[~common].sum()) + 1e-9
    )

    def of(answers: Outputs) -> Floats:
        return pooled[_find_codes(code.compute(answers), kept)]

    def says(threshold: float, above: bool) -> str:
        inside = pooled >= threshold if above else pooled < threshold
        chosen = np.flatnonzero(inside[:-1])
        named = [_name_code(code, int(kept[i]), sorts) or _format_output(left, right, int(first[common][i])) for i in chosen]
        if inside[-1]:
            named.append("one of the rare rest")
        more = f" or {len(named) - 6} others" if len(named) > 6 else ""
        return f"{code.name} is {' or '.join(named[:6])}{more}"

    return Score(code.name, of, says)


def _name_code(code: CategoricalFeature, value: int, sorts: dict[int, str]) -> str:
    if code.name == "the sort of answer":
        return sorts.get(value, str(value))
    if code.name in ("the exact answer", "which are there", "the signs", "the order"):
        return ""
    if code.name.startswith(EXACTLY):
        return f"{np.int64(value).view(np.float64):.10g}"
    if code.name.startswith(TEXT_OF):
        return sorts.get(value, "missing")
    return f"2^{value}" if code.name.startswith(LOWEST_BIT) else str(value)


def _format_output(left: Outputs, right: Outputs, i: int) -> str:
    """An answer that has the code, in short."""
    side, at = (left, i) if i < len(left) else (right, i - len(left))
    told = [(name, x) for name, x in zip(side.columns, side.numbers[at], strict=True) if not np.isnan(x)]
    texts = [(name.removeprefix(TEXT_OF), side.labels.get(int(x))) for name, x in told if name.startswith(TEXT_OF)]
    if texts:
        return ", ".join(f"{name} = {text}" for name, text in texts[:MAX_SHOWN])
    there = [(name, x) for name, x in told if name not in SUMMARY][:MAX_SHOWN]
    if not there:
        return f"that of {side.labels.get(int(side.kinds[at]), 'an empty answer')}"
    if there[0][0].startswith(("the ", "answer[")):
        return " ".join(f"{x:.10g}" for _, x in there)
    return ", ".join(name if name.startswith("has ") else f"{name} = {x:.10g}" for name, x in there)


def _find_codes(found: Ints, kept: Ints) -> Ints:
    """Where each code stands among those that were kept; past the end if it was not."""
    if not len(kept):
        return np.zeros(len(found), np.int64)
    at = np.minimum(np.searchsorted(kept, found), len(kept) - 1)
    return np.where(kept[at] == found, at, len(kept))


def _make_threshold_score(size: NumericFeature) -> Score:
    def says(threshold: float, above: bool) -> str:
        return f"{size.name} is {'at least' if above else 'below'} {threshold:.6g}" + ("" if above else " or missing")

    return Score(
        size.name,
        lambda answers: np.nan_to_num(size.compute(answers), nan=LOWEST_SCORE, neginf=LOWEST_SCORE),
        says,
        simple=True,
    )


def _learn_binned(size: NumericFeature, left: Outputs, right: Outputs) -> Score | None:
    """A log-ratio per bin, the bins holding about equally many answers; a bin of its own for what has no such size."""
    a, b = size.compute(left), size.compute(right)
    known = np.concatenate([a, b])
    known = known[np.isfinite(known)]
    if not known.size:
        return None
    edges = np.unique(np.quantile(known, np.linspace(0, 1, BINS + 1)[1:-1]))

    def bins(values: Floats) -> Ints:
        return np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values, "right"))

    counts = [np.bincount(bins(side), minlength=len(edges) + 2).astype(np.float64) for side in (a, b)]
    ratios = _log_ratio(counts[0] + 1e-9, counts[1] + 1e-9)

    def says(threshold: float, above: bool) -> str:
        inside = ratios >= threshold if above else ratios < threshold
        return f"{size.name} lies in {_format_intervals(edges, inside[:-1])}{' or is missing' if inside[-1] else ''}"

    return Score(size.name, lambda answers: ratios[bins(size.compute(answers))], says)


def _format_intervals(edges: Floats, inside: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> str:
    ends = np.concatenate([[-np.inf], edges, [np.inf]])
    padded = np.concatenate([[False], inside, [False]]).astype(np.int8)
    starts, stops = (np.flatnonzero(np.diff(padded) == step) for step in (1, -1))
    shown = [f"[{ends[i]:.6g}, {ends[j]:.6g})" for i, j in zip(starts, stops, strict=True)]
    return " or ".join(shown[:4]) + (f" or {len(shown) - 4} other intervals" if len(shown) > 4 else "")


def _sum_scores(parts: Sequence[Score]) -> Score:
    """Naive Bayes: the log-ratios added up."""

    def of(answers: Outputs) -> Floats:
        return np.asarray(np.sum([part.compute(answers) for part in parts], axis=0), np.float64)

    def says(threshold: float, above: bool) -> str:
        return f"the log-ratios of {len(parts)} features add up to {'at least' if above else 'less than'} {threshold:.4g}"

    return Score("all features together", of, says)
