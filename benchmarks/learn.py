"""Models that are fitted privately beside diffprivlib and the DP-EBM of interpret: how good they are at the same ε.

python benchmarks/learn.py [SEEDS]         prints the tables; with peers it takes minutes
python benchmarks/learn.py alone [SEEDS]   without the peers

Ours have one setting for all ε and all data: the defaults. Peers have several settings each, and the best of them at each ε,
by the same test rows, is reported. Test rows are public here, as the rows are made up or ship with scikit-learn.
"""

import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.adult_like import SIZES, draw_rows
from benchmarks.peers import DIFFPRIVLIB, interpreter
from benchmarks.table import Section
from discreet.learn import PCA, Additive, BinnedNB, GaussianNB, KMeans, LinearRegression, LogisticRegression, Moments, Stump

Floats = NDArray[np.float64]
HERE = Path(__file__).parent
INTERPRET = ["interpret-core==0.7.8", "scikit-learn==1.7.2", "pandas", "joblib"]
EPSILONS, DELTA, SEEDS = (0.1, 0.5, 1, 3), 1e-6, 20
PEER_SEEDS = {"peer_diffprivlib.py": 6, "peer_interpret.py": 3}
"""Peers take seconds for a fit: their means are over fewer runs, but on data of few rows."""
FEW_ROWS = 1_000
GOAL_SECONDS = 0.5
PATIENCE = 40
"""Seconds that a peer has for a fit in many columns."""

with_peers, seeds = True, SEEDS


