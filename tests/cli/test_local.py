"""`discreet local`, run as a user runs it: a collection from its plan to its answer."""

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.accounting.shuffling import shuffled_epsilon
from discreet.local import (
    BasicRappor,
    Collection,
    CountMeanSketch,
    Direct,
    DuchiMean,
    Form,
    HadamardCountMeanSketch,
    Integers,
    Lifetime,
    Listed,
    OneBitMean,
    Rappor,
    SequenceFragmentPuzzle,
    Texts,
    UnknownRappor,
    Wire,
    choose_oracle,
    d_bit_flip_pm,
    encode_many,
    one_bit_rrpm,
)
from discreet.local.collection import least_cost
from tests.support import console
from tests.support.console import DISCREET, run

COLOURS = ("collection", "colours", "--values", "red,green,blue", "--epsilon", "2", "--lifetime", "10")


def local(*arguments: object) -> dict[str, Any]:
    """The JSON of a command that succeeds."""
    done = run("local", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def feed(folder: Path, text: str | bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command with this text on stdin."""
    return console.feed(folder, text.encode() if isinstance(text, str) else text, "local", *arguments)


def feed_process(folder: Path, content: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """As `feed`, in a process of its own."""
    return subprocess.run(
        [sys.executable, DISCREET, "local", *arguments], cwd=folder, input=content, capture_output=True, check=False,
        timeout=120,
    )  # fmt: skip


@pytest.fixture
def colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Collection:
    """A collection in the working folder."""
    monkeypatch.chdir(tmp_path)
    made = local(*COLOURS)
    assert made["file"] == "colours.json"
    return Collection.read(Path("colours.json").read_bytes(), made["id"])


def test_a_shuffled_epsilon_is_that_of_the_library() -> None:
    found = local("shuffle", "--n", "1e4", "--epsilon0", "1", "--delta", "1e-6")
    bounds = shuffled_epsilon(10_000, 1, 1e-6)
    assert found["epsilon"] == {"lower": bounds.lower, "upper": bounds.upper}
    known = local("shuffle", "--n", 10_000, "--epsilon0", 1, "--delta", "1e-6", "--oracle", "projective", "--values", 100)
    assert known["epsilon"]["upper"] < found["epsilon"]["lower"]


def test_two_of_people_epsilon_and_error_give_the_third() -> None:
    people = local("plan", "--values", 100, "--epsilon", 1, "--error", "1%")
    assert people["n"] == local("plan", "--values", 100, "--epsilon", 1, "--error", "0.01")["n"]
    error = local("plan", "--values", 100, "--epsilon", 1, "--n", people["n"], "--delta", "1e-6")
    best = next(row for row in error["oracles"] if row["oracle"] == error["recommended"])
    assert 0.00999 < best["share"] <= 0.01
    assert error["central_half_width"] < best["half_width"] / 100
    assert 0 < error["shuffled"]["epsilon"]["upper"] < 0.1
    assert people["shuffled"] is None


def test_a_person_reads_which_oracle_what_it_costs_and_the_warning() -> None:
    done = run("local", "plan", "--values", 10_000, "--epsilon", 1, "--n", 10_000, "--delta", "1e-6")
    words = " ".join(done.stdout.split())
    for said in ("Use projective", "trusted curator", "Nothing below", "Shuffled: ε ="):
        assert said in words


def test_a_collection_has_the_values_the_budget_and_the_id_that_are_printed(colours: Collection) -> None:
    assert colours.domain.labels == ("red", "green", "blue", "other")
    assert colours.mechanism == choose_oracle(4, 2) == Direct(4, colours.mechanism.odds)
    assert (colours.lifetime.epsilon, colours.lifetime.reports) == (10, 5)
    assert local(*COLOURS)["id"] == colours.id  # the same again is the same file
    other = run("local", *COLOURS[:3], "red,blue", *COLOURS[4:])
    assert other.returncode == 2
    assert "--version" in other.stderr
    once = local("collection", "hours", "--range", "0:23", "--step", 2, "--missing", "none", "--epsilon", "0.1234567891")
    assert once["values"] == 13
    assert once["lifetime"]["per"] == "once"
    assert once["lifetime"]["epsilon"] <= 0.1234567891 + 1e-9


def test_a_device_repeats_its_report_and_stops_when_its_budget_is_spent(colours: Collection) -> None:
    def report(occasion: str) -> Any:
        return run("local", "encode", "colours.json", "--value", "red", "--store", "device.db", "--occasion", occasion)

    first, again = report("0"), report("0")
    assert first.returncode == 0
    assert first.stdout == again.stdout
    assert len(first.stdout.strip()) == Wire(colours).size
    assert {report(str(day)).returncode for day in range(1, 5)} == {0}
    refused = report("5")
    assert (refused.returncode, refused.stdout) == (3, "")


def test_a_device_reads_its_value_from_stdin(colours: Collection, tmp_path: Path) -> None:
    given = ("encode", "colours.json", "--store", "device.db", "--occasion", "0")
    done = feed(tmp_path, "red\n", *given)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout) == Wire(colours).size + 1
    assert feed(tmp_path, "blue\n", *given).stdout == done.stdout
    refused = feed(tmp_path, "red\nblue\n", *given)
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert b"--store" in refused.stderr


@pytest.mark.parametrize("form", ["json", "cbor"])
def test_reports_of_many_people_are_decoded_from_messages(form: str, colours: Collection, tmp_path: Path) -> None:
    lines = "red\n" * 150 + "green\n" * 40 + "\n" * 10
    encoded = feed(tmp_path, lines, "encode", "colours.json", "--form", form)
    assert encoded.returncode == 0, encoded.stderr
    assert b"for tests" in encoded.stderr
    size = Wire(colours, Form(form)).size + (form == "json")
    assert len(encoded.stdout) == 200 * size
    path = tmp_path / f"reports.{form}"
    path.write_bytes(encoded.stdout + encoded.stdout[:size])
    found = local("decode", "colours.json", path)
    assert found["reports"] == 200
    assert found["rejected"]["duplicate"] == 1
    assert [row["value"] for row in found["rows"]] == ["red", "green", "blue", "other"]
    assert found["total"]["estimate"] == pytest.approx(200)


def test_the_analyst_says_what_a_file_holds(colours: Collection, tmp_path: Path) -> None:
    """A hostile first line changes nothing; rows of columns are counted where the analyst says so."""
    encoded = feed(tmp_path, "red\n" * 20, "encode", "colours.json").stdout
    path = tmp_path / "reports.jsonl"
    path.write_bytes(b'{"y":2}\n' + encoded)
    found = local("decode", "colours.json", path)
    assert (found["reports"], found["rejected"]["length"]) == (20, 1)
    columns = local("decode", "colours.json", path, "--layout", "columns")
    assert (columns["reports"], columns["rejected"]["length"] + columns["rejected"]["range"]) == (1, 20)
    cbor = feed(tmp_path, "red\n" * 20, "encode", "colours.json", "--form", "cbor").stdout
    piped = feed(tmp_path, cbor, "decode", "colours.json", "-", "--layout", "cbor", "--json")
    assert json.loads(piped.stdout)["reports"] == 20
    refused = feed(tmp_path, cbor, "decode", "colours.json", "-", "--layout", "columns")
    assert refused.returncode == 2
    assert b"--layout" in refused.stderr
    assert b"--layout" in feed(tmp_path, b"", "decode", "colours.json", "reports.jsonl", "--layout", "xml").stderr


def test_messages_are_piped_from_one_command_to_the_next(colours: Collection, tmp_path: Path) -> None:
    encoded = feed_process(tmp_path, b"red\nblue\n", "encode", "colours.json")
    decoded = feed_process(tmp_path, encoded.stdout + b"spam\n", "decode", "colours.json", "-", "--json")
    found = json.loads(decoded.stdout)
    assert (found["reports"], found["rejected"]["length"], found["collection"]) == (2, 1, colours.id)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "duckdb"])
def test_a_table_of_integers_is_counted_where_it_is(suffix: str, colours: Collection, tmp_path: Path) -> None:
    import duckdb

    y = encode_many(colours.mechanism, np.repeat(np.arange(4), [700, 290, 5, 5]))["y"]
    frame = {"y": y, "collection": np.full(len(y), colours.id[:16])}
    with duckdb.connect(str(tmp_path / "reports.duckdb")) as database:
        rows = ", ".join(f"({int(number)}, '{name}')" for number, name in zip(*frame.values(), strict=True))
        database.execute(f"CREATE TABLE reports AS SELECT * FROM (VALUES {rows}, (1, 'another')) AS t(y, collection)")
        if suffix != "duckdb":
            database.execute(f"COPY reports TO '{tmp_path / f'reports.{suffix}'}'")
    table = ("--table", "reports") if suffix == "duckdb" else ()
    found = local("decode", "colours.json", tmp_path / f"reports.{suffix}", *table, "--hostile", "1%", "--norm-sub")
    assert (found["reports"], found["rejected"]["collection"]) == (1000, 1)
    p, q = colours.mechanism.truth_support, colours.mechanism.other_support
    assert found["rows"][0]["estimate"] == pytest.approx(float((int((y == 0).sum()) - 1000 * q) / (p - q)))
    assert found["hostile"]["reports"] == 10
    assert sum(row["consistent"] for row in found["rows"]) == pytest.approx(1000)
    joint = local("decode", "colours.json", tmp_path / f"reports.{suffix}", *table, "--simultaneous", "--top", 2)
    assert [row["value"] for row in joint["rows"]] == ["red", "green"]
    assert all((row["lower"], row["upper"]) == (row["joint_lower"], row["joint_upper"]) for row in joint["rows"])


def test_charts_are_drawn(colours: Collection, tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_bytes(feed(tmp_path, "red\n" * 20, "encode", "colours.json").stdout)
    assert run("local", "decode", "colours.json", "r.jsonl", "--plot", "answer.svg").returncode == 0
    assert run("local", "plan", "--values", 20, "--n", 1000, "--epsilon", 1, "--plot", "plan.svg").returncode == 0
    assert run("local", "simulate", "--values", 20, "--n", 1000, "--epsilon", 1, "--plot", "got.svg").returncode == 0
    for name in ("answer", "plan", "got"):
        assert (tmp_path / f"{name}.svg").read_text().startswith("<svg")


def test_a_simulation_shows_the_truth_and_repeats_with_its_seed() -> None:
    arguments = ("simulate", "--values", 50, "--n", "1e6", "--epsilon", 1, "--oracle", "optimised-unary", "--seed", 7)
    found = local(*arguments)
    assert found == local(*arguments)
    assert sum(row["truth"] for row in found["rows"]) == found["n"] == 10**6
    assert found["covered"] == sum(row["lower"] <= row["truth"] <= row["upper"] for row in found["rows"])
    assert 0.5 < found["rmse"] / found["expected_rmse"] < 2


def test_another_collection_than_the_pinned_one_is_refused(colours: Collection) -> None:
    done = run("local", "encode", "colours.json", "--value", "red", "--pin", "0" * 64)
    assert done.returncode == 2
    assert "--pin" in done.stderr
    assert colours.id in done.stderr
    assert run("local", "encode", "colours.json", "--value", "red", "--pin", colours.id).returncode == 0


def test_reports_of_the_other_client_are_decoded(colours: Collection, tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "client" / "discreet-local.js"
    lines = json.dumps({"value": "red"}) + "\n"
    done = subprocess.run(
        ["node", str(script), "colours.json"], cwd=tmp_path, input=lines * 5, capture_output=True, text=True, check=True
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == 5
    (tmp_path / "js.jsonl").write_text("".join(f"{answer['json']}\n" for answer in answers))
    assert local("decode", "colours.json", "js.jsonl")["reports"] == 5


def write_collection(path: Path, mechanism: Any, domain: Any) -> Collection:
    made = Collection(path.stem, 1, mechanism, domain, Lifetime(cost := least_cost(mechanism, "once"), cost, "once"))
    path.write_bytes(made.to_json())
    return made


HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
SKETCHES = CountMeanSketch(Fraction(9), 4, 32, "f"), CountMeanSketch(Fraction(9), 4, 32, "w")
KINDS: dict[str, tuple[Any, Any, tuple[str, ...]]] = {
    "one-bit mean": (OneBitMean(10, Fraction(3)), Integers(20, 30), ("22", "29")),
    "duchi mean": (DuchiMean(10, Fraction(3)), Integers(0, 10), ("2", "9")),
    "1BitRRPM": (one_bit_rrpm(10, 5, 1), Integers(0, 10), ("2", "9")),
    "dBitFlipPM": (d_bit_flip_pm(11, 4, 2), Integers(0, 10), ("2", "9")),
    "basic rappor": (BasicRappor.of(3, HALF, THIRD, Fraction(3, 4)), Listed(("red", "blue")), ("red", "blue")),
    "rappor": (Rappor(32, 2, 4, HALF, THIRD, Fraction(3, 4), "x"), Texts(), ("red", "blue")),
    "count mean sketch": (SKETCHES[0], Texts(), ("red", "blue")),
    "hadamard count mean sketch": (HadamardCountMeanSketch(Fraction(9), 4, 32, "h"), Texts(), ("red", "blue")),
    "sequence fragment puzzle": (SequenceFragmentPuzzle(4, "_abc", *SKETCHES, pieces=4), Texts(), ("abca", "ccbb")),
    "unknown rappor": (
        UnknownRappor(
            4, "_abc", 2, Rappor(32, 2, 4, HALF, THIRD, Fraction(3, 4), "x"), BasicRappor.of(16, HALF, THIRD, Fraction(3, 4))
        ),
        Texts(),
        ("abca", "ccbb"),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_collection_is_encoded_and_decoded(kind: str, tmp_path: Path) -> None:
    mechanism, domain, (one, two) = KINDS[kind]
    made = write_collection(tmp_path / "asked.json", mechanism, domain)
    sent = feed(tmp_path, f"{one}\n" * 30 + f"{two}\n" * 10, "encode", "asked.json")
    assert sent.returncode == 0, sent.stderr
    (tmp_path / "sent.jsonl").write_bytes(sent.stdout + b"spam\n")
    (tmp_path / "texts.txt").write_text(f"{one}\n{two}\n\n")
    texts = ("--candidates", tmp_path / "texts.txt") if isinstance(domain, Texts) else ()
    found = local("decode", tmp_path / "asked.json", tmp_path / "sent.jsonl", *texts)
    assert (found["collection"], found["reports"], found["rejected"]["length"]) == (made.id, 40, 1)
    rows = [found["mean"]] if "mean" in found else found["rows"]
    assert rows
    assert all(row["lower"] <= row["upper"] for row in rows)
    if isinstance(domain, Texts):
        assert {row["value"] for row in rows} <= {one, two, "(missing)", "____"}
    shown = run("local", "decode", tmp_path / "asked.json", tmp_path / "sent.jsonl", *texts)
    assert shown.returncode == 0, shown.stderr
    assert "40 reports" in shown.stdout


def test_what_an_answer_cannot_have_is_refused_by_its_flag(tmp_path: Path) -> None:
    write_collection(tmp_path / "mean.json", *KINDS["one-bit mean"][:2])
    write_collection(tmp_path / "sites.json", *KINDS["rappor"][:2])
    (tmp_path / "mean.csv").write_text("b\n1\n")
    (tmp_path / "sites.csv").write_text("c,w0\n1,7\n")
    (tmp_path / "texts.txt").write_text("red\n")
    wrong: list[tuple[str, str, tuple[object, ...]]] = [
        ("mean", "--top", ("--top", 3)),
        ("mean", "--plot", ("--plot", tmp_path / "a.svg")),
        ("mean", "--norm-sub", ("--norm-sub",)),
        ("mean", "--candidates", ("--candidates", tmp_path / "texts.txt")),
        ("sites", "--candidates", ()),
        ("sites", "--candidates", ("--candidates", tmp_path / "absent.txt")),
        ("sites", "--hostile", ("--candidates", tmp_path / "texts.txt", "--hostile", "1%")),
        ("sites", "--norm-sub", ("--candidates", tmp_path / "texts.txt", "--norm-sub")),
    ]
    for name, flag, given in wrong:
        done = run("local", "decode", tmp_path / f"{name}.json", tmp_path / f"{name}.csv", *given)
        assert (done.returncode, done.stdout) == (2, ""), (name, given)
        assert flag in done.stderr, done.stderr


def test_a_list_of_values_loses_its_spaces_may_be_a_file_and_is_echoed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "settings.txt").write_text("".join(f" setting {i} \n" for i in range(200)))
    shown = run("local", "collection", "settings", "--values", "@settings.txt", "--epsilon", 1)
    assert "201 values (setting 0, setting 1," in " ".join(shown.stdout.split())
    assert ", …, other)" in " ".join(shown.stdout.split())
    assert Collection.read(Path("settings.json").read_bytes()).domain.labels[199] == "setting 199"
    assert local("collection", "two", "--values", "red, green", "--epsilon", 1)["values"] == 3
    assert Collection.read(Path("two.json").read_bytes()).domain.labels == ("red", "green", "other")


def test_encode_says_how_many_values_were_changed(colours: Collection, tmp_path: Path) -> None:
    done = feed(tmp_path, "red\nmauve\nred,green\n\nother\n", "encode", "colours.json")
    assert b"5 values, 3 as other." in done.stderr
    assert b"discreet help local#several-values" in done.stderr
    device = ("--store", "device.db", "--occasion", "0")
    assert feed(tmp_path, "mauve\n", "encode", "colours.json", *device).stderr == b""
    assert b"comma" not in feed(tmp_path, "red\nmauve\n", "encode", "colours.json").stderr
    local("collection", "hours", "--range", "0:23", "--epsilon", 1)
    assert b"2 values, 1 clipped to 0 \xe2\x80\xa6 23." in feed(tmp_path, "7\n99\n", "encode", "hours.json").stderr
    wrong = feed(tmp_path, "7\n3.7\n", "encode", "hours.json")
    assert (wrong.returncode, wrong.stdout) == (2, b"")
    assert b"line 2 of stdin" in wrong.stderr


def test_reports_of_another_collection_give_no_rows_but_both_ids(colours: Collection, tmp_path: Path) -> None:
    other = local("collection", "other", "--values", "red,green,blue", "--epsilon", 1)
    (tmp_path / "r.jsonl").write_bytes(feed(tmp_path, "red\n" * 3, "encode", "other.json").stdout)
    for more in ((), ("--json",), ("--csv",)):
        done = run("local", "decode", "colours.json", "r.jsonl", *more)
        assert (done.returncode, done.stdout) == (2, "")
        for word in ("no report of 3", "another collection", other["id"][:16], colours.id[:16]):
            assert word in done.stderr


def test_reasons_are_explained_and_joint_intervals_stand_in_one_column(colours: Collection, tmp_path: Path) -> None:
    sent = feed(tmp_path, "red\n" * 50, "encode", "colours.json").stdout
    (tmp_path / "r.jsonl").write_bytes(sent + sent[: sent.index(b"\n") + 1] + b"spam\n")
    words = " ".join(run("local", "decode", "colours.json", "r.jsonl", "--top", 2, "--confidence", "95%").stdout.split())
    for said in ("Rejected as duplicate: sent again", "Rejected as length:", "Leave out --top to see the other 2."):
        assert said in words
    assert words.count("joint interval ") == 1
    assert words.count("[0,") + words.count("[50, 50]") <= 3
    assert "Rejected as" not in run("local", "decode", "colours.json", "r.jsonl", "--json").stdout


def test_an_estimate_outside_its_cut_interval_is_explained(colours: Collection, tmp_path: Path) -> None:
    (tmp_path / "sure.csv").write_text("y\n" + "0\n" * 200)
    (tmp_path / "mixed.csv").write_text("y\n" + "0\n1\n2\n3\n" * 50)
    found = local("decode", "colours.json", "sure.csv")["rows"][0]
    assert found["estimate"] > found["upper"] == 200
    for name, said in (("sure", True), ("mixed", False)):
        shown = " ".join(run("local", "decode", "colours.json", f"{name}.csv").stdout.split())
        assert ("An estimate outside its interval" in shown) == said


@pytest.mark.parametrize("number", [1, 10])
def test_a_crowd_that_does_not_help_is_named(number: int) -> None:
    words = " ".join(run("local", "shuffle", "--n", number, "--epsilon0", 1, "--delta", "1e-6").stdout.split())
    assert "does not help" in words
    assert ("1 honest person," in words) == (number == 1)
    helped = run("local", "shuffle", "--n", "1e4", "--epsilon0", 1, "--delta", "1e-6").stdout
    assert "does not help" not in " ".join(helped.split())


@pytest.mark.parametrize(
    ("alias", "name"),
    [("k-rr", "direct"), ("SUE", "symmetric-unary"), ("oue", "optimised-unary"), ("olh", "hashed"), ("hr", "hadamard"),
     ("pgr", "projective")],
)  # fmt: skip
def test_oracles_have_the_names_of_the_literature(alias: str, name: str) -> None:
    given = ("shuffle", "--n", 100, "--epsilon0", 1, "--delta", "1e-6", "--values", 9, "--oracle")
    assert local(*given, alias)["epsilon"] == local(*given, name)["epsilon"]


def test_days_add_up_until_the_client_stops(colours: Collection, tmp_path: Path) -> None:
    rows = local("days", "colours.json", "--days", 7)["days"]
    assert [row["fresh"] for row in rows] == [pytest.approx(2 * day) for day in range(1, 8)]
    assert [row["allowed"] for row in rows] == [pytest.approx(min(2 * day, 10)) for day in range(1, 8)]
    write_collection(tmp_path / "sites.json", *KINDS["rappor"][:2])
    done = run("local", "days", "sites.json", "--states", 2, "--plot", "days.svg")
    assert done.returncode == 0
    assert "memoised" in done.stdout
    assert (tmp_path / "days.svg").read_text().startswith("<svg")


def test_a_large_epsilon_is_warned_of_and_a_plan_takes_1e6() -> None:
    assert local("plan", "--values", 100, "--n", "1e6", "--epsilon", 5)["warnings"] == []
    [warning] = local("plan", "--values", 100, "--n", 1_000_000, "--epsilon", 6)["warnings"]
    assert "protects little" in warning
    better = " ".join(run("local", "plan", "--values", 100, "--n", 1000, "--epsilon", 16).stdout.split())
    assert "no nearer" in better
    assert "what it costs to trust no curator" not in better
