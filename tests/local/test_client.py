"""A device draws a report once, pays for it once, repeats it byte for byte, and stops for life when its budget is spent."""

import json
import os
import sqlite3
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from discreet.errors import BadParameter, BadValues, BudgetExceeded
from discreet.local import client as client_module
from discreet.local.client import Client
from discreet.local.collection import MECHANISMS, Collection, Lifetime
from discreet.local.domains import Integers, Listed
from discreet.local.draws import SystemDraws, TapeDraws
from discreet.local.microsoft import one_bit_rrpm
from discreet.local.oracles import Direct, SetOracle
from discreet.local.store import FileStore, MemoryStore, Store
from discreet.local.vectors import Seeded, choose_collection, list_mechanisms
from discreet.local.wire import Form
from tests.support import local_mutants
from tests.support.chance import is_plausible
from tests.support.draw_trees import Recorder
from tests.support.local_memo import MemoBit
from tests.support.node import CLIENT, run_node

DIRECT = Direct(3, Fraction(3))
COLOURS = Collection("colours", 1, DIRECT, Listed(("red", "green")), Lifetime.of(DIRECT, Fraction(7, 2)))


@pytest.fixture
def memo(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[MemoBit]]:
    monkeypatch.setitem(MECHANISMS, "memo bit", MemoBit)
    return MemoBit  # type: ignore[return-value]


def collect(mechanism: Any, epsilon: int, per: Any = "report", name: str = "memo") -> Collection:
    labels = tuple(f"v{place}" for place in range(mechanism.values))
    return Collection(name, 1, mechanism, Listed(labels, other=None), Lifetime.of(mechanism, epsilon, per))


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else FileStore(tmp_path / "device.db")


# -- retries ---------------------------------------------------------------------------------------------------------------


def repeats_itself(client: Client) -> bool:
    """Whether forty retries, also with another value, give one message."""
    return len({client.report(value, "monday") for value in ("red", "green") * 20}) == 1


@pytest.mark.parametrize("form", Form)
def test_a_retry_is_the_same_bytes_and_free(store: Store, form: Form) -> None:
    client = Client(COLOURS, store, form)
    assert repeats_itself(client)
    assert client.spent.epsilon == Fraction(1098612289, 10**9)
    assert repeats_itself(Client(COLOURS, store, form))  # after a restart too


def test_fresh_noise_on_retry_is_noticed() -> None:
    mutant = local_mutants.FreshRetry(COLOURS, MemoryStore())
    assert not repeats_itself(mutant)
    assert mutant.spent.epsilon == Fraction(1098612289, 10**9)  # its account does not show it


def test_every_report_has_a_nonce_of_its_own(store: Store) -> None:
    client = Client(COLOURS, store)
    nonces = {json.loads(client.report("red", occasion))["n"] for occasion in ("a", "b", "c", "a")}
    assert len(nonces) == 3


def test_a_confirmed_report_is_gone_and_is_not_drawn_again(store: Store) -> None:
    client = Client(COLOURS, store)
    client.report("red", "monday")
    client.confirm("monday")
    with pytest.raises(BadParameter, match="was confirmed"):
        client.report("red", "monday")
    with pytest.raises(BadParameter, match="has no report"):
        client.confirm("tuesday")


def test_nothing_of_time_device_or_occasion_is_in_a_message(store: Store) -> None:
    client = Client(COLOURS, store)
    one, two = (json.loads(client.report("red", occasion)) for occasion in ("monday", "tuesday"))
    assert list(one) == list(two) == ["v", "c", "n", "y"]
    assert (one["v"], one["c"]) == (two["v"], two["c"]) == (1, COLOURS.id[:16])


# -- the account -----------------------------------------------------------------------------------------------------------


def count_reports(client: Client, values: list[str]) -> int:
    """How many occasions, one for each value, get a report."""
    done = 0
    for place, value in enumerate(values):
        try:
            client.report(value, f"day {place}")
            done += 1
        except BudgetExceeded:
            continue
    return done


