"""Streams over a real table and a real ledger: what is cut, what is frozen, what is refused, what is shown again."""

import json
import shutil
import stat
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas
import pytest

import discreet
from discreet import connect
from discreet.errors import (
    BadParameter,
    BudgetExceeded,
    EngineFailed,
    LedgerCorrupted,
    LedgerUnavailable,
    QueryRefused,
    SourceRefused,
)
from discreet.ledger import open_ledger
from discreet.ledger.chain import LedgerAccount
from discreet.ledger.check import check_ledger
from discreet.query.schema import Column, Kind, Table
from discreet.session.session import Session
from discreet.streams import Stream, list_streams, load_stream, open_stream, read_stream
from discreet.testing import seeded_bits
from tests.support.rounds import pairs_by_day

START, COUNT = "2026-03-01", "SELECT COUNT(*) AS n FROM visits"
BY_WARD = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
KEYS = {"ward": ["north", "south"]}
POLICY = Table("visits", "id", {"id": Column(Kind.TEXT), "day": Column(Kind.DATE), "ward": Column(Kind.TEXT)})
Row = tuple[str, int, str]  # unit, day from 0, ward


def write(path: Path, rows: list[Row]) -> None:
    lines = [f"{unit},{date(2026, 3, 1) + timedelta(days=day)},{ward}\n" for unit, day, ward in rows]
    path.write_text("id,day,ward\n" + "".join(lines))


def open_session(folder: Path, **options: Any) -> Session:
    ledger = folder / "hr.ledger"
    if not ledger.exists():
        open_ledger(ledger, create=True).open_account("hr", 100, 1e-6)
    defaults = {"unit": "id", "keys": KEYS, "policy": POLICY}
    return connect(str(folder / "visits.csv"), ledger=ledger, **(defaults | options))


def open_one(session: Session, query: str = COUNT, **options: Any) -> Stream:
    defaults = {"name": "visits", "time": "day", "start": START, "steps": 8, "epsilon": 50}
    return open_stream(session, query, **(defaults | options))


def exact_counts(stream: Stream) -> list[list[int]]:
    assert stream.state is not None
    return stream.state.read_counts()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [(f"person-{i % 7}", i % 8, "north" if i % 3 else "south") for i in range(60)]
    write(tmp_path / "visits.csv", rows)
    return tmp_path


def test_running_totals_are_near_the_truth_and_windows_are_differences(folder: Path) -> None:
    stream = open_one(open_session(folder, max_groups=2, max_rows=10), BY_WARD, at_most=8)
    for step in range(1, 9):
        answer = stream.tick()
        assert answer.step == step
        assert answer.start == f"2026-03-0{step}"
    truth = np.cumsum(exact_counts(stream), axis=0)
    assert truth[-1].sum() == 60
    for step, answer in enumerate(stream.show(confidence=0.999999).answers):
        for counter, estimate in enumerate(answer.estimates):
            assert estimate.lower <= truth[step][counter] <= estimate.upper
    windows = stream.show(window=3).answers
    totals = stream.show().answers
    for i in range(3, 8):
        for each, here, before in zip(windows[i].estimates, totals[i].estimates, totals[i - 3].estimates, strict=True):
            assert each.value == pytest.approx(here.value - before.value, abs=1e-6)
    assert [each.keys for each in totals[0].estimates] == [("north",), ("south",)]


def test_the_whole_horizon_is_paid_at_opening_and_a_tick_costs_nothing(folder: Path) -> None:
    session = open_session(folder)
    before = session.account.budget.remaining
    stream = open_one(session)
    after = session.account.budget.remaining
    assert after < before
    for _ in range(8):
        stream.tick()
    assert session.account.budget.remaining == after
    assert check_ledger(open_ledger(folder / "hr.ledger")).problem is None
    with pytest.raises(BadParameter, match="horizon of 8 steps is over"):
        stream.tick(9)
    assert stream.tick(8).step == 8


def test_a_horizon_that_does_not_fit_is_refused_and_nothing_is_left(folder: Path) -> None:
    session = open_session(folder)
    with pytest.raises(BudgetExceeded):
        open_one(session, epsilon=200)
    assert session.account.budget.spent == 0
    with pytest.raises(BadParameter, match="no stream of this account"):
        load_stream(session, "visits")


