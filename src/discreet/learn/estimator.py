"""What all models share: parameters by scikit-learn's conventions, one debit for each fit, and nothing else that reads rows.

A model declares (`_declare`), lists the noisy vectors that it releases (`_list_vectors`), computes them from the rows
(`_release`, the only place where rows are seen), and shows what follows from them (`_show`, which is post-processing). The
parameters of the constructor are kept as they are given and checked by `fit`. scikit-learn is not needed, and not imported
unless it asks for its tags.
"""

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any, ClassVar, Self

import numpy as np

from discreet import __version__
from discreet._numbers import Number, check_int
from discreet.accounting.cost import Cost
from discreet.errors import BadParameter, DiscreetError
from discreet.events import Composition
from discreet.learn.charging import (
    Fit,
    FitPlan,
    Fitted,
    NoisyVector,
    Payer,
    Released,
    make_terms,
    plan_fit,
    read_neighbours,
    run_fit,
    to_plain,
)
from discreet.learn.features import (
    CategoryFeature,
    ColumnBounds,
    ColumnSource,
    Design,
    Features,
    Name,
    NumericFeature,
    Target,
)
from discreet.learn.records import Records, Rows, to_records
from discreet.ledger.chain import LedgerAccount
from discreet.mechanisms.gaussian import Gaussian
from discreet.noise import Bits
from discreet.query.schema import Key
from discreet.session.session import Session
from discreet.units import Neighbours

MAX_EXPECTED = 1 << 40


class NotFitted(DiscreetError, ValueError, AttributeError):
    """The model has no coefficients yet."""


class ScoreRefused(BadParameter, AttributeError):  # type: ignore[misc]  # both have a `name`: what was asked for
    """A private model has no exact score."""


class CopiedFit(UserWarning):
    """A copy that scikit-learn made is fitted: what its meta-estimators compute of rows is not private."""


class StoredWithoutAccount:
    """Stands for the account of a model that was pickled: an account is not stored with a model."""

    def __repr__(self) -> str:
        return "<not stored>"


@dataclass(frozen=True)
class Declaration:
    """All that is public about a fit before any row is read."""

    records: Records | None  # None: a quote
    features: Features
    target: Target
    payer: Payer
    neighbours: Neighbours
    expected: int
    max_rows: int = 1


