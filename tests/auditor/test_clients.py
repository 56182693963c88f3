"""Clients as targets: mutants are refuted by the game that shows their fault, and correct clients are not refuted.

Every audit has a confidence of 1 − 1e-9, so a correct client raises a false alarm with probability 1e-9 at most. Players of
this process draw seeded noise; commands draw the system's.
"""

import json
import sys
from fractions import Fraction
from math import log
from pathlib import Path
from typing import Any

import pytest

from discreet.auditor.client_checks import audit_collection
from discreet.auditor.clients import (
    SUPPORT,
    CommandPlayer,
    DevicePlayer,
    Game,
    History,
    MechanismPlayer,
    Player,
    audit_client,
    claim_for_life,
    list_games,
    measure_supports,
    recall,
    repeat,
    report_once,
    retry,
)
from discreet.auditor.finding import Finding
from discreet.errors import BadParameter
from discreet.local.client import Client
from discreet.local.collection import Collection, Lifetime
from discreet.local.domains import Listed
from discreet.local.draws import Draws
from discreet.local.mechanism import AnyMechanism, State
from discreet.local.oracles import Direct, Hadamard, Hashed, Projective, Report, Subset, Unary
from discreet.local.rappor import BasicRappor
from tests.support import local_mutants
from tests.support.local_mutants import (
    FloatCoin,
    FreshRetry,
    LengthLeak,
    ModuloHash,
    NeverClears,
    SevenBitThresholds,
    redraw_permanent,
)
from tests.support.node import CLIENT, find_node
from tests.support.rounds import at_night

CONFIDENCE = 1 - Fraction(1, 10**9)
THREE = Fraction(3)
RAPPOR = BasicRappor.of(4, Fraction(4, 5), Fraction(1, 10), Fraction(9, 10))
STATE = 2 * log(3 / 2)
"""ε of the permanent noise of RAPPOR, for one state."""


def collect(mechanism: Any, epsilon: int, per: Any = "report") -> Collection:
    labels = tuple(f"v{place}" for place in range(mechanism.values))
    return Collection("audited", 1, mechanism, Listed(labels, other=None), Lifetime.of(mechanism, epsilon, per))


def play(player: Player, game: Game, samples: int, **options: Any) -> Finding:
    found = audit_client(player, game, confidence=CONFIDENCE, samples=samples, **options)
    print(game.name, found)
    return found


# -- mutants ---------------------------------------------------------------------------------------------------------------

ONE_REPORT: dict[str, tuple[AnyMechanism, tuple[int, int], int]] = {
    "never clears": (NeverClears(3, THREE, Fraction(1, 4)), (0, 1), 2_000),
    "seven-bit thresholds": (SevenBitThresholds(2, Fraction(64), Fraction(1, 65)), (0, 1), 130_000),
    "length leak": (LengthLeak(40, THREE, Fraction(1, 4)), (0, 39), 1_000),
    "float coin": (FloatCoin(3, Fraction(3, 2), 1 << 3), (0, 1), 30_000),
}
"""Mutants whose ε is too large, at parameters where rounding costs more than a tenth of it; the rounding of 53 bits cannot
be seen in samples, and the list of all draws shows it in tests/local."""


@pytest.mark.parametrize("name", ONE_REPORT)
def test_wrong_mechanisms_are_refuted(name: str) -> None:
    mechanism, (left, right), samples = ONE_REPORT[name]
    player = MechanismPlayer(mechanism)
    found = play(player, report_once(player, left, right), samples)
    assert found.violation


def test_a_biased_hash_is_private_and_has_wrong_supports() -> None:
    """ε holds for any hash; what is stated of its collisions does not."""
    player = MechanismPlayer(ModuloHash(4, Fraction(2), 3))
    truth, other = measure_supports(player, 0, 2, samples=20_000, confidence=CONFIDENCE)
    assert not truth.violation
    assert other.violation
    right = measure_supports(MechanismPlayer(Hashed(4, Fraction(2), 3)), 0, 2, samples=20_000, confidence=CONFIDENCE)
    assert not any(each.violation for each in right)


def test_fresh_noise_on_retry_is_refuted() -> None:
    player = DevicePlayer(collect(Direct(3, THREE), 100), FreshRetry)
    found = play(player, retry(player, "v0", "v1", 12), 4_000)
    assert found.violation
    assert not play(player, report_once(player, "v0", "v1"), 2_000).violation, "one report alone is right"