def test_a_device_stops_for_life(store: Store) -> None:
    client = Client(COLOURS, store)
    assert count_reports(client, ["red"] * 10) == COLOURS.lifetime.reports == 3
    assert client.spent.epsilon <= COLOURS.lifetime.epsilon
    assert client.report("green", "day 0")  # what was paid for can still be sent again
    with pytest.raises(BudgetExceeded, match="reported for life"):
        Client(COLOURS, store).report("red", "later")


def test_a_refusal_charges_nothing_and_stores_nothing() -> None:
    store = MemoryStore(limit=10**9)
    client = Client(COLOURS, store)
    with pytest.raises(BudgetExceeded):
        client.report("red", "monday")
    assert client.spent.epsilon == 0
    with store.transaction() as state:
        assert state.collections == {}


def test_a_device_has_one_budget_for_all_collections() -> None:
    store = MemoryStore(limit=4 * 10**9)
    again = Collection("colours", 2, DIRECT, COLOURS.domain, COLOURS.lifetime)
    assert count_reports(Client(COLOURS, store), ["red"] * 10) == 3
    assert count_reports(Client(again, store), ["red"] * 10) == 0
    assert count_reports(Client(again, MemoryStore()), ["red"] * 10) == 3


def test_a_new_file_takes_the_budget_of_the_device(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "device.db", epsilon=2.5)
    assert count_reports(Client(COLOURS, store), ["red"] * 10) == 2
    assert count_reports(Client(COLOURS, FileStore(tmp_path / "device.db", epsilon=2.5)), ["red"] * 10) == 2  # for life
    with pytest.raises(BadParameter, match=r"epsilon is 100: above the ε = 2\.5 that this device has for life"):
        FileStore(tmp_path / "device.db", epsilon=100)


@pytest.mark.parametrize("first", [None, 10])
def test_a_smaller_budget_applies_to_a_device_from_then_on(tmp_path: Path, first: int | None) -> None:
    path = tmp_path / "device.db"
    assert count_reports(Client(COLOURS, FileStore(path, epsilon=first)), ["red"] * 2) == 2
    lowered = Client(COLOURS, FileStore(path, epsilon=1))
    with pytest.raises(BudgetExceeded):
        lowered.report("red", "later")
    with pytest.raises(BudgetExceeded):  # it is stored
        Client(COLOURS, FileStore(path)).report("red", "later")
    assert lowered.report("red", "day 0")  # what was paid for can still be sent again
    with pytest.raises(BadParameter, match="above the ε = 1"):
        FileStore(path, epsilon=first or 2)


STORE_SCRIPT = """
  import {{ Client, StringStore }} from {client};
  let text = null;
  const open = (...limits) => new StringStore(() => text, (next) => (text = next), ...limits);
  const client = (store) => new Client({text}, {id}, store);
  const attempt = (what) => {{
    try {{ what(); return "done"; }} catch (error) {{ return error.code ?? String(error); }}
  }};
  console.log(JSON.stringify({steps}));
"""


def run_store(collection: Collection, steps: str) -> Any:
    """Run JavaScript with `open` (a store on one text), `client` and `attempt` (the code of a refusal)."""
    texts = {"text": json.dumps(collection.to_json().decode()), "id": json.dumps(collection.id)}
    return json.loads(
        run_node("--input-type=module", "-e", STORE_SCRIPT.format(client=json.dumps(CLIENT.as_uri()), steps=steps, **texts))
    )


@pytest.mark.parametrize("first", ["null", "10e9"])
def test_a_smaller_budget_applies_to_a_device_in_javascript(first: str) -> None:
    steps = f"""[
      attempt(() => client(open({first})).report("red", "a")),
      attempt(() => client(open(1e9)).report("red", "b")),
      attempt(() => client(open()).report("red", "b")),
      attempt(() => client(open(1e9)).report("red", "a")),
      attempt(() => client(open(5e9)).report("red", "a")),
    ]"""
    assert run_store(COLOURS, steps) == ["done", "budget", "budget", "done", "state"]