class PrivateEstimator(ABC):
    """A model that is fitted with noise, for one debit. See `docs/learn.md`."""

    KIND: ClassVar[str] = "model"  # of scikit-learn's kinds: "classifier", "regressor", "clusterer", "transformer"
    NEEDS_TARGET: ClassVar[bool] = True
    NEEDS_EXPECTED: ClassVar[bool] = True

    epsilon: Number | None
    delta: Number | None
    bounds: ColumnBounds | None
    categories: Mapping[Any, Sequence[Key]] | None
    expected: int | None
    neighbours: Neighbours | str | None
    account: Payer

    event_: Composition
    cost_: Cost
    n_features_in_: int
    _is_copy: bool = False  # whether scikit-learn's clone made it

    # -- what a model adds ------------------------------------------------------------------------------------------------

    @abstractmethod
    def _list_vectors(self, declared: Declaration) -> tuple[NoisyVector, ...]:
        """Return what is released, and how far one unit moves it. Checks the model's own parameters."""

    @abstractmethod
    def _list_shapes(self, declared: Declaration) -> Mapping[str, tuple[int, ...]]:
        """Return the shapes of what is released. They do not depend on the rows."""

    @abstractmethod
    def _release(self, declared: Declaration, rows: Rows, noises: Mapping[str, Gaussian], bits: Bits) -> Released:
        """Compute exact integer sums of the rows, and add noise. Runs after the debit: no row may make it fail."""

    @abstractmethod
    def _show(self, declared: Declaration, plan: FitPlan, released: Released) -> None:
        """Set what the model shows, from what was released alone."""

    def _read_target(self, records: Records | None) -> Target:
        """Return what is predicted, as it is declared."""
        return None

    # -- fit and cost -----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, bits: Bits | None = None, id: str | None = None, **others: Any) -> Self:
        """Charge the account, read the records, and fit. Each call is a new debit.

        `X` is a frame, a dict of columns or an array, with the targets `y`; or what `session.records(…)` returns. `id` makes
        a retry free, for records of a session. `bits` are for tests: with any but the system's the model says so.
        """
        refuse_options(others)
        records, declared, plan = self._prepare(X, y)
        self._check_copy(declared.payer)
        settings = {"class": type(self).__name__, **{name: to_plain(each) for name, each in self._list_settings().items()}}
        fit = Fit(
            records, declared.features, declared.target, declared.neighbours, settings, plan,
            lambda rows, noises, source: self._release(declared, rows, noises, source), dict(self._list_shapes(declared)),
        )  # fmt: skip
        fitted = run_fit(fit, bits=bits, id=id)
        self._keep(declared, fitted)
        self._show(declared, plan, fitted.released)
        return self

    def quote(self, X: Any, y: Any = None) -> Cost:
        """Return what a fit on these records will cost, and what remains of the budget. Nothing is charged, no row is read.

        `X` and `y` are as in `fit`. What `fit` would refuse before the debit is refused here.
        """
        return self._prepare(X, y)[2].cost

    def _prepare(self, X: Any, y: Any) -> tuple[Records, Declaration, FitPlan]:
        """Check all that is declared about records, and plan the noise: whatever comes before the debit."""
        records = to_records(X, y)
        declared = self._declare(records)
        records.check(declared.features, declared.target)
        return records, declared, self._make_plan(declared)

    def _keep(self, declared: Declaration, fitted: Fitted) -> None:
        self._declared_features, self._declared_target = declared.features, declared.target
        self._fitted, self.event_, self.cost_ = fitted, fitted.event, fitted.cost
        self._session_account = declared.payer.account if isinstance(declared.payer, Session) else declared.payer
        self._keep_names(declared.features.names)
        if self.KIND == "classifier" and isinstance(declared.target, CategoryFeature):
            self.classes_ = np.array(declared.target.keys)

    def _keep_names(self, names: Sequence[Name]) -> None:
        """Show the declared columns as scikit-learn does: how many there are, and their names if all have one."""
        self.n_features_in_ = len(names)
        if all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, object)
        else:
            vars(self).pop("feature_names_in_", None)

    @property
    def plan(self) -> FitPlan:
        """The noise and the cost of a fit, before it: nothing is charged and no row is read."""
        return self._make_plan(self._declare(None))

    @property
    def cost(self) -> Cost:
        """What a fit will cost: ε at δ, and what remains of the account's budget. Nothing is charged."""
        return self.plan.cost

    def _make_plan(self, declared: Declaration) -> FitPlan:
        return self._plan(declared, self._list_vectors(declared))

    def _plan(self, declared: Declaration, vectors: Sequence[NoisyVector]) -> FitPlan:
        what = f"{type(self).__name__}"
        return plan_fit(vectors, make_terms(self.epsilon, self.delta, declared.payer, what), declared.payer)

    def _declare(self, records: Records | None) -> Declaration:
        """Read the parameters. Whatever they lack or contradict is refused here, before any charge."""
        payer = self._find_payer(records)
        if records is not None and self.NEEDS_TARGET:
            records.check_target()
        bounds, categories = self.bounds, self.categories
        if records is not None and records.declared_bounds() is not None:
            bounds, categories = merge_declarations(records, bounds, categories)
        if not bounds and not categories:
            raise BadParameter(
                "bounds", "missing", "they are declared, never read off the data",
                'give bounds={"age": (17, 90)} for numbers and categories={"sex": ("F", "M")} for texts; '
                "for an array, one pair for all columns or a list of pairs",
            )  # fmt: skip
        features = Features.of(bounds, categories, () if records is None else records.columns)
        return Declaration(
            records, features, self._read_target(records), payer, read_neighbours(self.neighbours, payer),
            self._read_expected(), 1 if records is None else records.max_rows,
        )  # fmt: skip

    def _read_expected(self) -> int:
        if not self.NEEDS_EXPECTED:
            return 1
        if self.expected is None:
            raise BadParameter(
                "expected", "missing", "about how many records there are must be public: it is never counted here",
                "give a round guess: expected=26_000",
            )  # fmt: skip
        return check_int(self.expected, "expected", 1)

    def _find_payer(self, records: Records | None) -> Payer:
        payer = find_payer(records, self.account)
        if isinstance(self.account, StoredWithoutAccount):
            raise BadParameter(
                "account", "not stored", "a stored model has no account", "set_params(account=…), or None for one in memory"
            )
        if payer is not None and not isinstance(payer, Session) and not hasattr(payer, "reserve"):
            raise BadParameter(
                "account", f"of type {type(payer).__name__}", "neither a session nor an account",
                "give what connect() returns for local data, or an account of a ledger",
            )  # fmt: skip
        return payer

    # -- what can be predicted --------------------------------------------------------------------------------------------

    def _encode(self, X: Any) -> Design:
        """Return the design of rows to predict for, which are the caller's own."""
        features = self._require_fitted()._declared_features
        table = ColumnSource.of(X)
        if table.count != self.n_features_in_:
            name, expected = type(self).__name__, self.n_features_in_
            reason = f"X has {table.count} features, but {name} is expecting {expected} features as input"
            names = ", ".join(f"`{each}`" for each in features.names if isinstance(each, str))
            hint = "give the columns that the model was fitted on" + (f": {names}" if names else "")
            raise BadParameter("X", "of another shape", reason, hint)
        return features.encode(X)

    def _require_fitted(self) -> Self:
        if not self.__sklearn_is_fitted__():
            raise make_not_fitted(self)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "event_")

    @property
    def score(self) -> Any:
        """Refused: a score on private records is a release with a cost of its own. scikit-learn finds no such method."""
        raise ScoreRefused(
            "score", "not a method of private models", "an exact score of private records is not private",
            "release a noisy one with discreet.learn.release_metrics; to choose among settings, use discreet.learn.select",
        )  # fmt: skip

    def certify(self, key: Any) -> dict[str, Any]:
        """Return the certificate of the fit: signed, and checked by `discreet verify`. Only a ledger's fits have one."""
        from discreet.ledger.certificate import make_certificate

        fitted = self._require_fitted()._fitted
        account = getattr(self, "_session_account", None)
        if not isinstance(account, LedgerAccount):
            raise BadParameter("account", "not in a ledger", "only a ledger's fits have a certificate", "fit with a ledger")
        reference = fitted.reference
        return make_certificate(
            account, reference.entry, measurement=reference.measurement, answer=reference.record,
            depends_on=reference.after, software=f"discreet {__version__}", key=key, tainted=fitted.tainted,
        )  # fmt: skip

    # -- scikit-learn's conventions ---------------------------------------------------------------------------------------

    @classmethod
    def _parameter_names(cls) -> list[str]:
        found = signature(cls.__init__).parameters.values()
        return sorted(each.name for each in found if each.name != "self" and each.kind is not Parameter.VAR_KEYWORD)

    def _list_settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._parameter_names() if name != "account"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the constructor."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters of the constructor."""
        names = self._parameter_names()
        for name, value in params.items():
            if name not in names:
                raise BadParameter(
                    "params", repr(name), f"not a parameter of {type(self).__name__}", f"take {', '.join(names)}"
                )
            if self._is_copy and name != "account" and value is not getattr(self, name):
                raise BadParameter(
                    "params", repr(name), "changed in a copy that scikit-learn made, which is how its searches try "
                    "settings: each of their fits would be charged, and their scores are exact, so not private",
                    "choose settings with discreet.learn.select, which charges one debit for all fits; or construct the "
                    "model with the parameter",
                )  # fmt: skip
            setattr(self, name, value)
        return self

    def _copy(self) -> Self:
        """Return an unfitted model with the same parameters and the same account: an account is never copied."""
        return type(self)(**{name: v if name == "account" else deepcopy(v) for name, v in self.get_params().items()})

    def __sklearn_clone__(self) -> Self:
        """Return a copy that knows that it is one: only an account pays for its fits, and its parameters stay."""
        copied = self._copy()
        copied._is_copy = True
        return copied

    def _check_copy(self, payer: Payer) -> None:
        """Refuse to fit a copy that no account pays for, and warn of what is done with other copies.

        scikit-learn's meta-estimators and cross-validation fit copies, which is all that its public interface tells of them.
        """
        if not self._is_copy:
            return
        if payer is None:
            raise BadParameter(
                "account", "missing", "this is a copy that scikit-learn made: cross-validation and meta-estimators fit "
                "several, and no budget limits them",
                "give account=, whose budget each fit is charged to; to choose settings, use discreet.learn.select",
            )  # fmt: skip
        warnings.warn(
            f"A copy of {type(self).__name__} that scikit-learn made is fitted, and charged to the account. What cross-"
            "validation, calibration, stacking or a step before it computes of the rows beside is exact, and not private.",
            CopiedFit,
            stacklevel=3,
        )

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if state.get("account") is not None:
            state["account"] = StoredWithoutAccount()
        state.pop("_session_account", None)
        return state

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=self.KIND if self.KIND in ("classifier", "regressor", "clusterer") else None,
            target_tags=TargetTags(required=self.NEEDS_TARGET),
            transformer_tags=TransformerTags() if self.KIND == "transformer" else None,
            classifier_tags=ClassifierTags() if self.KIND == "classifier" else None,
            regressor_tags=RegressorTags(poor_score=True) if self.KIND == "regressor" else None,
            non_deterministic=True,
            requires_fit=True,
            input_tags=InputTags(allow_nan=True, string=True, categorical=True),
        )

    def __repr__(self) -> str:
        defaults = {name: each.default for name, each in signature(type(self).__init__).parameters.items()}
        params = self.get_params()
        shown = [f"{name}={self._show_parameter(name, each)}" for name, each in params.items() if each is not defaults[name]]
        return f"{type(self).__name__}({', '.join(shown)})"

    @staticmethod
    def _show_parameter(name: str, value: Any) -> str:
        return f"<{type(value).__name__}>" if name == "account" else repr(value)