def test_opening_again_is_free_and_another_design_under_the_name_is_refused(folder: Path) -> None:
    session = open_session(folder)
    first = open_one(session).tick()
    spent = session.account.budget.spent
    again = open_one(open_session(folder))
    assert again.tick(1) == first
    assert session.account.budget.spent == spent
    with pytest.raises(BadParameter, match="another ε"):
        open_one(session, epsilon=40)
    with pytest.raises(BadParameter, match="other declarations"):
        load_stream(open_session(folder, max_rows=3), "visits")
    assert [each.name for each in list_streams(session.account)] == ["visits"]  # type: ignore[arg-type]


def test_no_unit_counts_more_often_than_declared(tmp_path: Path) -> None:
    every_day = [("a", day, "north") for day in range(8)]
    write(tmp_path / "visits.csv", [*every_day, *every_day, ("b", 5, "south"), ("b", 5, "north")])
    stream = open_one(open_session(tmp_path), BY_WARD, at_most=2, apart=3)
    for _ in range(8):
        stream.tick()
    counts = exact_counts(stream)
    assert [row[0] + row[1] for row in counts] == [1, 0, 0, 1, 0, 1, 0, 0]  # a on days 0 and 3, b once on day 5


def test_the_past_is_frozen_whatever_becomes_of_the_rows(tmp_path: Path) -> None:
    """A unit whose rows are re-dated at every step still counts at most as often as declared."""
    write(tmp_path / "visits.csv", [("a", 0, "north"), ("b", 0, "north")])
    shown = open_one(open_session(tmp_path), at_most=1).tick()
    for day in range(1, 6):
        write(tmp_path / "visits.csv", [("a", day, "north")])  # re-dated, and b is deleted
        stream = load_stream(open_session(tmp_path), "visits")
        stream.tick()
        assert exact_counts(stream) == [[2], *[[0]] * day]
        assert stream.tick(1) == shown


def test_rows_that_came_after_the_session_was_opened_are_not_taken_for_none(tmp_path: Path) -> None:
    """A session copies a CSV file: its next step would count nobody, and a step is never measured again."""
    rows = [("a", 0, "north"), ("b", 0, "north")]
    write(tmp_path / "visits.csv", rows)
    stream = open_one(open_session(tmp_path), at_most=8)
    shown = stream.tick()
    write(tmp_path / "visits.csv", [*rows, ("a", 1, "north"), ("c", 1, "north")])
    with pytest.raises(SourceRefused, match="Connect to it again"):
        stream.tick(2)
    assert stream.tick(1) == shown  # what is recorded needs no rows
    again = load_stream(open_session(tmp_path), "visits")
    again.tick()
    assert exact_counts(again) == [[2], [2]]


def test_a_file_that_came_since_is_noticed_also_where_files_are_read_again(tmp_path: Path) -> None:
    (tmp_path / "days").mkdir()
    for day in range(2):
        frame = pandas.DataFrame({"id": ["a", "b"], "day": [date(2026, 3, 1 + day)] * 2, "ward": ["north"] * 2})
        frame.to_parquet(tmp_path / "days" / f"{day}.parquet")
        if day == 0:
            open_ledger(tmp_path / "hr.ledger", create=True).open_account("hr", 100, 1e-6)
            given = {"ledger": tmp_path / "hr.ledger", "unit": "id", "keys": KEYS, "policy": POLICY, "table": "visits"}
            stream = open_one(connect(str(tmp_path / "days"), **given), at_most=8)
            stream.tick()
    with pytest.raises(SourceRefused, match="Connect to it again"):
        stream.tick(2)
    again = load_stream(connect(str(tmp_path / "days"), **given), "visits")
    again.tick()
    assert exact_counts(again) == [[2], [2]]


def test_a_stream_that_looked_at_the_rows_alone_would_count_re_dated_ones_again(tmp_path: Path) -> None:
    """The mutant: participation is computed from the rows that are there now."""

    def count(rows: list[Row], day: int) -> int:
        past = {unit for unit, when, _ in rows if when < day}
        return len({unit for unit, when, _ in rows if when == day} - past)

    assert sum(count([("a", day, "north")], day) for day in range(6)) == 6