# -- the condition of memoised noise ---------------------------------------------------------------------------------------

ONE_BIT = one_bit_rrpm(24, 24, 1)
HOURS = Collection("hours", 1, ONE_BIT, Integers(0, 24, missing=None), Lifetime.of(ONE_BIT, 4, per="state"))


def test_a_limit_of_the_device_does_not_count_a_conditional_epsilon(tmp_path: Path) -> None:
    client = Client(HOURS, FileStore(tmp_path / "device.db", epsilon=3))
    with pytest.raises(BadParameter, match="holds only between histories with the same pattern"):
        client.report(0, "monday")
    assert client.spent.epsilon == 0


def test_a_limit_counts_it_if_the_owner_says_so_and_the_condition_is_told(tmp_path: Path) -> None:
    path = tmp_path / "device.db"
    client = Client(HOURS, FileStore(path, epsilon=3, conditional=True))
    for day in range(10):
        client.report(0 if day < 5 else 24, str(day))
    spent = Client(HOURS, FileStore(path)).spent
    assert (spent.unconditional, spent.condition) == (float("inf"), HOURS.lifetime.condition)
    assert 1.99 < spent.epsilon < 2.01
    assert "same pattern" in str(spent)
    assert "between any two histories no finite ε" in str(spent)
    with pytest.raises(BadParameter, match="conditional"):
        FileStore(path, conditional=False)


def test_a_limit_that_comes_later_does_not_cover_what_was_reported_on_a_condition(tmp_path: Path) -> None:
    path = tmp_path / "device.db"
    Client(HOURS, FileStore(path)).report(0, "monday")
    with pytest.raises(BadParameter, match="conditional=True"):
        FileStore(path, epsilon=3)
    FileStore(path, epsilon=3, conditional=True)
    Client(COLOURS, FileStore(tmp_path / "other.db", epsilon=3)).report("red", "monday")
    with pytest.raises(BadParameter, match="conditional is True"):
        FileStore(tmp_path / "other.db", conditional=True)


def test_spent_between_any_two_histories_is_bare_only_where_it_holds() -> None:
    client = Client(COLOURS, MemoryStore())
    client.report("red", "monday")
    assert client.spent.epsilon == client.spent.unconditional == Fraction(1098612289, 10**9)
    assert str(client.spent) == "ε = 1.1, holding between any two histories of values"


def test_a_limit_counts_no_conditional_epsilon_in_javascript() -> None:
    steps = """[
      attempt(() => client(open(3e9)).report(0, "a")),
      attempt(() => client(open(3e9, true)).report(0, "a")),
      attempt(() => client(open()).report(24, "b")),
      attempt(() => client(open(null, false)).report(24, "c")),
      client(open()).condition.includes("same pattern"),
    ]"""
    assert run_store(HOURS, steps) == ["collection", "done", "done", "state", True]


# -- occasions -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("occasion", [5, 5.0, None, b"5", True, ("5",), "\ud800"], ids=ascii)
def test_an_occasion_is_a_text(store: Store, occasion: Any) -> None:
    client = Client(COLOURS, store)
    for act in (lambda: client.report("red", occasion), lambda: client.confirm(occasion)):
        with pytest.raises(BadParameter, match=r"^occasion is"):
            act()
    assert client.spent.epsilon == 0


def test_an_occasion_is_a_text_in_javascript() -> None:
    given = ["5", "null", "undefined", "true", "Uint8Array.of(53)", "10n", '["5"]', '"\\ud800"', 'new String("5")']
    steps = ",".join(f'attempt(() => client(open()).report("red", {each}))' for each in given)
    assert run_store(COLOURS, f"[{steps}, text]") == ["occasion"] * len(given) + [None]


