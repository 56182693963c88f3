"""Learning what tells two inputs apart: numbers for answers, from log-ratios on the training part."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from discreet.auditor.answers import Floats, Ints, Outputs
from discreet.auditor.features import EXACTLY, LOWEST_BIT, CategoricalFeature, NumericFeature, list_features
from discreet.auditor.reading import SUMMARY, TEXT_OF
from discreet.auditor.telling import InformativeColumns

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
