"""Runs inside multi-freq-ldpy's environment: nanoseconds of processor time per user to encode and to decode, as JSON."""

import json
import sys
import time
from importlib.metadata import version

from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client
from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI, LH_Client
from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client

EPSILON = 1.0
CASES = {
    "k-RR": (GRR_Client, lambda reports, d: GRR_Aggregator_MI(reports, d, EPSILON), {128: 20_000, 16_384: 5_000}),
    "OUE": (UE_Client, lambda reports, d: UE_Aggregator_MI(reports, EPSILON), {128: 5_000}),
    "OLH": (LH_Client, lambda reports, d: LH_Aggregator_MI(reports, d, EPSILON), {128: 2_000, 16_384: 20}),
}


def measure(client, decode, d, users):
    values = [i * i % d for i in range(users)]
    client(values[0], d, EPSILON)  # compiled on first use
    start = time.process_time()
    reports = [client(value, d, EPSILON) for value in values]
    encoded = time.process_time()
    decode(reports, d)
    return {"encode": (encoded - start) / users * 1e9, "decode": (time.process_time() - encoded) / users * 1e9}


found = {"version": version("multi-freq-ldpy")}
for name, (client, decode, users) in CASES.items():
    for d, n in users.items():
        try:
            found[f"{name} {d}"] = measure(client, decode, d, n)
        except Exception as failed:  # what a library cannot do is left out of the table
            print(f"{name} {d}: {failed!r}", file=sys.stderr)
print(json.dumps(found))