def test_rows_and_counters_per_step_are_bounded(tmp_path: Path) -> None:
    rows = [("a", 0, "north")] * 9 + [("a", 0, "south")] * 9 + [("b", 0, "elsewhere"), ("c", 0, "south")]
    write(tmp_path / "visits.csv", rows)
    stream = open_one(open_session(tmp_path, max_rows=4), BY_WARD)
    stream.tick()
    [counts] = exact_counts(stream)
    assert counts in ([4, 1], [0, 5])  # one counter of a, with four rows; nothing of b
    wide = open_one(open_session(tmp_path, max_rows=2, max_groups=2), BY_WARD, name="wide")
    wide.tick()
    assert exact_counts(wide) == [[2, 3]]


def test_one_person_more_changes_no_other_persons_contribution(tmp_path: Path) -> None:
    """The two states differ by one unit's own contributions, on every step, for random histories."""
    random = np.random.default_rng(7)
    for trial in range(3):
        rows = [(f"p{random.integers(5)}", int(random.integers(6)), "north") for _ in range(30)]
        counts = []
        for name, kept in (("with", rows), ("without", [each for each in rows if each[0] != "p0"])):
            place = tmp_path / f"{trial}-{name}"
            place.mkdir()
            write(place / "visits.csv", kept)
            stream = open_one(open_session(place), at_most=2, apart=2, steps=6)
            for _ in range(6):
                stream.tick()
            counts.append(np.array(exact_counts(stream))[:, 0])
        moved = counts[0] - counts[1]
        steps = np.flatnonzero(moved)
        assert set(moved) <= {0, 1}
        assert len(steps) <= 2
        assert (np.diff(steps) >= 2).all()


def test_steps_are_measured_when_their_period_is_over_and_in_order(folder: Path) -> None:
    stream = open_one(open_session(folder), start="2026-03-01")
    with pytest.raises(BadParameter, match="its period ends at 2026-03-02"):
        stream.tick(now=datetime(2026, 3, 1, 23))
    assert stream.tick(now=datetime(2026, 3, 2)).step == 1
    assert stream.tick(now=datetime(2026, 3, 2, 12)).step == 1  # a second run of the same day measures nothing
    assert stream.last_step == 1
    with pytest.raises(BadParameter, match="in their order"):
        stream.tick(3, now=datetime(2026, 4, 1))
    with pytest.raises(BadParameter, match="1 steps are recorded"):
        stream.answer(2)