def make_not_fitted(model: PrivateEstimator) -> Exception:
    """Return the error of a model that is not fitted: scikit-learn's own where that is loaded, which its tools catch."""
    message = f"This {type(model).__name__} instance is not fitted yet. Call fit(X, y) first."
    loaded = sys.modules.get("sklearn.exceptions")
    if loaded is not None:
        return loaded.NotFittedError(message)  # type: ignore[no-any-return]
    return NotFitted(message)


def merge_declarations(records: Records, bounds: Any, categories: Any) -> tuple[Any, Any]:
    """Return the bounds and categories of a policy, where the model has none of its own for a column."""
    if not isinstance(bounds, Mapping | None):
        raise BadParameter("bounds", repr(bounds), "the columns have names", 'give bounds={"age": (17, 90)}')
    own = {**(bounds or {}), **(categories or {})}
    policy_bounds, policy_keys = records.declared_bounds() or {}, records.declared_categories() or {}
    merged = {name: each for name, each in policy_bounds.items() if name not in own} | dict(bounds or {})
    keys = {name: each for name, each in policy_keys.items() if name not in own} | dict(categories or {})
    return merged, keys


def find_payer(records: Records | None, account: Payer) -> Payer:
    """Return who pays: the session of the records, or the account."""
    own = getattr(records, "session", None)
    if own is None:
        return account
    if account is not None and account is not own:
        raise BadParameter("account", "given", "records of a session are charged to its account", "leave it out")
    return own  # type: ignore[no-any-return]


