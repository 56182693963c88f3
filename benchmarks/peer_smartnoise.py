"""Run in the environment of smartnoise-synth: its MST, as it comes; writes the synthetic rows, prints seconds as JSON.

python peer_smartnoise.py ROWS.npy EPSILON DELTA OUT.npy
"""

import json
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from snsynth import Synthesizer  # noqa: E402

from benchmarks.process_memory import peak_megabytes  # noqa: E402


def main(path, epsilon, delta, out):
    frame = pd.DataFrame(np.load(path)).rename(columns=lambda place: f"c{place}")
    wall, processor = time.perf_counter(), time.process_time()
    synthesizer = Synthesizer.create("mst", epsilon=float(epsilon), delta=float(delta))
    synthesizer.fit(frame, categorical_columns=list(frame.columns), preprocessor_eps=0.0)
    rows = synthesizer.sample(len(frame))
    found = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
    np.save(out, np.asarray(rows, np.int64))
    print(
        json.dumps({**found, "megabytes": peak_megabytes(), "version": version("smartnoise-synth"), "mbi": version("mbi")})
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