def test_what_is_shown_again_is_the_record(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = open_session(folder)
    stream = open_one(session)
    shown = [stream.tick() for _ in range(3)]
    monkeypatch.setattr(type(session.engine), "read_contributions", lambda *_: pytest.fail("rows were read"))
    assert [load_stream(open_session(folder), "visits").tick(step) for step in (1, 2, 3)] == shown
    assert list(read_stream(session.account, "visits").show().answers) == shown


def test_a_stream_that_redraws_on_a_retry_is_noticed(folder: Path) -> None:
    """The mutant: another draw for a step that is recorded changes what is shown, and so does this test's law."""
    stream = open_one(open_session(folder))
    stream.tick()
    counts = np.array(exact_counts(stream))
    draws = {stream.design.mechanism.measure(counts, 1)[0][0] for _ in range(20)}
    assert len(draws) > 1
    assert len({stream.tick(1).value for _ in range(20)}) == 1


def test_noise_is_fresh_for_every_step_and_stream(folder: Path) -> None:
    session = open_session(folder)
    streams = [open_one(session, name=f"s{i}", steps=4, epsilon=1) for i in range(5)]
    values = [each.tick().value for each in streams]
    assert len(set(values)) == 5


# -- rollbacks and lost files ----------------------------------------------------------------------------------------------


def copy_ledger(folder: Path, name: str) -> Path:
    open_ledger(folder / "hr.ledger").close()
    place = folder / name
    place.mkdir(exist_ok=True)
    for path in folder.glob("hr.ledger*"):
        shutil.copy2(path, place / path.name)
    return place


def restore_ledger(folder: Path, place: Path) -> None:
    for path in folder.glob("hr.ledger*"):
        path.unlink()
    for path in place.iterdir():
        shutil.copy2(path, folder / path.name)


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_restored_ledger_is_noticed(folder: Path, lost: int) -> None:
    session = open_session(folder)
    stream = open_one(session)
    copies = {}
    for step in range(1, 5):
        stream.tick()
        session.account.store.close()  # type: ignore[attr-defined]
        copies[step] = copy_ledger(folder, f"after-{step}")
    restore_ledger(folder, copies[4 - lost])
    with pytest.raises(LedgerCorrupted, match="older copy was restored"):
        load_stream(open_session(folder), "visits").tick()


def test_a_step_that_the_ledger_lost_alone_is_recorded_with_the_same_noise(folder: Path, monkeypatch: Any) -> None:
    """A crash between freezing and recording: what is recorded later is what was frozen."""
    stream = open_one(open_session(folder))
    with monkeypatch.context() as patched:
        patched.setattr(LedgerAccount, "record", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            stream.tick()
    assert stream.state is not None
    frozen = stream.state.read_measured(1)
    again = load_stream(open_session(folder), "visits")
    again.tick()
    assert again._measured[0].tolist() == frozen


def find_state() -> Path:
    from discreet.ledger.owner_state import default_state_folder

    [path] = default_state_folder().glob("stream-*.sqlite")
    return path


def test_a_lost_or_older_state_ends_the_stream(folder: Path) -> None:
    stream = open_one(open_session(folder))
    shown = stream.tick()
    assert stream.state is not None
    assert stream.state.path is not None
    stream.state.close()
    for path in stream.state.path.parent.glob("stream-*"):
        path.unlink()
    later = load_stream(open_session(folder), "visits")
    assert later.tick(1) == shown
    with pytest.raises(LedgerUnavailable, match="has 0 steps, and the ledger 1"):
        later.tick()


def test_two_states_of_one_stream_never_mix(folder: Path) -> None:
    session = open_session(folder)
    one = open_one(session)
    other = load_stream(open_session(folder), "visits", state=folder / "other.sqlite")
    assert other.state is not None
    other.state.freeze(
        1, [], lambda counts: [[12345]], None, counters=1, at_most=1, apart=1, max_groups=1, max_rows=1
    )  # fmt: skip
    shown = one.tick()
    with pytest.raises(LedgerUnavailable, match="measured with another state"):
        other.tick()
    assert one.tick(1) == shown
    with pytest.raises(LedgerUnavailable, match="belongs to another stream"):
        open_one(session, name="second", state=folder / "other.sqlite")


def test_the_state_is_for_its_owner_alone_and_holds_no_identity(folder: Path) -> None:
    stream = open_one(open_session(folder))
    stream.tick()
    path = find_state()
    for each in path.parent.glob("stream-*"):
        assert stat.S_IMODE(each.stat().st_mode) == 0o600
    content = b"".join(each.read_bytes() for each in path.parent.glob("stream-*"))
    assert not any(f"person-{i}".encode() in content for i in range(7))
    path.chmod(0o644)
    with pytest.raises(LedgerUnavailable, match="other users have rights"):
        load_stream(open_session(folder), "visits")


def test_the_ledger_holds_no_exact_count(tmp_path: Path) -> None:
    """Everything that the ledger records of two neighbouring tables differs by noise alone: with no noise in the mechanism's
    way, it would be C·x, and that is recorded nowhere."""
    write(tmp_path / "visits.csv", [(f"u{i}", 0, "north") for i in range(977)])
    stream = open_one(open_session(tmp_path), epsilon=1)
    stream.tick()
    assert exact_counts(stream) == [[977]]
    for entry in open_ledger(tmp_path / "hr.ledger").iter_entries():
        text = msgspec.json.encode(msgspec.to_builtins(entry, enc_hook=str)).decode()
        assert "counts" not in text
        assert str(977 * 1024) not in text
        assert "u1" not in text


# -- what is refused -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT COUNT(DISTINCT ward) AS n FROM visits", "counts rows"),
        ("SELECT COUNT(*) AS n, COUNT(ward) AS m FROM visits", "counts rows"),
        (f"{BY_WARD} ORDER BY n LIMIT 1", "all its counters"),
        ("SELECT id, COUNT(*) AS n FROM visits GROUP BY id", "id"),
    ],
)
def test_what_a_stream_cannot_count_is_refused(folder: Path, query: str, message: str) -> None:
    with pytest.raises(QueryRefused, match=message):
        open_one(open_session(folder), query)


def test_keys_that_are_not_declared_are_refused(folder: Path) -> None:
    with pytest.raises(QueryRefused, match="keys of ward are not declared"):
        open_one(open_session(folder, keys=None), BY_WARD)