REFUSED_OPTIONS = {
    "sample_weight": "weights of records would change how far one of them moves a sum",
    "warm_start": "each fit starts anew, and is paid anew",
    "random_state": "noise whose seed is known protects no person",
    "class_weight": "weights of records would change how far one of them moves a sum",
}


def refuse_options(given: Mapping[str, Any]) -> None:
    """Refuse what scikit-learn's models take and a private model cannot."""
    for name, value in given.items():
        if value is None:
            continue
        if name not in REFUSED_OPTIONS:
            raise TypeError(f"fit() got an unexpected keyword argument {name!r}")
        raise BadParameter(name, "given", REFUSED_OPTIONS[name], "leave it out")


def read_classes(given: Any, records: Records | None) -> CategoryFeature:
    """Return the declared classes of a classifier, its own or the keys of the target in a policy; at least two."""
    classes = getattr(records, "target_keys", None) if given is None else given
    if classes is None:
        raise _make_missing_target("classes", records, "keys", 'classes=("no", "yes")')
    found = CategoryFeature("classes", tuple(classes))
    if len(found.keys) < 2:
        raise BadParameter("classes", repr(found.keys), "a classifier needs two", 'give classes=("no", "yes")')
    return found


def read_target_bounds(bounds: Any, records: Records | None) -> NumericFeature:
    """Return the declared bounds of the numbers that a regression predicts."""
    declared = getattr(records, "target_bounds", None) if bounds is None else bounds
    if declared is None:
        raise _make_missing_target("target_bounds", records, "bounds", "target_bounds=(0, 100), for example")
    try:
        lower, upper = declared
    except (TypeError, ValueError):
        raise BadParameter("target_bounds", repr(declared), "not a pair", "give (lower, upper)") from None
    return NumericFeature("target", lower, upper)


def _make_missing_target(parameter: str, records: Records | None, declared: str, example: str) -> BadParameter:
    """Return the refusal of a target about which nothing is declared; of a session's table it names the column."""
    name = None if records is None else records.target_name
    if name is None:
        return BadParameter(parameter, "missing", "they are declared, never read off the data", f"give {example}")
    reason = f"`{name}` is to be predicted, and its {declared} are not declared: they are never read off the data"
    return BadParameter(parameter, "missing", reason, f"give {example}, or declare {declared} of `{name}` in the policy")


__all__ = ["Declaration", "PrivateEstimator", "read_classes", "read_target_bounds", "refuse_options"]
