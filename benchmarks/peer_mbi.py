"""Run in the environment of mbi: MST written against its interface; writes the synthetic rows, prints seconds as JSON.

python peer_mbi.py ROWS.npy SIZES RHO STEPS SEED OUT.npy

As [MST21] says: one-way tables with a third of ρ; values that are rarer than three σ are merged; a spanning tree by d − 1
draws of the exponential mechanism on L1 gaps with a third; two-way tables on its edges with a third; mirror descent; rows by
randomised rounding. Noise is NumPy's, in doubles.
"""

import json
import sys
import time
import warnings
from importlib.metadata import version
from itertools import combinations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
warnings.filterwarnings("ignore")

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402
from mbi import Dataset, Domain, LinearMeasurement, WeightedQuery, estimation  # noqa: E402

from benchmarks.process_memory import peak_megabytes  # noqa: E402


def merge_rare(codes, tables, sigma):
    """Merge the values whose noisy count is below three σ: (codes, sizes, per column the old values of each new one)."""
    merged, groups = codes.copy(), []
    for column, table in enumerate(tables):
        kept = np.flatnonzero(table >= 3 * sigma)
        rare = np.flatnonzero(table < 3 * sigma)
        new = np.full(len(table), len(kept))
        new[kept] = np.arange(len(kept))
        merged[:, column] = new[codes[:, column]]
        groups.append([np.array([value]) for value in kept] + ([rare] if len(rare) else []))
    return merged, [len(group) for group in groups], groups


def choose_tree(data, model, columns, rho, generator):
    """The edges of a spanning tree, by the exponential mechanism on the L1 gaps between pairs and the model."""
    gaps = {}
    for pair in combinations(columns, 2):
        expected = np.asarray(model.project(pair).datavector())
        gaps[pair] = np.abs(np.asarray(data.project(pair).datavector()) - expected).sum()
    assert np.isfinite(list(gaps.values())).all()
    part, edges = {column: column for column in columns}, []
    epsilon = np.sqrt(8 * rho / (len(columns) - 1))
    for _ in range(len(columns) - 1):
        open_pairs = [pair for pair in gaps if part[pair[0]] != part[pair[1]]]
        keys = [epsilon / 2 * gaps[pair] + generator.gumbel() for pair in open_pairs]
        left, right = open_pairs[int(np.argmax(keys))]
        edges.append((left, right))
        old, new = part[left], part[right]
        part = {column: new if where == old else where for column, where in part.items()}
    return edges


def run(codes, sizes, rho, steps, generator):
    names = [f"c{column}" for column in range(len(sizes))]
    sigma = np.sqrt(3 * len(sizes) / (2 * rho))
    noisy = [np.bincount(codes[:, i], minlength=n) + generator.normal(0, sigma, n) for i, n in enumerate(sizes)]
    merged, new_sizes, groups = merge_rare(codes, noisy, sigma)
    data = Dataset({name: merged[:, i] for i, name in enumerate(names)}, Domain(tuple(names), tuple(new_sizes)))
    measurements = []
    for i, name in enumerate(names):
        weights = np.array([1 / np.sqrt(len(group)) for group in groups[i]])  # a merged value has the noise of several
        table = weights * [noisy[i][group].sum() for group in groups[i]]
        measurements.append(LinearMeasurement(table, (name,), float(sigma), WeightedQuery(weights)))
    total = float(np.average([table.sum() for table in noisy], weights=[1 / n for n in sizes]))  # least variance
    estimator = estimation.MirrorDescent()
    model = estimator.estimate(data.domain, list(measurements), known_total=total, iters=steps)
    edges = choose_tree(data, model, names, rho / 3, generator)
    sigma = np.sqrt(3 * len(edges) / (2 * rho))
    for edge in edges:
        table = np.asarray(data.project(edge).datavector())
        measurements.append(LinearMeasurement(table + generator.normal(0, sigma, table.size), edge, float(sigma)))
    model = estimator.estimate(data.domain, measurements, known_total=total, iters=steps)
    rows = model.synthetic_data().to_dict()
    out = np.empty((len(rows[names[0]]), len(sizes)), np.int64)
    for i, name in enumerate(names):
        values = np.asarray(rows[name])
        out[:, i] = [group[generator.integers(len(group))] if len(group) > 1 else group[0] for group in
                     (groups[i][value] for value in values)]  # fmt: skip
    return out, edges


def main(path, sizes, rho, steps, seed, out):
    codes, shape = np.load(path), tuple(map(int, sizes.split(",")))
    np.random.seed(int(seed))  # noqa: NPY002 (mbi draws its rows from the global generator)
    wall, processor = time.perf_counter(), time.process_time()
    rows, edges = run(codes, shape, float(rho), int(steps), np.random.default_rng(int(seed)))
    found = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
    np.save(out, rows)
    processor = time.process_time()
    run(codes, shape, float(rho), int(steps), np.random.default_rng(int(seed)))  # the same shapes: all is compiled
    found["again"] = time.process_time() - processor
    print(json.dumps({**found, "megabytes": peak_megabytes(), "version": version("mbi"), "edges": edges}))


if __name__ == "__main__":
    main(*sys.argv[1:])
