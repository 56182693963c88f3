"""One question to a record, and a class for each answer: what few records or a small ε can still tell.

**Theory of operation.** A rule asks whether a number reaches one of the public cuts between its bins, or whether a category
is a certain key, and names a class for yes and another one for no; or it names one class for all records. The score of a
rule is the number of records that it classifies rightly. One rule is chosen among all of them by permute-and-flip or by the
exponential mechanism, and only the choice is released.

Noisy sums for every column have noise that grows with the number of columns; a choice has one that grows with its logarithm:
the chosen rule is wrong on about ln(rules)/ε more records than the best one. So with n·ε below some hundreds, one question
is worth more than weights for all columns that noise exceeds. With more records the other models are better.

**Proof** of the sensitivity. A record adds 1 to the scores of the rules that classify it rightly, and 0 to the others; one
whose class is not declared adds 0 to all. So adding a unit of k records raises every score by 0 to k, and none falls: the
scores are monotone with Δ = k, and a choice at the rate ε/k is ε-private [MS20; DR14, ch. 3]. Replacing a unit takes away 0
to k and adds 0 to k: a score moves by at most k, in either direction, and the rate is ε/2k. Which rules there are follows
from the declaration. ∎
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np

from discreet._numbers import Number, check_int, nearest_float
from discreet.errors import BadParameter
from discreet.learn.charging import ChoicePlan, FitPlan, NoisyVector, Payer, Released, make_choice_terms, plan_choice
from discreet.learn.estimator import Declaration, PrivateEstimator, read_classes
from discreet.learn.features import ColumnBounds, Design, Features, Ints, Target
from discreet.learn.naive_bayes import BINS, BinLayout, count_classes
from discreet.learn.records import Records, Rows
from discreet.learn.scoring import LOWEST, Classifying, Floats
from discreet.mechanisms.gaussian import Gaussian
from discreet.noise import Bits
from discreet.query.schema import Key
from discreet.units import Neighbours

MAX_RULES = 1 << 20


@dataclass(frozen=True)
class Rule:
    """A question about a column, and the positions of the classes of records that answer yes and no."""

    feature: int  # of all columns, numbers first; −1 if nothing is asked
    at: int  # the first bin above the cut of a number, or the position of a key
    yes: int
    no: int


class RuleList:
    """All rules about declared columns, in a fixed order: first one for each class, without a question."""

    def __init__(self, layout: BinLayout, classes: int) -> None:
        self.layout, self.classes = layout, classes
        self.pairs = [*permutations(range(classes), 2)]

    @cached_property
    def questions(self) -> list[tuple[int, int]]:
        """The feature of each question, and its bin."""
        numbers = len(self.layout.features.numbers)
        return [
            (feature, at) for feature, size in enumerate(self.layout.sizes) for at in range(int(feature < numbers), size)
        ]

    def __len__(self) -> int:
        return self.classes + len(self.questions) * len(self.pairs)

    def __getitem__(self, place: int) -> Rule:
        if place < self.classes:
            return Rule(-1, 0, place, place)
        question, pair = divmod(place - self.classes, len(self.pairs))
        return Rule(*self.questions[question], *self.pairs[pair])

    def count_right(self, rows: Rows) -> Ints:
        """Return how many records each rule classifies rightly."""
        numbers = len(self.layout.features.numbers)
        counts = self.layout.count_bins(rows, self.classes)
        totals = np.bincount(rows.target[rows.present], minlength=self.classes).astype(np.int64)
        yes = np.zeros((len(self.questions), self.classes), np.int64)
        for row, (feature, at) in enumerate(self.questions):
            offset, size = self.layout.offsets[feature], self.layout.sizes[feature]
            last = offset + size if feature < numbers else offset + at + 1
            yes[row] = counts[:, offset + at : last].sum(axis=1)
        first, second = (np.array(each, np.intp) for each in zip(*self.pairs, strict=True))
        right = yes[:, first] + (totals - yes)[:, second]
        return np.concatenate([totals, right.ravel()])


class Stump(Classifying, PrivateEstimator):
    """The one question about one column that tells classes best, chosen privately: for few records, or a small ε.

    It is ε-private without a δ. `rule_` says what is asked. Only the choice is released, so nothing is known of how sure a
    prediction is: `predict_proba` gives the predicted class nearly 1.

    Args:
        epsilon: The ε of one fit. Each call of `fit` is a debit.
        delta: Not needed where ε is counted; an account in another currency reads ε at it.
        bounds: The range of each column of numbers: {"age": (17, 90)}. For an array one pair, or a list of pairs.
        categories: The keys of each column of categories: {"sex": ("F", "M")}. All other values are one category, "other".
        classes: The classes, in the order of the columns of `predict_proba`. Records of other classes do not count.
        bins: A number is cut at the ends of so many bins of equal width between its bounds.
        neighbours: "add-remove" one unit, or "replace" one; a session has its own.
        account: The session, or the account of a ledger, that pays. None: a budget in memory, with a warning from the second
            fit on.

    >>> import numpy as np
    >>> from discreet.testing import seeded_bits
    >>> generator = np.random.default_rng(0)
    >>> y = generator.integers(0, 2, 500)
    >>> X = {"age": 40 + 30 * y + generator.normal(0, 10, 500), "sex": generator.choice(["F", "M"], 500)}
    >>> model = Stump(epsilon=0.2, bounds={"age": (0, 100)}, categories={"sex": ("F", "M")}, classes=("no", "yes"))
    >>> model.fit(X, np.where(y, "yes", "no"), bits=seeded_bits(1)).rule_
    "age ≥ 56.25: 'yes', else 'no'"
    >>> model.predict({"age": [30, 70], "sex": ["M", "F"]}).tolist()
    ['no', 'yes']
    """

    KIND = "classifier"
    NEEDS_EXPECTED = False

    rule_: str

    def __init__(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        bounds: ColumnBounds | None = None,
        categories: Mapping[Any, Sequence[Key]] | None = None,
        classes: Sequence[Key] | None = None,
        bins: int = BINS,
        neighbours: Neighbours | str | None = None,
        account: Payer = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.categories = epsilon, delta, bounds, categories
        self.classes, self.bins, self.neighbours, self.account = classes, bins, neighbours, account

    def _read_target(self, records: Records | None) -> Target:
        return read_classes(self.classes, records)

    def _list_rules(self, declared: Declaration) -> RuleList:
        found = RuleList(BinLayout(declared.features, check_int(self.bins, "bins", 1)), count_classes(declared))
        if len(found) > MAX_RULES:
            raise BadParameter(
                "bins", self.bins, f"with so many columns and classes there are more than {MAX_RULES:,} rules",
                "take fewer bins, columns or classes",
            )  # fmt: skip
        return found

    def _list_vectors(self, declared: Declaration) -> tuple[NoisyVector, ...]:
        """Refused: code that plans noise for sums would leave the choice unpaid."""
        raise BadParameter(
            "model", "a Stump", "it releases a choice among rules, and no sums with Gaussian noise",
            "fit it on its own, or take another model here",
        )  # fmt: skip

    def _make_plan(self, declared: Declaration) -> ChoicePlan:
        self._list_rules(declared)
        terms = make_choice_terms(self.epsilon, self.delta, declared.payer, type(self).__name__)
        return plan_choice(declared.max_rows, declared.neighbours, terms, declared.payer)

    def _list_shapes(self, declared: Declaration) -> Mapping[str, tuple[int, ...]]:
        return {"chosen": (1,)}

    def _release(self, declared: Declaration, rows: Rows, noises: Mapping[str, Gaussian], bits: Bits) -> Released:
        scores = self._list_rules(declared).count_right(rows)
        return {"chosen": np.array([self._make_plan(declared).choice.release(scores.tolist(), bits)], np.int64)}

    def _show(self, declared: Declaration, plan: FitPlan, released: Released) -> None:
        rules = self._list_rules(declared)
        self._layout, self._rule, self._class_count = rules.layout, rules[int(released["chosen"][0])], rules.classes
        keys = declared.target.keys  # type: ignore[union-attr]
        asked = describe_question(rules.layout, self._rule)
        self.rule_ = (
            f"{asked}: {keys[self._rule.yes]!r}, else {keys[self._rule.no]!r}"
            if asked
            else f"always {keys[self._rule.yes]!r}"
        )

    def score_rows(self, design: Design) -> Floats:
        """Return 0 for the class that the rule names, and the least score for the others."""
        rule, numbers = self._rule, len(self._layout.features.numbers)
        scores = np.full((design.rows, self._class_count), float(LOWEST))
        if rule.feature < 0:
            scores[:, rule.yes] = 0.0
            return scores
        found = self._layout.find_bins(design)[rule.feature]
        said = found >= rule.at if rule.feature < numbers else found == rule.at
        scores[np.arange(design.rows), np.where(said, rule.yes, rule.no)] = 0.0
        return scores


def describe_question(layout: BinLayout, rule: Rule) -> str:
    """Return what a rule asks, in the units of its column; an empty text if it asks nothing."""
    features: Features = layout.features
    if rule.feature < 0:
        return ""
    if rule.feature < len(features.numbers):
        number = features.numbers[rule.feature]
        cut = number.lower + (number.upper - number.lower) * rule.at / layout.bins
        return f"{number.name} ≥ {nearest_float(cut):g}"
    category = features.categories[rule.feature - len(features.numbers)]
    return f"{category.name} = {category.keys[rule.at]!r}" if rule.at < len(category.keys) else f"{category.name} is another"


__all__ = ["Stump"]
