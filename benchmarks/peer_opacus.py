"""The ε that the accountants of Opacus print for the runs of the lab's erratum on it. Prints JSON; see peers.py."""

import json
import sys

from opacus.accountants import create_accountant

DELTA = 1e-5


def main(runs: list[list[float]]) -> None:
    """Print, for each (rate, noise multiplier, steps), the ε of each accountant."""
    seen = []
    for rate, sigma, steps in runs:
        row = {}
        for mechanism in ("rdp", "prv", "gdp"):
            accountant = create_accountant(mechanism=mechanism)
            accountant.history = [(sigma, rate, int(steps))]
            row[mechanism] = float(accountant.get_epsilon(delta=DELTA))
        seen.append(row)
    print(json.dumps(seen))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
