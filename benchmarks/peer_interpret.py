"""Run in the environment of interpret: how good its DP-EBM is, for each setting the mean at each ε, as JSON.

python peer_interpret.py TASK DATA.npz EPSILONS SEEDS EXTRA
"""

import json
import sys
import warnings

import numpy as np

warnings.filterwarnings("ignore")

from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor  # noqa: E402

SETTINGS = ({}, {"max_bins": 16, "max_rounds": 50, "learning_rate": 0.05}, {"max_bins": 16, "max_rounds": 100})


def main(task, path, epsilons, seeds):
    """Accuracy or R², by setting."""
    data = dict(np.load(path))
    train, test, y = data["train"], data["test"], data["target"]
    rows = np.hstack([data["scaled"], data["codes"].astype(float)])
    numbers, width = int(data["numbers"]), rows.shape[1]
    kinds = ["continuous"] * numbers + ["nominal"] * (width - numbers)
    bounds = np.array([(rows[:, j].min(), rows[:, j].max()) for j in range(width)])

    def run(epsilon, seed, options):
        common = {"epsilon": epsilon, "delta": 1e-6, "feature_types": kinds, "privacy_bounds": bounds, "random_state": seed}
        if task == "classify":
            model = DPExplainableBoostingClassifier(**common, **options).fit(rows[train], y[train])
            return float((model.predict(rows[test]) == y[test]).mean())
        low, high = data["target_bounds"]
        model = DPExplainableBoostingRegressor(**common, privacy_target_min=low, privacy_target_max=high, **options)
        off = y[test] - model.fit(rows[train], y[train]).predict(rows[test])
        return float(1 - (off**2).sum() / ((y[test] - y[test].mean()) ** 2).sum())

    return {"DP-EBM": [[float(np.mean([run(e, s, each) for s in range(seeds)])) for e in epsilons] for each in SETTINGS]}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4]))))
