"""What every runner shares: read one case from stdin, time the answer, print one JSON object. Standard library only."""

import json
import sys
import time
import warnings


def answer(epsilon):
    """`epsilon(parts, delta)` → ε. The best of five runs, or of one if a run takes longer than two seconds."""
    warnings.filterwarnings("ignore")
    case = json.load(sys.stdin)
    parts = [dict(zip(("law", "width", "times", "rate"), part, strict=True)) for part in case["parts"]]
    best, value = float("inf"), None
    for _ in range(5):
        start = time.perf_counter()
        value = float(epsilon(parts, case["delta"]))
        best = min(best, time.perf_counter() - start)
        if best > 2:
            break
    print(json.dumps({"epsilon": value, "milliseconds": best * 1e3}))