@pytest.mark.parametrize("pinned", [None, "", 5, COLOURS.id.upper()], ids=ascii)
def test_a_client_that_is_delivered_a_collection_is_pinned(pinned: Any) -> None:
    with pytest.raises(BadParameter):
        Client.open(COLOURS.to_json(), pinned, MemoryStore())
    assert Client.open(COLOURS.to_json(), COLOURS.id, MemoryStore()).id == COLOURS.id


def test_once_is_once() -> None:
    collection = Collection("colours", 1, DIRECT, COLOURS.domain, Lifetime.of(DIRECT, 100, "once"))
    assert count_reports(Client(collection, MemoryStore()), ["red"] * 10) == 1


def test_states_are_paid_for_once_each(memo: type[MemoBit]) -> None:
    mechanism = memo(4, 3, Fraction(3))
    collection = collect(mechanism, 2, "state")  # pays for one state: 2 < 2 ln 3
    client = Client(collection, MemoryStore())
    assert count_reports(client, ["v0", "v2", "v0", "v1", "v3", "v2"]) == 4
    assert client.spent.epsilon == Fraction(1098612289, 10**9)


def test_with_a_fresh_step_every_report_costs(memo: type[MemoBit]) -> None:
    collection = collect(memo(4, 3, Fraction(3), Fraction(1, 5)), 6)
    assert count_reports(Client(collection, MemoryStore()), ["v0"] * 10) == 4  # of ln 4 each


# -- memo ------------------------------------------------------------------------------------------------------------------


def answers(client: Client, days: int) -> set[tuple[int, ...]]:
    return {tuple(json.loads(client.report("v0", f"day {day}"))["y"]) for day in range(days)}


def test_memoised_reports_repeat_and_redrawn_ones_are_noticed(memo: type[MemoBit], monkeypatch: pytest.MonkeyPatch) -> None:
    collection = collect(memo(4, 1, Fraction(3)), 5, "state")
    for place in range(5):
        assert len(answers(Client(collection, MemoryStore(bytes([place]) * 32)), 60)) == 1
    monkeypatch.setattr(client_module, "draw_report", local_mutants.redraw_permanent)
    assert len(answers(Client(collection, MemoryStore()), 100)) == 2  # by chance 1 of 100: 3e-13


def test_a_memo_hit_takes_the_path_of_a_first_report(memo: type[MemoBit]) -> None:
    collection = collect(memo(4, 3, Fraction(3), Fraction(1, 5)), 100)
    store, sizes = MemoryStore(), []
    for day, value in enumerate(("v0", "v0", "v1", "v0")):
        recorder = Recorder(bytes(64))
        Client(collection, store, draws=recorder).report(value, f"day {day}")
        sizes.append(recorder.sizes)
    assert sizes == [[16, 1]] * 4


# -- draws of the client as a whole ----------------------------------------------------------------------------------------


def test_a_client_draws_from_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def urandom(count: int) -> bytes:
        taken.append(count)
        return bytes(count)

    monkeypatch.setattr(os, "urandom", urandom)
    assert isinstance(Client(COLOURS, MemoryStore(bytes(32)))._draws, SystemDraws)
    assert json.loads(Client(COLOURS, MemoryStore(bytes(32))).report("red", "a"))["n"] == "00" * 16
    assert taken == [16, 1]


def test_a_value_that_is_refused_leaves_the_device_as_it_was() -> None:
    store = MemoryStore()
    client = Client(collect(DIRECT, 10), store)
    with pytest.raises(BadValues):
        client.report("mauve", "monday")
    assert client.spent.epsilon == 0
    assert client.report("v1", "monday")


def test_a_tape_that_ends_is_no_report() -> None:
    store = MemoryStore()
    with pytest.raises(BadParameter, match="tape"):
        Client(COLOURS, store, draws=TapeDraws(bytes(16))).report("red", "monday")
    assert Client(COLOURS, store).spent.epsilon == 0


SAMPLES = 4000
ORDINARY = {kind: mechanisms[2 if kind != "hadamard" else 1] for kind, mechanisms in list_mechanisms().items()}


