"""Estimators, metrics and selection on records of a session: one debit each, with what the policy declares."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.errors import BadParameter
from discreet.learn import BinnedNB, GaussianNB, KMeans, LogisticRegression, Moments, release_metrics, select
from discreet.session.connect import connect
from discreet.session.session import Session

POLICY: dict[str, Any] = {
    "unit": "id",
    "bounds": {"age": (18, 65), "pay": (0, 120)},
    "keys": {"dept": ["a", "b"], "state": ["here", "gone"]},
}


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """People with one or two rows each."""
    generator, path = np.random.default_rng(0), tmp_path / "people.csv"
    lines = ["id,age,dept,pay,state"]
    for person in range(1500):
        for _ in range(generator.integers(1, 3)):
            age, dept = generator.integers(15, 70), generator.choice(["a", "b", "z"])
            state = "gone" if generator.random() < 1 / (1 + np.exp(-(age - 40) / 4)) else "here"
            lines.append(f"{person},{age},{dept},{age + generator.normal():.2f},{state}")
    path.write_text("\n".join(lines) + "\n")
    return connect(path, **POLICY, epsilon=20, delta=1e-5, currency="pure")


def test_a_fit_and_its_metrics_on_units_apart_are_one_debit_each(session: Session) -> None:
    train, test = session.records("age", "dept", "pay", target="state").split("1/3")
    start = session.account.budget.remaining
    model = BinnedNB(epsilon=2, delta=1e-6, account=session).fit(train)
    fitted = session.account.budget.remaining
    assert start - 2 <= fitted < start
    found = release_metrics(model, test, metrics=("accuracy", "auc"), epsilon=2, delta=1e-6)
    assert fitted - 2 <= session.account.budget.remaining < fitted
    assert 0.6 < found["accuracy"].value < 1
    assert found["auc"].lower < 0.93
    with pytest.raises(BadParameter, match="account"):
        release_metrics(model, test, epsilon=1, delta=1e-6, account=object())  # type: ignore[arg-type]


def test_two_records_of_a_unit_cost_twice_the_noise(session: Session) -> None:
    one = session.records("age", "pay", target="state")
    two = session.records("age", "pay", target="state", max_rows=2)
    model = GaussianNB(epsilon=1, delta=1e-6, account=session)
    sigmas = [model._plan(each, model._list_vectors(each)).noises["sums"].sigma for each in map(model._declare, (one, two))]
    assert abs(float(sigmas[1] / sigmas[0]) - 2) < 1e-4
    assert model.fit(two).theta_.shape == (2, 2)


def test_moments_and_clusters_need_no_target(session: Session) -> None:
    records = session.records("age", "pay")
    moments = Moments(epsilon=2, delta=1e-6).fit(records)
    assert abs(moments.fit_ridge("pay").coef_[0] - 1) < 0.3
    clusters = KMeans(2, epsilon=2, delta=1e-6, expected=1500).fit(records)
    assert clusters.cluster_centers_.shape == (2, 2)


def test_a_selection_is_one_debit_in_a_session(session: Session) -> None:
    records = session.records("age", "pay", target="state")
    before = session.account.budget.remaining
    found = select([BinnedNB(bins=1), BinnedNB(bins=8)], records, epsilon=4, delta=1e-6)
    assert found.candidate in (0, 1)
    assert before - 4 <= session.account.budget.remaining < before - Fraction(39, 10)
    assert (found.model.predict({"age": [20, 60], "pay": [20, 60]}) == ["here", "gone"]).all() or found.candidate == 0


def test_scores_of_models_of_gradients_are_those_of_their_predictions(session: Session) -> None:
    records = session.records("age", "pay", target="state")
    model = LogisticRegression(epsilon=3, delta=1e-6, expected=1500, account=session).fit(records)
    rows = {"age": [20, 40, 60], "pay": [20.0, 40.0, 60.0]}
    scores = model.score_rows(model._declared_features.encode(rows))
    assert np.allclose(scores[:, 1] - scores[:, 0], model.decision_function(rows))