ODD_ROWS = {
    "text where a date is": "2,notadate,north", "a time of day": "2,2026-03-02 10:00:00,north",
    "a unit of letters": "a1,2026-03-02,north",
    "a unit with a fraction": "1.5,2026-03-02,north", "no ward": "2,2026-03-02,", "no row": None,
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD_ROWS)
def test_no_row_decides_whether_a_step_is_measured(tmp_path: Path, odd: str) -> None:
    """Types are declared, so a cell that does not fit is missing, and the step is measured."""
    policy = replace(POLICY, columns=POLICY.columns | {"id": Column(Kind.INTEGER)})
    place = tmp_path / "visits.csv"
    place.write_text("id,day,ward\n1,2026-03-01,north\n2,2026-03-01,north\n")
    open_one(open_session(tmp_path, policy=policy)).tick()
    row = ODD_ROWS[odd]
    place.write_text("id,day,ward\n" + ("" if row is None else f"3,2026-03-02,north\n{row}\n"))
    stream = load_stream(open_session(tmp_path, policy=policy), "visits")
    assert stream.tick().step == 2
    assert exact_counts(stream)[1] in ([0], [1], [2])


def test_a_ledger_keeps_no_stream_on_inferred_types(folder: Path) -> None:
    session = open_session(folder, policy=None)
    with pytest.raises(BadParameter, match=r"column types were inferred.*discreet policy init"):
        open_one(session)
    assert session.account.budget.spent == 0
    open_one(open_session(folder))
    with pytest.raises(BadParameter, match="column types were inferred") as caught:
        load_stream(open_session(folder, policy=None), "visits")
    assert caught.value.name == "policy"


def test_after_the_horizon_the_last_step_is_shown(folder: Path) -> None:
    stream = open_one(open_session(folder), steps=2)
    first, last = stream.tick(), stream.tick()
    assert stream.tick() == last != first
    with pytest.raises(BadParameter, match="horizon of 2 steps is over"):
        stream.tick(3)


def test_a_budget_that_is_too_small_is_said_in_epsilon(folder: Path) -> None:
    with pytest.raises(BudgetExceeded, match=r"This costs ε = .*epsilon=\S+ would fit") as caught:
        open_one(open_session(folder), epsilon=10**6)
    assert caught.value.fitting_epsilon == 100


def test_a_window_of_nothing_is_refused_before_the_first_step(folder: Path) -> None:
    with pytest.raises(BadParameter, match="window"):
        open_one(open_session(folder)).show(window=0)


def test_a_unit_counts_in_no_more_steps_than_there_are(folder: Path) -> None:
    for options in ({"at_most": 9}, {"at_most": 3, "apart": 100}, {"at_most": 3, "apart": 4}):
        with pytest.raises(BadParameter, match="a unit can count in"):
            open_one(open_session(folder), **options)
    assert "in at most 1 step." in repr(open_one(open_session(folder)))


def test_rows_without_an_identity_are_refused(folder: Path) -> None:
    with pytest.raises(QueryRefused, match="a row has no identity"):
        open_one(open_session(folder, unit="row", policy=replace(POLICY, unit="row")))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": "ward"}, "time is 'ward': not a column of dates"),
        ({"every": "minute"}, "every is 'minute'"),
        ({"every": "hour"}, "every is 'hour': day holds dates"),
        ({"every": "month", "start": "2026-03-02"}, "a month begins with its first day"),
        ({"start": "soon"}, "start is 'soon': not a date"),
        ({"start": "9999-12-30"}, "start is 9999-12-30: 8 days later the calendar has ended"),
        ({"start": "9999-12-01", "every": "month"}, "start is 9999-12-01: 8 months later the calendar has ended"),
        ({"steps": 5000}, "steps is 5000"),
        ({"at_most": 0}, "at_most"),
        ({"apart": 0}, "apart"),
        ({"name": "a/b"}, "no slash"),
        ({"epsilon": 1e-9}, "least_epsilon"),
    ],
)
def test_impossible_parameters_are_refused_before_anything_is_charged(folder: Path, options: Any, message: str) -> None:
    session = open_session(folder)
    with pytest.raises(BadParameter, match=message):
        open_one(session, **options)
    assert session.account.budget.spent == 0