def test_redrawn_permanent_noise_is_refuted_by_averaging() -> None:
    """The mean of many reports tells the values apart, by more than one state may cost."""
    player = MechanismPlayer(RAPPOR, redraw_permanent)
    found = play(player, repeat(player, 0, 1, 20), 1_600)
    assert found.violation
    assert found.claimed_epsilon == pytest.approx(STATE)
    right = MechanismPlayer(RAPPOR)
    assert not play(right, repeat(right, 0, 1, 20), 1_600).violation


def test_redrawn_permanent_noise_is_refuted_by_equal_patterns() -> None:
    left, right = [0, 1] * 15, [2, 3] * 15
    player = MechanismPlayer(RAPPOR, redraw_permanent)
    assert play(player, recall(player, left, right), 3_000).violation
    correct = MechanismPlayer(RAPPOR)
    assert not play(correct, recall(correct, left, right), 2_000).violation


def draw_lazily(mechanism: AnyMechanism, value: Any, draws: Draws, secret: bytes, name: str) -> tuple[State, Report]:
    assert isinstance(mechanism, Direct)
    return (), local_mutants.draw_lazily(mechanism, value, draws)


def test_the_random_bytes_that_are_taken_are_seen() -> None:
    """A report that is y = x takes fewer bytes: with the report itself, that tells whether the report is true."""
    player = MechanismPlayer(Direct(4, THREE), draw_lazily)
    assert play(player, report_once(player, 0, 1), 4_000).violation


class Spendthrift(Client):
    """A client that never looks at its account."""

    def _charge(self, state: Any, entry: Any, memo: State) -> None:
        pass


@pytest.mark.parametrize("samples", [1_200, at_night(3_000)])
def test_reports_beyond_the_budget_are_refuted(samples: int) -> None:
    collection = collect(Direct(3, THREE), 2)
    player = DevicePlayer(collection, Spendthrift)
    game = repeat(player, "v0", "v1", 16)
    assert game.epsilon == claim_for_life(player, game.left) == 2
    assert play(player, game, samples).violation
    assert not play(DevicePlayer(collection), game, samples).violation


# -- correct clients --------------------------------------------------------------------------------------------------------

CORRECT = [
    Direct(5, THREE), Unary.optimised(5, THREE), Unary.symmetric(5, Fraction(2)), Subset(6, THREE, 2), Hashed(9, THREE, 3),
    Hadamard(7, THREE), Projective.optimised(9, THREE),
]  # fmt: skip


@pytest.mark.parametrize("samples", [5_000, at_night(20_000)])
@pytest.mark.parametrize("mechanism", CORRECT, ids=lambda each: type(each).__name__)
def test_the_best_event_reaches_the_claim_and_does_not_exceed_it(mechanism: AnyMechanism, samples: int) -> None:
    """{x ∈ y, x' ∉ y} has the ratio X: a claim of two thirds of ε is refuted by it, and ε is not."""
    player = MechanismPlayer(mechanism)
    game = report_once(player, 0, 1)
    found = play(player, game, samples)
    assert not found.violation
    assert found.certified_epsilon <= found.claimed_epsilon
    less = Game(game.name, game.left, game.right, game.epsilon * Fraction(2, 3))
    assert play(player, less, 30_000).violation


def test_the_event_is_named() -> None:
    player = MechanismPlayer(Projective.optimised(500, THREE))
    game = report_once(player, 0, 400)
    found = play(player, Game(game.name, game.left, game.right, Fraction(1, 2)), 20_000)
    assert found.violation
    assert SUPPORT in found.event


@pytest.mark.parametrize("samples", [1_500, at_night(4_000)])
@pytest.mark.parametrize(
    "collection",
    [collect(Direct(3, THREE), 4), collect(RAPPOR, 2, "state"), collect(RAPPOR, 20, "report")],
    ids=["direct", "memo by state", "memo by report"],
)
def test_a_correct_client_passes_every_game(collection: Collection, samples: int) -> None:
    player = DevicePlayer(collection)
    found = audit_collection(player, reports=12, confidence=CONFIDENCE, samples=samples)
    games = [each for each in found.values() if isinstance(each, Finding)]
    assert len(games) == (5 if collection.mechanism is RAPPOR else 7)
    assert not any(each.violation for each in found.values())


# -- commands ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("samples", [1_500, at_night(4_000)])
def test_the_javascript_client_passes_every_game(samples: int) -> None:
    player = CommandPlayer(collect(RAPPOR, 2, "state"), [find_node(), str(CLIENT)])
    found = audit_collection(player, reports=12, confidence=CONFIDENCE, samples=samples)
    assert sum(isinstance(each, Finding) for each in found.values()) == 5
    for name, each in found.items():
        print(name, each)
        assert not each.violation


