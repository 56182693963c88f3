"""A step of private training beside one without privacy, and beside Opacus: time and memory, as ratios."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.table import Section

OPACUS = ["torch==2.13.0", "opacus==1.6.0"]
NETWORKS = {"mlp": "MLP 784-256-10, d = 203,530", "cnn": "CNN, d = 26,010"}
GOALS = {("exact", "mlp"): 3.0, ("exact", "cnn"): 2.5, ("float", "mlp"): 1.4, ("float", "cnn"): 1.4}
MEMORY_GOAL = 1.3
GRADIENT_MODES = ("hooks", "functorch", "ew")
"""Opacus's modes that compute a gradient for each record: discreet's exact sums are not to be slower than the fastest."""
OWN = {"plain": "plain PyTorch", "exact": "discreet, exact sums and noise", "float": 'discreet, sums="float", exact noise'}
PEERS = {"hooks": "Opacus hooks", "functorch": "Opacus functorch", "ew": "Opacus expanded weights", "ghost": "Opacus ghost"}


def measure_own() -> dict[str, dict[str, Any]]:
    """Time each method on each network, in a process of its own; the best of three."""
    script, found = Path(__file__).parent / "training_own.py", dict[str, dict[str, Any]]()
    for _ in range(3):
        for network in NETWORKS:
            for method in OWN:
                out = subprocess.run([sys.executable, script, method, network], check=True, capture_output=True, text=True)
                now = json.loads(out.stdout.splitlines()[-1])
                known = found.setdefault(network, {}).setdefault(method, now)
                found[network][method] = {key: min(known[key], now[key]) for key in now}
    return found


def training() -> Section:
    """Seconds per step and peak memory, each divided by plain PyTorch's of the same environment."""
    section = Section(
        "Private training: a step of 256 records",
        "Wall time of a whole step (sampling, gradients, noise, optimiser) in one thread, noise ahead in a second; "
        "peak memory of the process. Ratios to plain PyTorch in the same environment. discreet's noise is exact and "
        "cryptographic, Opacus's is `torch.normal`. Goals in parentheses; the second is Opacus's "
        "fastest mode with a gradient for each record.",
        ["method", *(f"{each}: {what}" for each in NETWORKS.values() for what in ("time", "memory"))],
    )
    own, others = measure_own(), peers.ask("opacus", OPACUS, "peer_opacus_steps.py")
    for found, names in ((own, OWN), (others, PEERS)):
        for method, name in names.items():
            cells = []
            for network in NETWORKS:
                plain, now = found[network]["plain"], found[network][method]
                goal = GOALS.get((method, network))
                time, memory = now["seconds"] / plain["seconds"], now["memory"] / plain["memory"]
                rivals = [others[network][mode]["seconds"] / others[network]["plain"]["seconds"] for mode in GRADIENT_MODES]
                shown = f" (≤ {goal}{f'; ≤ {min(rivals):.2f}' if method == 'exact' else ''})" if goal else ""
                cells.append(f"{time:.2f}{shown}")
                cells.append(f"{memory:.2f}" + (f" (≤ {MEMORY_GOAL})" if goal else ""))
            section.add(name, *cells)
    return section


SECTIONS = [training]
