"""Local privacy: each person adds the noise to their own value, so that no curator has to be trusted with the data.

    plan = plan_collection(values=100, epsilon=1, error=0.01)    which oracle, how many people
    Collection, Client                                           what a device is asked, and what it sends
    count_collection, decode_collection                          what the reports say, with intervals

`oracles` has the mechanisms for one of many values, each as one frozen value with exact odds; `draws` is the only randomness
of a client. `rappor`, `apple`, `microsoft` and `numeric` have the systems that others deployed, with their own parameters.
"""

from typing import TYPE_CHECKING

from discreet._exports import export_lazily

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

# A client needs no decoder.
__getattr__, __dir__ = export_lazily(
    globals(),
    {
        "discreet.local.apple": "CountMeanSketch HadamardCountMeanSketch SequenceFragmentPuzzle",
        "discreet.local.bulk": "encode_many",
        "discreet.local.charts": "draw_days draw_errors draw_recovery list_days",
        "discreet.local.choosing": "choose_oracle list_oracles",
        "discreet.local.client": "Client",
        "discreet.local.collection": "Collection Lifetime",
        "discreet.local.counting": "Counts count_cohorts count_reports",
        "discreet.local.decoding": "LocalAnswer LocalEstimate decode",
        "discreet.local.domains": "Integers Listed Texts",
        "discreet.local.heavy_hitters": "PrefixSearch encode_prefixes find_heavy_hitters",
        "discreet.local.microsoft": "d_bit_flip d_bit_flip_pm one_bit_mean one_bit_rrpm",
        "discreet.local.numeric": "BucketFlip DuchiMean OneBitMean RoundedBit",
        "discreet.local.odds": "odds_for_epsilon",
        "discreet.local.oracles": "Direct FixedHashed Hadamard Hashed Projective Subset Unary",
        "discreet.local.planning": "LocalPlan plan_collection",
        "discreet.local.rappor": "BasicRappor Rappor",
        "discreet.local.rappor_unknown": "UnknownRappor",
        "discreet.local.receiving": "count_collection count_messages decode_collection",
        "discreet.local.recovery": "Recovery simulate_recovery",
        "discreet.local.simulating": "simulate_counts simulate_population",
        "discreet.local.store": "FileStore MemoryStore",
        "discreet.local.systems": "MeanAnswer SystemCounts count_system decode_system",
        "discreet.local.vectors": "list_vectors write_vectors",
        "discreet.local.wire": "Form Wire",
    },
)

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
