"""Local privacy: each person adds the noise to their own value, so that no curator has to be trusted with the data.

    plan = plan_collection(values=100, epsilon=1, error=0.01)    which oracle, how many people
    Collection, Client                                           what a device is asked, and what it sends
    count_collection, decode_collection                          what the reports say, with intervals

`oracles` has the mechanisms for one of many values, each as one frozen value with exact odds; `draws` is the only randomness
of a client. `rappor`, `apple`, `microsoft` and `numeric` have the systems that others deployed, with their own parameters.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.local.apple import CountMeanSketch, HadamardCountMeanSketch, SequenceFragmentPuzzle
    from discreet.local.bulk import encode_many
    from discreet.local.charts import draw_days, draw_errors, draw_recovery, list_days
    from discreet.local.choosing import choose_oracle, list_oracles
    from discreet.local.client import Client
    from discreet.local.collection import Collection, Lifetime
    from discreet.local.counting import Counts, count_cohorts, count_reports
    from discreet.local.decoding import LocalAnswer, LocalEstimate, decode
    from discreet.local.domains import Integers, Listed, Texts
    from discreet.local.heavy_hitters import PrefixSearch, encode_prefixes, find_heavy_hitters
    from discreet.local.microsoft import d_bit_flip, d_bit_flip_pm, one_bit_mean, one_bit_rrpm
    from discreet.local.numeric import BucketFlip, DuchiMean, OneBitMean, RoundedBit
    from discreet.local.odds import odds_for_epsilon
    from discreet.local.oracles import Direct, FixedHashed, Hadamard, Hashed, Projective, Subset, Unary
    from discreet.local.planning import LocalPlan, plan_collection
    from discreet.local.rappor import BasicRappor, Rappor
    from discreet.local.rappor_unknown import UnknownRappor
    from discreet.local.receiving import count_collection, count_messages, decode_collection
    from discreet.local.recovery import Recovery, simulate_recovery
    from discreet.local.simulating import simulate_counts, simulate_population
    from discreet.local.store import FileStore, MemoryStore
    from discreet.local.systems import MeanAnswer, SystemCounts, count_system, decode_system
    from discreet.local.vectors import list_vectors, write_vectors
    from discreet.local.wire import Form, Wire

_HOMES = {
    "apple": "CountMeanSketch HadamardCountMeanSketch SequenceFragmentPuzzle",
    "bulk": "encode_many",
    "charts": "draw_days draw_errors draw_recovery list_days",
    "choosing": "choose_oracle list_oracles",
    "client": "Client",
    "collection": "Collection Lifetime",
    "counting": "Counts count_cohorts count_reports",
    "decoding": "LocalAnswer LocalEstimate decode",
    "domains": "Integers Listed Texts",
    "heavy_hitters": "PrefixSearch encode_prefixes find_heavy_hitters",
    "microsoft": "d_bit_flip d_bit_flip_pm one_bit_mean one_bit_rrpm",
    "numeric": "BucketFlip DuchiMean OneBitMean RoundedBit",
    "odds": "odds_for_epsilon",
    "oracles": "Direct FixedHashed Hadamard Hashed Projective Subset Unary",
    "planning": "LocalPlan plan_collection",
    "rappor": "BasicRappor Rappor",
    "rappor_unknown": "UnknownRappor",
    "receiving": "count_collection count_messages decode_collection",
    "recovery": "Recovery simulate_recovery",
    "simulating": "simulate_counts simulate_population",
    "store": "FileStore MemoryStore",
    "systems": "MeanAnswer SystemCounts count_system decode_system",
    "vectors": "list_vectors write_vectors",
    "wire": "Form Wire",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Public names are fetched from their homes when they are first used: a client needs no decoder."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})


__all__ = [
    "BasicRappor",
    "BucketFlip",
    "Client",
    "Collection",
    "CountMeanSketch",
    "Counts",
    "Direct",
    "DuchiMean",
    "FileStore",
    "FixedHashed",
    "Form",
    "Hadamard",
    "HadamardCountMeanSketch",
    "Hashed",
    "Integers",
    "Lifetime",
    "Listed",
    "LocalAnswer",
    "LocalEstimate",
    "LocalPlan",
    "MeanAnswer",
    "MemoryStore",
    "OneBitMean",
    "PrefixSearch",
    "Projective",
    "Rappor",
    "Recovery",
    "RoundedBit",
    "SequenceFragmentPuzzle",
    "Subset",
    "SystemCounts",
    "Texts",
    "Unary",
    "UnknownRappor",
    "Wire",
    "choose_oracle",
    "count_cohorts",
    "count_collection",
    "count_messages",
    "count_reports",
    "count_system",
    "d_bit_flip",
    "d_bit_flip_pm",
    "decode",
    "decode_collection",
    "decode_system",
    "draw_days",
    "draw_errors",
    "draw_recovery",
    "encode_many",
    "encode_prefixes",
    "find_heavy_hitters",
    "list_days",
    "list_oracles",
    "list_vectors",
    "odds_for_epsilon",
    "one_bit_mean",
    "one_bit_rrpm",
    "plan_collection",
    "simulate_counts",
    "simulate_population",
    "simulate_recovery",
    "write_vectors",
]
