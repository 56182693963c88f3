"""What tells two inputs apart: features of outputs, the columns that differ most, and scores learned from them.

Theory of operation
-------------------
1. *Select columns.* All numbers of the training outputs are compared, and at most `MAX_COLUMNS` columns are kept
   (`select_informative_columns`). Four statistics rank them, each for another kind of leak: the distance of the means in
   standard errors (a shift), the largest distance of the distribution functions (another distribution), and the excess of
   a chi-square statistic over chance, of the exact values (atoms) and of their lowest bits (floating-point grids). The best
   of each are taken in turn, so the statistics need not be comparable.
2. *List features* of these columns: categorical ones (equal or not) and numeric ones (smaller or larger).
3. *Learn scores.* A score is a number for every output. The log-likelihood ratio of a feature is estimated on the training
   outputs; by the Neyman–Pearson lemma its level sets are the most powerful tests. All of them together are added up as a
   naive Bayes score.

No certified bound depends on these choices; they decide only how powerful the attack is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.auditor.outputs import Floats, Ints, Outputs, merge_columns, to_bits
from discreet.auditor.parse_output import PLACE_OF_LARGEST, ROOT, SUMMARY, TEXT_OF

MAX_ORDERED = 6
KIND, EXACT_OUTPUT = "the kind of output", "the exact output"
PRESENT, SIGNS, ORDER = "the set of present numbers", "the signs", "the order"
EXACTLY, LOWEST_BIT = "the exact value of ", "the lowest bit of "
NO_EXPONENT = 9999
"""The trailing exponent of zero, and of what is not a number."""


@dataclass(frozen=True)
class CategoricalFeature:
    """A feature with values that are equal or not."""

    name: str
    compute: Callable[[Outputs], Ints]


@dataclass(frozen=True)
class NumericFeature:
    """A feature with values that are smaller or larger; NaN where an output has none."""

    name: str
    compute: Callable[[Outputs], Floats]


def list_features(
    columns: tuple[str, ...], exact: tuple[str, ...], lowest: tuple[str, ...]
) -> tuple[list[CategoricalFeature], list[NumericFeature]]:
    """Return the features of outputs with these columns; the exact values and the lowest bits of some of them."""
    numbers = tuple(name for name in columns if not name.startswith("the ") and name not in SUMMARY)
    categorical = [
        CategoricalFeature(KIND, lambda outputs: outputs.kinds),
        CategoricalFeature(EXACT_OUTPUT, lambda outputs: outputs.digests),
    ]
    categorical += [CategoricalFeature(f"{LOWEST_BIT}{name}", _trailing(name)) for name in lowest]
    categorical += [
        CategoricalFeature(f"{EXACTLY}{name}", _exact_bits(name)) for name in exact if not name.startswith(TEXT_OF)
    ]
    categorical += [CategoricalFeature(name, _code(name)) for name in columns if _is_categorical(name)]
    numeric = [NumericFeature(name, _column(name)) for name in columns if not _is_categorical(name)]
    if len(numbers) > 1:
        categorical += [
            CategoricalFeature(PRESENT, lambda o: _mix_codes((~np.isnan(o.get_numbers(numbers))).astype(np.int64))),
            CategoricalFeature(SIGNS, lambda o: _mix_codes(np.sign(_fill_missing(o, numbers, 0.0)).astype(np.int64))),
        ]
    if 1 < len(numbers) <= MAX_ORDERED:
        categorical.append(
            CategoricalFeature(
                ORDER, lambda o: _mix_codes(np.argsort(_fill_missing(o, numbers, np.inf), axis=1, kind="stable"))
            )
        )
    return categorical, numeric


def _is_categorical(name: str) -> bool:
    return name.startswith(TEXT_OF) or name == PLACE_OF_LARGEST


def compute_trailing_exponents(values: Floats) -> Ints:
    """Return the exponent of the lowest bit that is set: the grid that a double lies on [Mir12].

    >>> compute_trailing_exponents(np.array([1.0, 0.5, 3.0, 0.75, 0.0])).tolist()
    [0, -1, 0, -2, 9999]
    """
    mantissa, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.log2((whole & -whole).astype(np.float64) + (whole == 0)).astype(np.int64)
    return np.where(whole == 0, NO_EXPONENT, exponent - 53 + lowest)


def _column(name: str) -> Callable[[Outputs], Floats]:
    return lambda outputs: outputs.get_numbers((name,))[:, 0]


def _trailing(name: str) -> Callable[[Outputs], Ints]:
    return lambda outputs: compute_trailing_exponents(outputs.get_numbers((name,))[:, 0])


def _exact_bits(name: str) -> Callable[[Outputs], Ints]:
    return lambda outputs: to_bits(outputs.get_numbers((name,))[:, 0])


def _code(name: str) -> Callable[[Outputs], Ints]:
    return lambda outputs: np.nan_to_num(outputs.get_numbers((name,))[:, 0], nan=-1.0).astype(np.int64)


def _fill_missing(outputs: Outputs, columns: tuple[str, ...], missing: float) -> Floats:
    numbers = outputs.get_numbers(columns)
    return np.where(np.isnan(numbers), missing, numbers)


def _mix_codes(codes: Ints) -> Ints:
    """Combine the codes of each row into one."""
    mixed = np.zeros(len(codes), np.uint64)
    for j in range(codes.shape[1]):
        mixed = (
            (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9) + codes[:, j].astype(np.uint64) + np.uint64(1)
        )
    return mixed.view(np.int64)


# -- the columns that differ most -------------------------------------------------------------------------------------------


MAX_COLUMNS = 64
MAX_CODED_COLUMNS = 4
"""Columns of which the exact values and the lowest bits are features."""
MAX_COMPARED = 1 << 23
"""Numbers that are compared at most, unless that would be fewer than `MIN_COMPARED` outputs per input."""
MIN_COMPARED = 6
MAX_SCREENED_COLUMNS = 1 << 16
"""Of more columns than these, only those whose means differ most are compared in full."""
STRIP_SIZE = 1 << 20
"""Numbers that are compared at a time."""


@dataclass(frozen=True)
class InformativeColumns:
    """The columns that are kept, and those of which exact values and lowest bits are features."""

    columns: tuple[str, ...]
    exact: tuple[str, ...]
    lowest: tuple[str, ...]


def select_informative_columns(left: Outputs, right: Outputs) -> InformativeColumns:
    """Choose the columns to learn from."""
    names = merge_columns([left, right])
    single = [j for j, name in enumerate(names.own) if name not in SUMMARY]
    summary = [name for name in names.own if name in SUMMARY]
    width = len(single) + len(names) - len(names.own)
    if width <= 1:
        columns = (*summary, *(name for name in names if name not in SUMMARY))
        return InformativeColumns(columns, (), tuple(filter(_is_single_number, columns)))
    rows = max(MIN_COMPARED, MAX_COMPARED // (2 * width))
    a, b = (side.select_rows(0, rows).align_columns(names) for side in (left, right))
    places = np.concatenate([np.array(single, np.int64), np.arange(len(names.own), len(names))])
    if width > MAX_SCREENED_COLUMNS:
        shifts = _apply_in_strips(_compute_mean_shifts, a, b, places)[0]
        places = np.sort(places[np.argsort(-shifts, kind="stable")[:MAX_SCREENED_COLUMNS]])
    separations = _apply_in_strips(_compute_separations, a, b, places)
    ranks = np.argsort(-separations, axis=1, kind="stable")
    best, exact, lowest = (
        [names[int(places[j])] for j in chosen]
        for chosen in (_interleave_ranks(ranks), ranks[2][:MAX_CODED_COLUMNS], ranks[3][: 2 * MAX_CODED_COLUMNS])
    )
    lowest = [name for name in lowest if _is_single_number(name)][:MAX_CODED_COLUMNS]
    return InformativeColumns((*summary, *best), tuple(exact), tuple(lowest))


def _is_single_number(name: str) -> bool:
    return not name.startswith(TEXT_OF) and name not in SUMMARY


def _interleave_ranks(ranks: NDArray[np.int64]) -> list[int]:
    """Take the best columns of each ranking in turn, until there are enough; return them in their original order."""
    return sorted(list(dict.fromkeys(ranks.T[:MAX_COLUMNS].ravel().tolist()))[:MAX_COLUMNS])


def _apply_in_strips(
    separation: Callable[[Floats, Floats], Floats], a: Floats, b: Floats, places: NDArray[np.int64]
) -> Floats:
    """Compute the statistics of these columns, some columns at a time."""
    step = max(1, STRIP_SIZE // (len(a) + len(b)))
    strips = (places[i : i + step] for i in range(0, len(places), step))
    return np.concatenate([separation(a[:, strip], b[:, strip]) for strip in strips], axis=1)


def _compute_separations(a: Floats, b: Floats) -> Floats:
    """Compute the four statistics of each column, one row each."""
    pooled = np.concatenate([a, b])
    far, apart = _compare_distributions(np.where(np.isnan(pooled), -np.inf, pooled), len(a))
    _, grid = _compare_distributions(compute_trailing_exponents(pooled).astype(np.float64), len(a))
    return np.stack([_compute_mean_shifts(a, b)[0], far, apart, grid])


def _compute_mean_shifts(a: Floats, b: Floats) -> Floats:
    """Compute the distance of the means in standard errors, as one row; missing numbers count as 0."""
    sides = [np.clip(np.nan_to_num(side, nan=0.0), -1e100, 1e100) for side in (a, b)]
    means = [side.mean(axis=0) for side in sides]
    spread = sum(side.var(axis=0) / len(side) for side in sides)
    floor = 1e-15 * (1 + np.abs(means[0]) + np.abs(means[1]))  # where all values are equal
    return np.asarray(np.abs(means[0] - means[1]) / np.sqrt(spread + floor**2))[None]


def _compare_distributions(pooled: Floats, first: int) -> tuple[Floats, Floats]:
    """Compare the first rows of each column with the others.

    Returns the largest distance of the distribution functions, and by how many standard deviations Σ (o − e)²/e over the
    distinct values exceeds its expectation.
    """
    rows, width = pooled.shape
    second = rows - first
    order = np.argsort(pooled, axis=0, kind="stable")
    ordered = np.take_along_axis(pooled, order, axis=0)
    starts = np.ones((rows, width), bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    in_first = (order < first).T  # column by column, so that equal values form runs
    run = np.cumsum(starts.T.ravel()) - 1
    a = np.bincount(run, weights=in_first.ravel())
    size = np.bincount(run).astype(np.float64)
    column = np.repeat(np.arange(width), rows)[starts.T.ravel()]
    excess = (a * second - (size - a) * first) ** 2 / (first * second * size) - 1
    noise = np.bincount(column, weights=2 * (1 - 1 / size), minlength=width)
    chi = np.bincount(column, weights=excess, minlength=width) / np.sqrt(noise + 1)
    gaps = np.cumsum(a / first - (size - a) / second)  # every column adds up to 0, so the sum restarts in each
    far = np.zeros(width)
    np.maximum.at(far, column, np.abs(gaps))
    return far, chi


# -- scores -----------------------------------------------------------------------------------------------------------------


BINS = 64
MAX_SHOWN = 8
MIN_CODE_COUNT = 8
"""Codes seen less often than this in training are pooled."""
LOWEST_SCORE = -1e300


@dataclass(frozen=True)
class Score:
    """A number for every output; `simple` if its events are plain inequalities."""

    name: str
    compute: Callable[[Outputs], Floats]
    describe: Callable[[float, bool], str]
    simple: bool = False


def learn_scores(left: Outputs, right: Outputs, informative: InformativeColumns) -> list[Score]:
    """Learn scores that rise where the left input is likelier, and take the numeric features themselves as scores."""
    categorical, numeric = list_features(informative.columns, informative.exact, informative.lowest)
    labels = {**left.labels, **right.labels}
    scores = [_learn_categorical(feature, left, right, labels) for feature in categorical]
    binned = [_learn_binned(feature, left, right) for feature in numeric]
    scores += [_make_threshold_score(feature) for feature in numeric] + [score for score in binned if score is not None]
    own = [not feature.name.startswith("the ") and feature.name not in SUMMARY for feature in numeric]
    single = [score for score, is_own in zip(binned, own, strict=True) if score and is_own]
    if len(single) > 1:
        scores.append(_sum_scores([*single, scores[0]]))
    return scores


def _log_ratio(a: Floats, b: Floats) -> Floats:
    """Estimate the log-likelihood ratio from counts, shrunk towards 0 where counts are small."""
    total, other = max(1.0, float(a.sum())), max(1.0, float(b.sum()))
    prior = (a + b) / (total + other)
    return np.asarray(np.log((a + prior) / (total + 1)) - np.log((b + prior) / (other + 1)), np.float64)


def _learn_categorical(feature: CategoricalFeature, left: Outputs, right: Outputs, labels: dict[int, str]) -> Score:
    """Learn a log-ratio per code."""
    a, b = feature.compute(left), feature.compute(right)
    values, first, places = np.unique(np.concatenate([a, b]), return_index=True, return_inverse=True)
    in_a = np.bincount(places[: len(a)], minlength=len(values)).astype(np.float64)
    in_b = np.bincount(places[len(a) :], minlength=len(values)).astype(np.float64)
    common = in_a + in_b >= (1 if feature.name == KIND else MIN_CODE_COUNT)
    known = values[common]
    pooled = _log_ratio(
        np.append(in_a[common], in_a[~common].sum()) + 1e-9, np.append(in_b[common], in_b[~common].sum()) + 1e-9
    )

    def compute(outputs: Outputs) -> Floats:
        return pooled[_find_codes(feature.compute(outputs), known)]

    def describe(threshold: float, above: bool) -> str:
        inside = pooled >= threshold if above else pooled < threshold
        names = [
            _format_code(feature, int(known[i]), labels) or _format_output(left, right, int(first[common][i]))
            for i in np.flatnonzero(inside[:-1])
        ]
        if inside[-1]:
            names.append("any rare value")
        more = f" or {len(names) - 6} others" if len(names) > 6 else ""
        return f"{feature.name} is {' or '.join(names[:6])}{more}"

    return Score(feature.name, compute, describe)


def _format_code(feature: CategoricalFeature, value: int, labels: dict[int, str]) -> str:
    """Write a value of a feature; empty where an example of an output says it better."""
    if feature.name == KIND:
        return labels.get(value, str(value))
    if feature.name in (EXACT_OUTPUT, PRESENT, SIGNS, ORDER):
        return ""
    if feature.name.startswith(EXACTLY):
        return f"{np.int64(value).view(np.float64):.10g}"
    if feature.name.startswith(TEXT_OF):
        return labels.get(value, "missing")
    return f"2^{value}" if feature.name.startswith(LOWEST_BIT) else str(value)


def _format_output(left: Outputs, right: Outputs, i: int) -> str:
    """Write one output in short."""
    side, at = (left, i) if i < len(left) else (right, i - len(left))
    present = [(name, x) for name, x in zip(side.columns, side.numbers[at], strict=True) if not np.isnan(x)]
    texts = [(name.removeprefix(TEXT_OF), side.labels.get(int(x))) for name, x in present if name.startswith(TEXT_OF)]
    if texts:
        return ", ".join(f"{name} = {text}" for name, text in texts[:MAX_SHOWN])
    numbers = [(name, x) for name, x in present if name not in SUMMARY][:MAX_SHOWN]
    if not numbers:
        return f"that of {side.labels.get(int(side.kinds[at]), 'an empty output')}"
    if numbers[0][0].startswith(("the ", f"{ROOT}[")):
        return " ".join(f"{x:.10g}" for _, x in numbers)
    return ", ".join(name if name.startswith("has ") else f"{name} = {x:.10g}" for name, x in numbers)


def _find_codes(codes: Ints, known: Ints) -> Ints:
    """Return the index of each code among the known ones, and one past the end for others."""
    if not len(known):
        return np.zeros(len(codes), np.int64)
    at = np.minimum(np.searchsorted(known, codes), len(known) - 1)
    return np.where(known[at] == codes, at, len(known))


def _make_threshold_score(feature: NumericFeature) -> Score:
    def describe(threshold: float, above: bool) -> str:
        return f"{feature.name} is {'at least' if above else 'below'} {threshold:.6g}" + ("" if above else " or missing")

    return Score(
        feature.name,
        lambda outputs: np.nan_to_num(feature.compute(outputs), nan=LOWEST_SCORE, neginf=LOWEST_SCORE),
        describe,
        simple=True,
    )


def _learn_binned(feature: NumericFeature, left: Outputs, right: Outputs) -> Score | None:
    """Learn a log-ratio per bin; the bins hold about equally many outputs, and missing values have their own."""
    a, b = feature.compute(left), feature.compute(right)
    known = np.concatenate([a, b])
    known = known[np.isfinite(known)]
    if not known.size:
        return None
    edges = np.unique(np.quantile(known, np.linspace(0, 1, BINS + 1)[1:-1]))

    def find_bins(values: Floats) -> Ints:
        return np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values, "right"))

    counts = [np.bincount(find_bins(side), minlength=len(edges) + 2).astype(np.float64) for side in (a, b)]
    ratios = _log_ratio(counts[0] + 1e-9, counts[1] + 1e-9)

    def describe(threshold: float, above: bool) -> str:
        inside = ratios >= threshold if above else ratios < threshold
        return f"{feature.name} lies in {_format_intervals(edges, inside[:-1])}{' or is missing' if inside[-1] else ''}"

    return Score(feature.name, lambda outputs: ratios[find_bins(feature.compute(outputs))], describe)


def _format_intervals(edges: Floats, inside: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> str:
    ends = np.concatenate([[-np.inf], edges, [np.inf]])
    padded = np.concatenate([[False], inside, [False]]).astype(np.int8)
    starts, stops = (np.flatnonzero(np.diff(padded) == step) for step in (1, -1))
    intervals = [f"[{ends[i]:.6g}, {ends[j]:.6g})" for i, j in zip(starts, stops, strict=True)]
    return " or ".join(intervals[:4]) + (f" or {len(intervals) - 4} other intervals" if len(intervals) > 4 else "")


def _sum_scores(parts: Sequence[Score]) -> Score:
    """Add up the log-ratios of all features: naive Bayes."""

    def compute(outputs: Outputs) -> Floats:
        return np.asarray(np.sum([part.compute(outputs) for part in parts], axis=0), np.float64)

    def describe(threshold: float, above: bool) -> str:
        return f"the log-ratios of {len(parts)} features add up to {'at least' if above else 'less than'} {threshold:.4g}"

    return Score("all features together", compute, describe)
