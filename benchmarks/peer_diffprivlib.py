"""Run in the environment of diffprivlib: how good its models are, for each setting the mean at each ε, as JSON.

python peer_diffprivlib.py TASK DATA.npz EPSILONS SEEDS EXTRA
"""

import json
import sys
import warnings

import numpy as np

warnings.filterwarnings("ignore")

from diffprivlib import models  # noqa: E402

FEW_ROWS = 1_000
"""Up to so many training rows all runs are made."""


def average(run, epsilons, seeds):
    """The mean over seeds, at each ε; a fit that fails counts as the worst of its kind."""
    return [float(np.mean([run(epsilon, seed) for seed in range(seeds)])) for epsilon in epsilons]


def classify(data, epsilons, seeds, _):
    """Accuracy of logistic regression, naive Bayes and a random forest."""
    train, test, y = data["train"], data["test"], data["target"]
    dense, ordered = data["dense"], np.hstack([data["scaled"], data["codes"]])
    classes = np.unique(y)

    def logistic(strength, norm):
        rows = np.hstack([dense, np.ones((len(dense), 1))])
        full = np.sqrt(data["numbers"] + data["codes"].shape[1] + 1)

        def run(epsilon, seed):
            model = models.LogisticRegression(
                epsilon=epsilon, data_norm=norm * full, C=strength, max_iter=300, fit_intercept=False, random_state=seed
            )
            return (model.fit(rows[train], y[train]).predict(rows[test]) == y[test]).mean()

        return run

    def bayes(rows):
        bounds = (rows.min(axis=0) - 1e-9, rows.max(axis=0) + 1e-9)

        def run(epsilon, seed):
            model = models.GaussianNB(epsilon=epsilon, bounds=bounds, random_state=seed)
            return (model.fit(rows[train], y[train]).predict(rows[test]) == y[test]).mean()

        return run

    def forest(trees, depth):
        bounds = (ordered.min(axis=0), ordered.max(axis=0))

        def run(epsilon, seed):
            model = models.RandomForestClassifier(
                trees, epsilon=epsilon, bounds=bounds, classes=classes, max_depth=depth, random_state=seed
            )
            return (model.fit(ordered[train], y[train]).predict(ordered[test]) == y[test]).mean()

        return run

    few, fewer = (seeds, seeds) if len(train) <= FEW_ROWS else (min(seeds, 5), min(seeds, 3))
    return {
        "LogisticRegression": [
            average(logistic(strength, norm), epsilons, few) for strength, norm in [(1, 1), (1, 0.5), (0.01, 1)]
        ],
        "GaussianNB": [average(bayes(rows), epsilons, seeds) for rows in (dense, ordered)],
        "RandomForest": [average(forest(trees, depth), epsilons, fewer) for trees, depth in [(10, 6), (10, 10)]],
    }


def regress(data, epsilons, seeds, _):
    """R² of linear regression, on all columns and on the numbers alone."""
    train, test, y = data["train"], data["test"], data["target"]

    def linear(rows):
        bounds = (np.full(rows.shape[1], -1.0), np.full(rows.shape[1], 1.0))

        def run(epsilon, seed):
            model = models.LinearRegression(
                epsilon=epsilon, bounds_X=bounds, bounds_y=tuple(data["target_bounds"]), random_state=seed
            )
            off = y[test] - model.fit(rows[train], y[train]).predict(rows[test])
            return 1 - (off**2).sum() / ((y[test] - y[test].mean()) ** 2).sum()

        return run

    narrow = data["scaled"] if data["scaled"].shape[1] else data["dense"]
    wide = np.hstack([data["scaled"], data["codes"] / np.maximum(data["codes"].max(axis=0, initial=1), 1) * 2 - 1])
    few = seeds if len(train) <= FEW_ROWS else min(seeds, 5)
    return {"LinearRegression": [average(linear(rows), epsilons, few) for rows in (wide, narrow)]}


def kmeans(data, epsilons, seeds, clusters):
    """Inertia, divided by scikit-learn's."""
    from sklearn.cluster import KMeans

    rows = data["scaled"]
    best = KMeans(clusters, n_init=5, random_state=0).fit(rows).inertia_

    def run(epsilon, seed):
        model = models.KMeans(clusters, epsilon=epsilon, bounds=(-1, 1), random_state=seed).fit(rows)
        gaps = [((rows - each) ** 2).sum(axis=1) for each in model.cluster_centers_]
        return np.min(gaps, axis=0).sum() / best

    return {"KMeans": [average(run, epsilons, seeds)]}


def pca(data, epsilons, seeds, components):
    """The share of variance captured, of what as many exact components capture."""
    rows = data["scaled"]
    centred = rows - rows.mean(axis=0)
    best = np.sort(np.linalg.eigvalsh(centred.T @ centred))[::-1][:components].sum()
    full = np.sqrt(rows.shape[1])

    def make(norm):
        def run(epsilon, seed):
            model = models.PCA(components, epsilon=epsilon, bounds=(-1, 1), data_norm=norm * full, random_state=seed).fit(
                rows
            )
            basis = np.linalg.qr(model.components_.T)[0]
            return ((centred @ basis) ** 2).sum() / best

        return run

    return {"PCA": [average(make(norm), epsilons, seeds) for norm in (1, 0.5)]}


if __name__ == "__main__":
    task, path, epsilons, seeds, extra = sys.argv[1:]
    tasks = {"classify": classify, "regress": regress, "kmeans": kmeans, "pca": pca}
    print(json.dumps(tasks[task](dict(np.load(path)), json.loads(epsilons), int(seeds), int(extra))))