class Data:
    """Rows: numbers with bounds, codes of categories, a target, and which rows are for training."""

    def __init__(
        self, name: str, numbers: Floats, bounds: list[tuple[float, float]], target: NDArray[Any], *,
        codes: NDArray[np.int64] | None = None, sizes: tuple[int, ...] = (),
        target_bounds: tuple[float, float] | None = None,
    ) -> None:  # fmt: skip
        self.name, self.numbers, self.bounds, self.target, self.sizes = name, numbers, bounds, target, sizes
        self.codes = np.zeros((len(numbers), 0), np.int64) if codes is None else codes
        self.target_bounds = target_bounds
        order = np.random.default_rng(0).permutation(len(numbers))
        self.train, self.test = order[: len(order) * 4 // 5], order[len(order) * 4 // 5 :]

    @property
    def rows(self) -> Floats:
        """Numbers and codes side by side."""
        return np.hstack([self.numbers, self.codes.astype(float)])

    @property
    def declared(self) -> dict[str, Any]:
        """Bounds and categories, by position."""
        width = self.numbers.shape[1]
        keys = {width + place: tuple(range(size)) for place, size in enumerate(self.sizes)}
        return {"bounds": dict(enumerate(self.bounds)), "categories": keys}

    @property
    def scaled(self) -> Floats:
        """Numbers in half-ranges from the middle of their bounds, from −1 to 1."""
        low, high = (np.array(each) for each in zip(*self.bounds, strict=True))
        return np.clip((self.numbers - (low + high) / 2) / ((high - low) / 2), -1, 1)

    @property
    def dense(self) -> Floats:
        """Numbers scaled, and one column for each key: what the peers' linear models take."""
        parts = [np.eye(size)[self.codes[:, place]] for place, size in enumerate(self.sizes)]
        return np.hstack([self.scaled, *parts])


# Data: made up, or of scikit-learn

NUMBERS = (0, 2, 10)


def split_adult(target: int) -> tuple[Floats, list[tuple[float, float]], NDArray[np.int64], tuple[int, ...]]:
    """The Adult-like rows without a column: three are numbers, the others categories."""
    rows = draw_rows()
    numbers = [column for column in NUMBERS if column != target]
    keys = [column for column in range(len(SIZES)) if column not in (*NUMBERS, target)]
    bounds = [(0.0, float(SIZES[column] - 1)) for column in numbers]
    return rows[:, numbers].astype(float), bounds, rows[:, keys], tuple(SIZES[column] for column in keys)


@cache
def adult() -> Data:
    """32,561 rows of 12 columns, a class of two."""
    numbers, bounds, codes, sizes = split_adult(7)
    return Data("Adult-like", numbers, bounds, draw_rows()[:, 7], codes=codes, sizes=sizes)


@cache
def generated() -> Data:
    """20,000 rows of 10 numbers, of which 6 matter, and not linearly."""
    from sklearn.datasets import make_classification

    rows, y = make_classification(20_000, 10, n_informative=6, n_clusters_per_class=3, class_sep=1.2, random_state=5)
    return Data("generated", rows, [(-5.0, 5.0)] * 10, y)


@cache
def cancer() -> Data:
    """The 569 rows of 30 numbers of scikit-learn's breast cancer data; bounds as round numbers."""
    from sklearn.datasets import load_breast_cancer

    rows, y = load_breast_cancer(return_X_y=True)
    return Data("breast cancer", rows, [(0.0, float(f"{high:.1g}")) for high in rows.max(axis=0)], y)


@cache
def digits() -> Data:
    """The 1,797 images of 8 × 8 of scikit-learn's digits."""
    from sklearn.datasets import load_digits

    rows, y = load_digits(return_X_y=True)
    return Data("digits", rows, [(0.0, 16.0)] * 64, y)


@cache
def adult_number() -> Data:
    """The Adult-like rows, one of the numbers as the target."""
    numbers, bounds, codes, sizes = split_adult(2)
    target = draw_rows()[:, 2].astype(float)
    return Data("Adult-like", numbers, bounds, target, codes=codes, sizes=sizes, target_bounds=(0.0, 15.0))


@cache
def friedman() -> Data:
    """20,000 rows of 10 numbers, Friedman's first function."""
    from sklearn.datasets import make_friedman1

    rows, y = make_friedman1(20_000, 10, noise=1.0, random_state=5)
    return Data("Friedman 1", rows, [(0.0, 1.0)] * 10, y, target_bounds=(0.0, 30.0))


@cache
def diabetes() -> Data:
    """The 442 rows of 10 numbers of scikit-learn's diabetes data."""
    from sklearn.datasets import load_diabetes

    rows, y = load_diabetes(return_X_y=True)
    return Data("diabetes", rows, [(-0.2, 0.2)] * 10, y, target_bounds=(0.0, 350.0))


@cache
def blobs() -> Data:
    """20,000 rows of 5 numbers around 5 centres that overlap."""
    from sklearn.datasets import make_blobs

    rows, y = make_blobs(20_000, 5, centers=5, cluster_std=2.5, random_state=3)
    return Data("blobs", rows, [(-20.0, 20.0)] * 5, y)


@cache
def adult_numbers() -> Data:
    """Five ordered columns of the Adult-like rows as numbers."""
    columns = (0, 2, 8, 9, 10)
    rows = draw_rows()[:, columns].astype(float)
    return Data("Adult-like", rows, [(0.0, float(SIZES[column] - 1)) for column in columns], rows[:, 0])


@cache
def factors() -> Data:
    """20,000 rows of 20 numbers that three factors move."""
    generator = np.random.default_rng(4)
    rows = generator.normal(0, 1, (20_000, 3)) @ generator.normal(0, 1, (3, 20)) + generator.normal(0, 0.7, (20_000, 20))
    return Data("three factors", rows, [(-8.0, 8.0)] * 20, rows[:, 0])


# How good a model is, on test rows that are public here


def measure_accuracy(data: Data, model: Any) -> float:
    """The share of right predictions."""
    return float((model.predict(data.rows[data.test]) == data.target[data.test]).mean())


def measure_r2(data: Data, model: Any) -> float:
    """R² of predictions."""
    wanted = data.target[data.test]
    predicted = model.predict(data.rows[data.test])
    return float(1 - ((wanted - predicted) ** 2).sum() / ((wanted - wanted.mean()) ** 2).sum())


def measure_inertia(data: Data, centres: Floats, best: float) -> float:
    """The inertia of all rows in half-ranges, divided by the best known."""
    gaps = [((data.scaled - each) ** 2).sum(axis=1) for each in centres]
    return float(np.min(gaps, axis=0).sum() / best)


def measure_captured(data: Data, components: Floats) -> float:
    """The share of variance that components capture, of what as many can."""
    centred = data.scaled - data.scaled.mean(axis=0)
    best = np.sort(np.linalg.eigvalsh(centred.T @ centred))[::-1][: len(components)].sum()
    basis = np.linalg.qr(components.T)[0]
    return float(((centred @ basis) ** 2).sum() / best)


def average(run: Callable[[float], float], runs: int | None = None) -> list[float]:
    """The mean over seeds, at each ε."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [float(np.mean([run(epsilon) for _ in range(runs or seeds)])) for epsilon in EPSILONS]


def ask_peer(script: str, packages: list[str], task: str, data: Data, extra: int = 0) -> Mapping[str, list[list[float]]]:
    """What a peer measures: for each setting, the mean at each ε."""
    if not with_peers:
        return {}
    runs = seeds if len(data.train) <= FEW_ROWS else min(seeds, PEER_SEEDS[script])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        save(data, path)
        command = [
            interpreter(script[5:-3], packages),
            HERE / script,
            task,
            path,
            json.dumps(EPSILONS),
            str(runs),
            str(extra),
        ]
        out = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, list[list[float]]] = json.loads(out.stdout.splitlines()[-1])
    return found


def save(data: Data, path: Path) -> None:
    """Write rows for a peer."""
    bounds = np.array(data.target_bounds or (0, 0), float)
    np.savez(
        path, dense=data.dense, scaled=data.scaled, codes=data.codes, target=data.target, train=data.train,
        test=data.test, target_bounds=bounds, numbers=data.numbers.shape[1],
    )  # fmt: skip


def finishes(task: str, data: Data, extra: int) -> bool:
    """Whether diffprivlib makes one fit of each setting at ε = 1 in a reasonable time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        save(data, path)
        command = [interpreter("diffprivlib", DIFFPRIVLIB), HERE / "peer_diffprivlib.py", task, path, "[1]", "1", str(extra)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            return False
    return True


def add_peers(section: Section, data: Data, task: str, script: str, packages: list[str], name: str, **options: Any) -> None:
    """One row for each model of a peer: the best setting at each ε."""
    found = ask_peer(script, packages, task, data, options.get("extra", 0))
    best = min if task == "kmeans" else max
    for model, settings in found.items():
        at = [best(values) for values in zip(*settings, strict=True)]
        section.add(data.name, f"{name} {model}, best of {len(settings)}", *map(show, at))


def add_goals(section: Section, name: str, *, less: bool = False) -> None:
    """The best of ours beside the best peer, at each ε; and what privacy costs beside the same task without it."""
    best = min if less else max
    rows = [row for row in section.rows if row[0] == name]

    def find(start: str) -> list[float] | None:
        found = [row[2:] for row in rows if row[1].startswith(start) and "*replace*" not in row[1]]
        numbers = [[*map(float, cells)] for cells in found if all(is_number(cell) for cell in cells)]
        return [best(values) for values in zip(*numbers, strict=True)] if numbers else None

    ours, plain = find("discreet"), find("not private")
    peers = [each for each in (find("diffprivlib"), find("interpret")) if each is not None]
    assert ours is not None
    if peers:
        gains = [a - best(b) for a, *b in zip(ours, *peers, strict=True)]
        met = [f"{'met' if (-gain if less else gain) >= 0 else 'missed'} ({gain:+.3f})" for gain in gains]
        section.add(name, "goal: best of ours beside the best peer", *met)
    if plain is not None:
        section.add(
            name, "regret: not private less the best of ours", *(f"{a - b:+.3f}" for a, b in zip(plain, ours, strict=True))
        )


def is_number(cell: str) -> bool:
    """Whether a cell of a table is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def show(value: float) -> str:
    """Three digits; what is worse than useless as a power of ten."""
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.0e}"


COLUMNS = ["data", "model", *(f"ε = {epsilon}" for epsilon in EPSILONS)]
PROMISE = (
    "Ours promise (ε, 10⁻⁶) between neighbours that add or remove one record, with exact noise; rows marked *replace* the "
    "same between neighbours that replace one. diffprivlib promises pure ε, with a public number of records and noise in "
    "doubles; DP-EBM (ε, 10⁻⁶). Ours have one setting for all ε and data, the default, and are means over {seeds} runs "
    "(*replace*: half as many); peers are means over at most {diffprivlib} and {interpret} runs, over {seeds} on data of at "
    "most 1,000 rows, at the best of several settings for each ε, chosen by the same test rows. Goal: the best of ours "
    "under add/remove is at least as good as the best peer. Gaussian noise has no pure ε: where diffprivlib promises pure "
    "ε, ours has a δ of 10⁻⁶ beside the same ε, unless it is marked *pure ε*; the rows *replace* are those with "
    "diffprivlib's neighbours."
)


def explain(text: str) -> str:
    """What a table shows, and what is promised."""
    runs = {script[5:-3]: min(seeds, each) for script, each in PEER_SEEDS.items()}
    return f"{text} {PROMISE.format(seeds=seeds, **runs)}"


def classify() -> Section:
    """Accuracy on test rows."""
    from sklearn.linear_model import LogisticRegression as Exact

    section = Section("Learning: classification", explain("Accuracy on test rows; more is better."), COLUMNS)
    for data in (adult(), generated(), cancer()):
        classes, expected = tuple(np.unique(data.target).tolist()), len(data.train)
        common: dict[str, Any] = {**data.declared, "delta": DELTA, "classes": classes}

        def fit(kind: Any, epsilon: float, data: Data = data, common: dict[str, Any] = common, **options: Any) -> float:
            model = kind(**common, epsilon=epsilon, **options)
            return measure_accuracy(data, model.fit(data.rows[data.train], data.target[data.train]))

        plain = Exact(max_iter=1000).fit(data.dense[data.train], data.target[data.train])
        right = float(plain.score(data.dense[data.test], data.target[data.test]))
        majority = float(np.bincount(data.target[data.test].astype(int)).max() / len(data.test))
        section.add(data.name, f"not private: logistic regression ({majority:.3f} by the majority)", *[show(right)] * 4)
        for name, kind, sized in (
            ("Additive", Additive, True), ("LogisticRegression", LogisticRegression, True), ("BinnedNB", BinnedNB, False),
            ("Stump, *pure ε*", Stump, False),
        ):  # fmt: skip
            options = {"expected": expected} if sized else {}
            found = average(lambda epsilon, kind=kind, options=options: fit(kind, epsilon, **options))  # type: ignore[misc]
            section.add(data.name, f"discreet {name}", *map(show, found))
        replaced = average(
            lambda epsilon, expected=expected: fit(  # type: ignore[misc]
                Additive, epsilon, expected=expected, neighbours="replace"
            ),
            max(seeds // 2, 1),
        )
        section.add(data.name, "discreet Additive, *replace*", *map(show, replaced))
        replaced = average(lambda epsilon: fit(Stump, epsilon, neighbours="replace"), max(seeds // 2, 1))
        section.add(data.name, "discreet Stump, *pure ε*, *replace*", *map(show, replaced))
        if not data.sizes:
            numbers = {"bounds": data.bounds, "delta": DELTA, "classes": classes}
            found = average(
                lambda epsilon, data=data, numbers=numbers: measure_accuracy(  # type: ignore[misc]
                    data, GaussianNB(**numbers, epsilon=epsilon).fit(data.rows[data.train], data.target[data.train])
                )
            )
            section.add(data.name, "discreet GaussianNB", *map(show, found))
        add_peers(section, data, "classify", "peer_diffprivlib.py", DIFFPRIVLIB, "diffprivlib")
        add_peers(section, data, "classify", "peer_interpret.py", INTERPRET, "interpret")
        add_goals(section, data.name)
    return section


def regress() -> Section:
    """R² on test rows."""
    from sklearn.linear_model import LinearRegression as Exact

    section = Section("Learning: regression", explain("R² on test rows; more is better."), COLUMNS)
    for data in (adult_number(), friedman(), diabetes()):
        expected = len(data.train)
        common: dict[str, Any] = {
            **data.declared, "delta": DELTA, "target_bounds": data.target_bounds, "expected": expected,
        }  # fmt: skip

        def fit(kind: Any, epsilon: float, data: Data = data, common: dict[str, Any] = common, **options: Any) -> float:
            return measure_r2(
                data, kind(**common, epsilon=epsilon, **options).fit(data.rows[data.train], data.target[data.train])
            )

        plain = Exact().fit(data.dense[data.train], data.target[data.train])
        right = float(plain.score(data.dense[data.test], data.target[data.test]))
        section.add(data.name, "not private: least squares", *[show(right)] * 4)
        for name, kind in (("LinearRegression", LinearRegression), ("Additive", Additive)):
            found = average(lambda epsilon, kind=kind: fit(kind, epsilon))  # type: ignore[misc]
            section.add(data.name, f"discreet {name}", *map(show, found))
        found = average(lambda epsilon, data=data: fit_moments(data, epsilon))  # type: ignore[misc]
        section.add(data.name, "discreet Moments.fit_ridge", *map(show, found))
        replaced = average(lambda epsilon: fit(LinearRegression, epsilon, neighbours="replace"), max(seeds // 2, 1))
        section.add(data.name, "discreet LinearRegression, *replace*", *map(show, replaced))
        add_peers(section, data, "regress", "peer_diffprivlib.py", DIFFPRIVLIB, "diffprivlib")
        add_peers(section, data, "regress", "peer_interpret.py", INTERPRET, "interpret")
        add_goals(section, data.name)
    return section


def fit_moments(data: Data, epsilon: float) -> float:
    """R² of the regression that follows from released moments."""
    width = data.rows.shape[1]
    assert data.target_bounds is not None
    bounds = {**data.declared["bounds"], width: data.target_bounds}
    moments = Moments(epsilon=epsilon, delta=DELTA, bounds=bounds, categories=data.declared["categories"])
    table = np.column_stack([data.rows, data.target])[data.train]
    return measure_r2(data, moments.fit(table).fit_ridge(width))


def cluster() -> Section:
    """Inertia beside the best known."""
    from sklearn.cluster import KMeans as Exact

    about = "Inertia of all rows, in half-ranges of the bounds, divided by that of scikit-learn's k-means; less is better."
    section = Section("Learning: k-means", explain(about), COLUMNS)
    for data, count in ((blobs(), 5), (adult_numbers(), 5), (factors(), 4)):
        best = float(Exact(count, n_init=5, random_state=0).fit(data.scaled).inertia_)

        def fit(epsilon: float, relation: str, data: Data = data, count: int = count, best: float = best) -> float:
            model = KMeans(
                count, epsilon=epsilon, delta=DELTA, bounds=(-1, 1), expected=len(data.numbers), neighbours=relation
            )
            return measure_inertia(data, model.fit(data.scaled).cluster_centers_, best)

        name = f"{data.name}, k = {count}, {len(data.bounds)} columns"
        data.name, kept = name, data.name
        section.add(name, "discreet KMeans", *map(show, average(lambda epsilon: fit(epsilon, "add-remove"))))
        replaced = average(lambda epsilon: fit(epsilon, "replace"), max(seeds // 2, 1))
        section.add(name, "discreet KMeans, *replace*", *map(show, replaced))
        add_peers(section, data, "kmeans", "peer_diffprivlib.py", DIFFPRIVLIB, "diffprivlib", extra=count)
        add_goals(section, name, less=True)
        data.name = kept
    return section


def find_components() -> Section:
    """The variance that components capture."""
    about = "Share of the variance that the components capture, of what as many exact ones capture; more is better."
    section = Section("Learning: principal components", explain(about), COLUMNS)
    for data, count in ((adult_numbers(), 2), (blobs(), 2), (factors(), 3), (digits(), 5)):

        def fit(epsilon: float, relation: str, data: Data = data, count: int = count) -> float:
            model = PCA(count, epsilon=epsilon, delta=DELTA, bounds=(-1, 1), neighbours=relation)
            return measure_captured(data, model.fit(data.scaled).components_)

        name = f"{data.name}, {count} of {len(data.bounds)}"
        data.name, kept = name, data.name
        section.add(name, "discreet PCA", *map(show, average(lambda epsilon: fit(epsilon, "add-remove"))))
        replaced = average(lambda epsilon: fit(epsilon, "replace"), max(seeds // 2, 1))
        section.add(name, "discreet PCA, *replace*", *map(show, replaced))
        if len(data.bounds) <= 8:
            add_peers(section, data, "pca", "peer_diffprivlib.py", DIFFPRIVLIB, "diffprivlib", extra=count)
        elif with_peers:
            shown = "not tried" if finishes("pca", data, count) else f"no fit in {PATIENCE} s"
            section.add(name, "diffprivlib PCA", *[shown] * len(EPSILONS))
        add_goals(section, name)
        data.name = kept
    return section


def measure_seconds() -> Section:
    """Seconds of a fit on 26,048 rows of 12 columns."""
    data = adult()
    about = f"Wall time of one fit on 26,048 × 12, best of three, ε = 1. Goal: ≤ {GOAL_SECONDS} s."
    section = Section("Learning: seconds of a fit", about, ["model", "seconds"])
    rows, y = data.rows[data.train], data.target[data.train]
    common: dict[str, Any] = {**data.declared, "epsilon": 1, "delta": DELTA}
    sized = {**common, "classes": (0, 1), "expected": len(rows)}
    fits: dict[str, Callable[[], Any]] = {
        "Additive": lambda: Additive(**sized).fit(rows, y),
        "LogisticRegression": lambda: LogisticRegression(**sized).fit(rows, y),
        "BinnedNB": lambda: BinnedNB(**common, classes=(0, 1)).fit(rows, y),
        "Moments": lambda: Moments(**common).fit(rows),
        "KMeans, 5 columns, k = 5": lambda: KMeans(
            5, epsilon=1, delta=DELTA, bounds=(-1, 1), expected=len(rows)
        ).fit(adult_numbers().scaled[data.train]),
        "PCA, 5 columns": lambda: PCA(2, epsilon=1, delta=DELTA, bounds=(-1, 1)).fit(adult_numbers().scaled[data.train]),
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, fit in fits.items():
            times = []
            for _ in range(3):
                start = time.perf_counter()
                fit()
                times.append(time.perf_counter() - start)
            section.add(name, f"{min(times):.2f}")
    return section


SECTIONS = [classify, regress, cluster, find_components, measure_seconds]

if __name__ == "__main__":
    given = sys.argv[1:]
    with_peers = "alone" not in given
    seeds = next((int(each) for each in given if each.isdigit()), SEEDS)
    for make in SECTIONS:
        started = time.perf_counter()
        print(make().markdown(), f"{time.perf_counter() - started:.0f} s", flush=True)