def test_a_wrong_javascript_client_is_refuted(tmp_path: Path) -> None:
    """The mutant keeps the truth for twice as many draws."""
    text = CLIENT.read_text(encoding="utf-8")
    right = "if (number < a) return true_;"
    assert text.count(right) == 1
    wrong = tmp_path / "client.js"
    wrong.write_text(text.replace(right, "if (number < 2 * a) return true_;"), encoding="utf-8")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    player = CommandPlayer(collect(Direct(8, THREE), 4), f"{find_node()} {wrong} {{collection}}")
    assert play(player, report_once(player, "v0", "v1"), 4_000).violation


def write_command(tmp_path: Path, body: str) -> str:
    script = tmp_path / "client.py"
    script.write_text(f"import json, sys\nfor line in sys.stdin:\n    asked = json.loads(line)\n    {body}\n")
    return f"{sys.executable} {script}"


def test_a_command_that_tells_the_truth_is_refuted(tmp_path: Path) -> None:
    body = 'print(json.dumps({"report": [int(asked["value"][1:])]}), flush=True)'
    player = CommandPlayer(collect(Direct(3, THREE), 4), write_command(tmp_path, body))
    found = play(player, report_once(player, "v0", "v1"), 1_000)
    assert found.violation


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("sys.exit(3)", "ended before it answered"),
        ('print("no JSON", flush=True)', "no line of JSON"),
        ('print(json.dumps({"report": "x"}), flush=True)', "no line of JSON"),
        ("import time; time.sleep(60)", "did not answer within 1 s"),
    ],
)
def test_commands_that_do_not_answer_are_named(tmp_path: Path, body: str, reason: str) -> None:
    player = CommandPlayer(collect(Direct(3, THREE), 4), write_command(tmp_path, body), limit=1)
    with pytest.raises(BadParameter, match=reason):
        play(player, report_once(player, "v0", "v1"), 1_000)


def test_commands_that_cannot_be_run_are_refused() -> None:
    collection = collect(Direct(3, THREE), 4)
    with pytest.raises(BadParameter, match="nothing to run"):
        CommandPlayer(collection, "")
    player = CommandPlayer(collection, "/nowhere/at/all")
    with pytest.raises(BadParameter, match="No such file"):
        play(player, report_once(player, "v0", "v1"), 1_000)
    with pytest.raises(BadParameter, match="not held"):
        list(player.play(History(("v0",), (0,)), 1))


# -- games ------------------------------------------------------------------------------------------------------------------


def test_claims_for_life() -> None:
    history = History((0, 1, 0), (0, 1, 2))
    assert claim_for_life(MechanismPlayer(Direct(3, THREE)), history) == pytest.approx(3 * log(3))
    assert claim_for_life(MechanismPlayer(RAPPOR), history) == pytest.approx(2 * STATE)
    for per, times in (("once", 1), ("report", 3)):
        player = DevicePlayer(collect(Direct(3, THREE), 100, per))
        assert claim_for_life(player, history) == pytest.approx(times * log(3), abs=1e-8)
    assert claim_for_life(DevicePlayer(collect(RAPPOR, 100, "state")), history) == pytest.approx(2 * STATE, abs=1e-8)


def test_histories_with_other_patterns_are_refused() -> None:
    player = MechanismPlayer(RAPPOR)
    with pytest.raises(BadParameter, match="not equal at the same times"):
        recall(player, [0, 0], [0, 1])
    with pytest.raises(BadParameter, match="left has 2"):
        recall(player, [0, 0], [0])
    assert [game.name for game in list_games(player, 0, 1)] == ["one report", "averaging", "memo"]


def test_histories_in_words() -> None:
    assert repr(History(("a",), (0,))) == "a report of 'a'"
    assert repr(History(("a", "a"), (0, 0))) == "a report of 'a', asked for 2 times"
    assert repr(History(("a", "a"), (0, 1))) == "2 reports of 'a'"
    assert repr(History(("a", "b"), (0, 1))) == "reports of 'a', 'b'"


def test_pairs_of_values_are_checked() -> None:
    player = DevicePlayer(collect(Direct(3, THREE), 4))
    with pytest.raises(BadParameter, match="two values"):
        audit_collection(player, [["v0"]])
    assert json.dumps(
        [each.to_dict() for each in audit_collection(player, [["v0", "v2"]], reports=4, samples=3_000).values()]
    )