def test_a_ledger_refuses_seeded_bits_and_memory_takes_them(folder: Path) -> None:
    with pytest.raises(BadParameter, match="bits"):
        open_one(open_session(folder), bits=seeded_bits(1))
    answers = []
    for _ in range(2):
        session = connect(str(folder / "visits.csv"), unit="id", epsilon=1, delta=1e-6)
        stream = open_one(session, epsilon=1, bits=seeded_bits(5))
        answers.append([stream.tick().value for _ in range(4)])
    assert answers[0] == answers[1]


def test_a_failing_engine_quarantines_and_says_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = open_session(folder)
    stream = open_one(session)

    def fail(*_: object) -> None:
        raise EngineFailed

    with monkeypatch.context() as patched:
        patched.setattr(type(session.engine), "read_contributions", fail)
        with pytest.raises(EngineFailed):
            stream.tick()
    assert stream.state is not None
    assert stream.state.read_last() is None
    with pytest.raises(discreet.SourceQuarantined):
        stream.tick()


def test_hours_of_timestamps(tmp_path: Path) -> None:
    moments = [datetime(2026, 3, 1, 6) + timedelta(minutes=20 * i) for i in range(12)]
    (tmp_path / "visits.csv").write_text("id,seen\n" + "".join(f"{i},{each}\n" for i, each in enumerate(moments)))
    policy = Table("visits", "id", {"id": Column(Kind.INTEGER), "seen": Column(Kind.TIMESTAMP)})
    session = open_session(tmp_path, keys=None, policy=policy)
    stream = open_one(session, time="seen", every="hour", start="2026-03-01T06:00:00", steps=4)
    for _ in range(4):
        answer = stream.tick()
    assert exact_counts(stream) == [[3]] * 4
    assert (answer.start, answer.end) == ("2026-03-01 09:00", "2026-03-01 10:00")


def test_pure_accounts_get_the_tree(folder: Path) -> None:
    session = connect(str(folder / "visits.csv"), unit="id", epsilon=3)
    stream = open_one(session, epsilon=2)
    assert session.account.budget.remaining == 1
    values = [stream.tick().value for _ in range(8)]
    assert all(value == int(value) for value in values)
    assert json.dumps(stream.show().to_dict())


# -- intervals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("delta", "epsilon", "window"), pairs_by_day([0, 1e-6], [1, 20], [None, 3]))
def test_intervals_contain_the_count_as_often_as_they_say(delta: float, epsilon: float, window: int | None) -> None:
    from discreet.accounting.currencies import create_budget
    from discreet.streams.mechanism import Participation, calibrate_stream, round_interval

    budget = create_budget(epsilon, delta)
    mechanism, _ = calibrate_stream(16, Participation(2, 2), budget.currency, budget.limit)
    counts, bits = np.arange(16).reshape(16, 1) % 5, seeded_bits(5)
    truth = np.cumsum(counts)
    trials, inside = 600, np.zeros(16)
    for _ in range(trials):
        measured = np.array([row for step in range(1, 17) for row in mechanism.measure(counts, step, bits)])
        for step in range(1, 17):
            [value], [slack] = mechanism.estimate(measured, step, window)
            lower, upper = round_interval(value, mechanism.half_width(step, window, 0.9) + slack)
            exact = truth[step - 1] - (truth[step - 1 - window] if window is not None and step > window else 0)
            inside[step - 1] += lower <= exact <= upper
    assert inside.min() / trials >= 0.9 - 3.5 * np.sqrt(0.09 / trials)
    assert inside.sum() / trials / 16 >= 0.9


def test_estimates_are_unbiased_and_their_spread_is_the_stated_one() -> None:
    from discreet.streams.factorisation import square_root
    from discreet.streams.mechanism import Gaussian, SquareRootMechanism

    mechanism = SquareRootMechanism(square_root(32), Gaussian(5000))
    counts, bits = np.full((32, 2000), 3), seeded_bits(11)  # 2,000 counters are 2,000 independent trials
    measured = np.array([row for step in range(1, 33) for row in mechanism.measure(counts, step, bits)])
    for step, window in ((1, None), (32, None), (32, 5)):
        values, _ = mechanism.estimate(measured, step, window)
        sd = 5000 * float(mechanism.matrix.sum_squares(step, window)) ** 0.5
        assert abs(values.mean() - 3 * (window or step)) < 4 * sd / 2000**0.5
        assert values.std() == pytest.approx(sd, rel=0.08)
