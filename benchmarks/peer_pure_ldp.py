"""Runs inside pure-ldp's environment: nanoseconds of processor time per user to encode and to decode, as JSON.

python peer_pure_ldp.py             the timings
python peer_pure_ldp.py client F    its RAPPOR client, with permanent noise F, answers lines of JSON for values 0 to 7
"""

import json
import sys
import time
import warnings
from importlib.metadata import version

warnings.filterwarnings("ignore")

from pure_ldp.frequency_oracles import (  # noqa: E402
    DEClient,
    DEServer,
    HadamardMechClient,
    HadamardMechServer,
    HadamardResponseClient,
    HadamardResponseServer,
    LHClient,
    LHServer,
    RAPPORClient,
    UEClient,
    UEServer,
)

EPSILON = 1.0
SIZES = (128, 16_384)


def hadamard_response(d):
    server = HadamardResponseServer(EPSILON, d)
    return HadamardResponseClient(EPSILON, d, server.get_hash_funcs()), server


CASES = {
    "k-RR": (lambda d: (DEClient(EPSILON, d), DEServer(EPSILON, d)), {128: 20_000, 16_384: 20_000}),
    "Hadamard": (
        lambda d: (HadamardMechClient(EPSILON, d, 1), HadamardMechServer(EPSILON, d, 1)),
        {128: 3_000, 16_384: 3_000},
    ),
    "Hadamard response": (hadamard_response, {128: 3_000, 16_384: 1_000}),
    "OUE": (lambda d: (UEClient(EPSILON, d, use_oue=True), UEServer(EPSILON, d, use_oue=True)), {128: 2_000}),
    "OLH": (lambda d: (LHClient(EPSILON, d, use_olh=True), LHServer(EPSILON, d, use_olh=True)), {128: 2_000, 16_384: 20}),
}
"""Client and server of a domain, and how many users are timed: the time is linear in them."""


def measure(make, d, users):
    client, server = make(d)
    values = [1 + i * i % d for i in range(users)]
    start = time.process_time()
    reports = [client.privatise(value) for value in values]
    encoded = time.process_time()
    for report in reports:
        server.aggregate(report)
    for value in range(1, min(d, 128) + 1):
        server.estimate(value)
    return {"encode": (encoded - start) / users * 1e9, "decode": (time.process_time() - encoded) / users * 1e9}


def answer_lines(f):
    """Report as a client with one cohort and one hash function, which is the value itself: no two values share a bit."""
    client = RAPPORClient(float(f), 8, [[lambda text: int(text)]], num_of_cohorts=1, index_mapper=lambda value: value)
    for line in sys.stdin:
        bits, cohort = client.privatise(json.loads(line)["value"])
        print(json.dumps({"report": [cohort, sum(bit << place for place, bit in enumerate(bits))]}), flush=True)


def main(*wanted):
    if wanted[:1] == ("client",):
        answer_lines(wanted[1])
        return
    found = {"version": version("pure-ldp")}
    for name, (make, users) in CASES.items():
        for d, n in users.items():
            try:
                found[f"{name} {d}"] = measure(make, d, n)
            except Exception as failed:  # what a library cannot do is left out of the table
                print(f"{name} {d}: {failed!r}", file=sys.stderr)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