def test_single_draws_follow_the_stated_supports() -> None:
    """At ordinary sizes, in Python: how often a report supports the true value and another; false alarms below 1e-9 each."""
    for kind, oracle in ORDINARY.items():
        if not isinstance(oracle, SetOracle):
            continue  # the named systems have tests of their own
        draws, value = Seeded(f"supports {kind}"), oracle.values // 3
        reports = [oracle.draw(value, draws) for _ in range(SAMPLES // 8 if kind == "subset" else SAMPLES)]
        own = sum(oracle.supports(report, value) for report in reports)
        assert is_plausible(own, len(reports), oracle.truth_support)
        if kind != "fixed hashed":
            other = sum(oracle.supports(report, value + 1) for report in reports)
            assert is_plausible(other, len(reports), oracle.other_support)


@pytest.mark.parametrize("kind", ["direct", "projective"])
def test_single_draws_of_javascript_follow_the_stated_supports(kind: str, tmp_path: Path) -> None:
    """With the system's randomness: false alarms below 1e-9 each."""
    oracle = list_mechanisms()[kind][0]
    assert isinstance(oracle, SetOracle)
    collection = choose_collection(oracle)
    (tmp_path / "collection.json").write_bytes(collection.to_json())
    label = collection.domain.labels[1]  # type: ignore[index]
    printed = run_node(CLIENT, tmp_path / "collection.json", lines=(json.dumps({"value": label}) + "\n") * SAMPLES)
    reports = [tuple(json.loads(line)["report"]) for line in printed.splitlines()]
    assert len(reports) == SAMPLES
    assert is_plausible(sum(oracle.supports(report, 1) for report in reports), SAMPLES, oracle.truth_support)
    assert is_plausible(sum(oracle.supports(report, 0) for report in reports), SAMPLES, oracle.other_support)


def test_the_comparison_notices_a_wrong_coin() -> None:
    oracle = local_mutants.MUTANT_MECHANISMS["never clears"]
    assert isinstance(oracle, SetOracle)
    draws = Seeded("never clears")
    own = sum(oracle.supports(oracle.draw(1, draws), 1) for _ in range(SAMPLES))
    assert not is_plausible(own, SAMPLES, oracle.truth_support)


# -- the file --------------------------------------------------------------------------------------------------------------


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "device.db"
    FileStore(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    with pytest.raises(BadParameter, match="chmod 600"):
        FileStore(path)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "device.db"
    path.write_bytes(b"nothing of the kind" * 100)
    path.chmod(0o600)
    with pytest.raises(BadParameter, match="cannot be used"):
        FileStore(path)
    with pytest.raises(BadParameter, match="cannot be created"):
        FileStore(tmp_path / "nowhere" / "device.db")


@pytest.mark.parametrize("path", ["", ":memory:", "file:device?mode=memory", "\0", ".", "/dev/null"], ids=ascii)
def test_a_path_that_is_no_file_is_refused(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadParameter, match=r"^store is"):
        FileStore(path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "state", ["{}", '{"secret":"00"}', '{"secret":"%s","collections":{"a":{"spent":-1}}}' % ("00" * 32), "[]", "no"]
)
def test_a_state_that_no_client_wrote_is_refused(state: str, tmp_path: Path) -> None:
    path = tmp_path / "device.db"
    FileStore(path)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE device SET state = ?", (state.encode(),))
    for act in (lambda: FileStore(path), lambda: FileStore(path, epsilon=1)):
        with pytest.raises(BadParameter, match="holds no state of a device"):
            Client(COLOURS, act()).report("red", "monday")


def test_a_state_that_no_client_wrote_is_refused_in_javascript() -> None:
    bad = ["", "{}", "null", "no", '{"secret":"00"}', "[]", json.dumps({"secret": "00" * 32, "collections": {"a": {}}})]
    steps = ",".join(f'attempt(() => {{ text = {json.dumps(each)}; client(open()).report("red", "a") }})' for each in bad)
    assert run_store(COLOURS, f"[{steps}]") == ["state"] * len(bad)


def test_a_full_disk_is_an_error_of_discreet_and_nothing_is_reported(tmp_path: Path) -> None:
    program = (
        "import resource, signal, sys; sys.path[:0] = sys.argv[2:]\n"
        "from tests.local.test_client import _report_once\n"
        "from discreet import DiscreetError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try: print(_report_once(sys.argv[1]))\n"
        "except DiscreetError as error: print('refused', error)"
    )
    path = str(tmp_path / "device.db")
    FileStore(path)
    full = subprocess.run([sys.executable, "-c", program, path, *sys.path], capture_output=True, text=True, check=False)
    assert full.stdout.startswith("refused store is"), full.stderr
    assert Client(COLOURS, FileStore(path)).spent.epsilon == 0


def _report_once(path: str) -> str:
    return Client(COLOURS, FileStore(path)).report("red", "monday").decode()


def test_two_processes_make_one_report_of_an_occasion(tmp_path: Path) -> None:
    path = str(tmp_path / "device.db")
    FileStore(path)
    with get_context("spawn").Pool(2) as pool:
        messages = pool.map(_report_once, [path] * 6)
    assert len(set(messages)) == 1
    assert Client(COLOURS, FileStore(path)).spent.epsilon == Fraction(1098612289, 10**9)


def test_what_is_returned_was_stored_before(tmp_path: Path) -> None:
    """A process that is killed as it gets the message sends the same one after its restart."""
    program = (
        "import os, sys; sys.path[:0] = sys.argv[2:]\n"
        "from tests.local.test_client import _report_once\n"
        "print(_report_once(sys.argv[1]), flush=True); os.kill(os.getpid(), 9)"
    )
    path = tmp_path / "device.db"
    killed = subprocess.run(
        [sys.executable, "-c", program, str(path), *sys.path], capture_output=True, text=True, check=False
    )
    assert killed.returncode == -9
    assert killed.stdout.strip() == _report_once(str(path))


def test_python_and_javascript_keep_the_same_state() -> None:
    """A state that one client wrote is read by the other: fields and names are the same."""
    store = MemoryStore(bytes(32))
    message = Client(COLOURS, store).report("red", "monday").decode()
    with store.transaction() as state:
        entry = state.collections[COLOURS.id]
        fields = {"secret": state.secret, "limit": state.limit, "collections": {COLOURS.id: {
            "reports": entry.reports, "spent": entry.spent, "states": entry.states,
            "sent": {"monday": {"nonce": entry.sent["monday"].nonce, "report": list(entry.sent["monday"].report)}}}}}  # type: ignore[union-attr]  # fmt: skip
    script = f"""
      import {{ Client, StringStore }} from {json.dumps(CLIENT.as_uri())};
      const store = new StringStore(() => {json.dumps(json.dumps(fields))}, () => {{ throw new Error("drawn again"); }});
      const client = new Client({json.dumps(COLOURS.to_json().decode())}, {json.dumps(COLOURS.id)}, store);
      console.log(client.report("red", "monday"));
    """
    assert run_node("--input-type=module", "-e", script).strip() == message


def test_reports_of_many_devices_are_fresh() -> None:
    messages = Counter(Client(COLOURS, MemoryStore()).report("red", "monday") for _ in range(50))
    assert max(messages.values()) == 1


WRITER = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0).execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError:
    sys.exit(3)
"""


def test_a_device_that_is_opened_twice_keeps_the_lock_of_its_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """POSIX takes all locks of a process off a file of which it closes any handle."""
    path, connect = tmp_path / "device.db", sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: connect(*given, **named | {"timeout": 0}))
    with FileStore(path).transaction():
        with pytest.raises(BadParameter, match="locked"):
            FileStore(path)
        assert subprocess.run([sys.executable, "-c", WRITER, str(path)], check=False).returncode == 3
