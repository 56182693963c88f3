"""The command line as programs see it: what can be typed, and what `--json` prints.

`golden/commands.json` holds every command with its arguments in order and its options by flag. The words of `--help` are not
in it, so they can be rewritten freely.

`golden/json/<command>.json` holds, for each command line of `CASES`, the exit code and the document that is printed, key by
key in order. Values stand as they are, floats to six digits. Below a key that `CASES` names beside the command line (its
values come from noise, rounding, time, paths, keys or hashes) only the shape stands: the type of a leaf, like `"<int>"`, and
for a list the distinct shapes of its elements. Below a key with a # the texts stand, without a number at their beginning.

`UPDATE_GOLDEN=1 pytest tests/cli` writes the files anew. Each test that changes a file fails; the next run passes.
"""

import inspect
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from typer.main import get_command

from discreet.cli import app
from discreet.ledger import open_ledger
from discreet.ledger.quarantine import FailureKind
from tests.support.console import run

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = Path(__file__).parents[2] / "examples"

COUNTS = '"SELECT dept, COUNT(*) AS n, AVG(pay) AS mean FROM people GROUP BY dept"'
DECLARED = "--unit id --bounds pay=0:200 --keys dept=sales,research,legal --unique"
HIGH = "--computed 'high=pay // 100'"
SELECTED = '"SELECT age, COUNT(*) AS n FROM people GROUP BY age" --unit id --delta 1e-6'

SETUP = f"""
discreet ledger open hr.ledger --account all --epsilon 4 --delta 1e-6
discreet ledger open hr.ledger --account hr --epsilon 2 --delta 1e-6 --parent all
discreet ask people.csv {COUNTS} {DECLARED} --epsilon 0.5 --ledger hr.ledger --account hr --release release.json
discreet policy init people.csv --unit id
discreet local collection colours --values red,green --epsilon 2 --lifetime 10
discreet publish tables.toml --to tabulated --yes
"""

WARDS = "--policy visits.toml"
OPEN_STREAM = (
    f'discreet stream open visits.csv "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward" {WARDS} --name visits '
    "--time day --start 2026-03-01 --steps 92 --at-most 3 --apart 7 --epsilon 1 --ledger streams.ledger"
)
TICK = f"discreet stream tick visits.csv {WARDS} --name visits --ledger streams.ledger"
ACCOUNT = "discreet ledger open streams.ledger --account wards --epsilon 2 --delta 1e-6"
BEFORE = {
    "discreet stream open": [ACCOUNT],
    "discreet stream tick": [ACCOUNT, OPEN_STREAM],
    "discreet stream show": [ACCOUNT, OPEN_STREAM, TICK],
}
"""What is run before the command lines of a command: a stream belongs to the folder of its source."""

# every command line, and the keys whose values differ from run to run
CASES = {
    'discreet account "9*gaussian(sigma=5) + laplace(scale=30)" --delta 1e-6 --json': "",
    'discreet account "9*gaussian(sigma=5) + laplace(scale=30)" --delta 1e-6 --readings --json': "",
    'discreet account "9*gaussian(sigma=5) + laplace(scale=30)" --epsilon 1 --json': "",
    'discreet epsilon "9*gaussian(sigma=5) + laplace(scale=30)" --delta 1e-6 --json': "",
    'discreet epsilon "9*gaussian(sigma=5) + laplace(scale=30)" --delta 1e-6 --readings --json': "",
    'discreet epsilon "9*gaussian(sigma=5) + laplace(scale=30)" --epsilon 1 --json': "",
    'discreet epsilon "dpsgd(sigma=1.1, batch=256, n=60000, epochs=60)" --delta 1e-5 --json': "",
    f"discreet ask people.csv {COUNTS} {DECLARED} --epsilon 9 --json": "rows",
    f"discreet ask people.csv {SELECTED} --epsilon 9 --json": "rows remaining notes#",
    "discreet audit builtins:callable --epsilon 1 --seconds 2 --json":
        "certified_epsilon pair event likelier resolution not_seen samples seconds",
    "discreet audit builtins:len --epsilon 1 --seconds 60 --json":
        "certified_epsilon pair event likelier not_seen samples seconds",
    "discreet budget hr.ledger --json": "",
    "discreet budget hr.ledger --account hr --json": "",
    "discreet calibrate gaussian --epsilon 1 --delta 1e-6 --times 1000 --json": "",
    "discreet calibrate laplace --epsilon 1 --delta 1e-6 --rate 0.1 --json": "",
    "discreet demo --json": "rows",
    "discreet help --json": "roles topics",
    "discreet help quarantine --json": "text",
    "discreet lab all --out pictures --json": "",
    "discreet lab attack averaging --json": "",
    "discreet lab exercise counties --d 58 --json": "",
    "discreet lab exercise counties --check 90.5 --json": "",
    "discreet lab exercise counties --solution --json": "",
    "discreet lab list --json": "",
    "discreet lab show erratum-1 --json": "",
    "discreet lab show exp-bounds --json": "numbers",
    "discreet ledger check hr.ledger --json": "hash",
    "discreet logout https://data.example --forget --json": "",
    "discreet ledger check hr.ledger --head forged_head.json --json": "hash",
    "discreet ledger head hr.ledger": "hash public_key signature",
    "discreet ledger key hr.ledger": "public_key fingerprint",
    "discreet ledger open hr.ledger --account new --epsilon 1 --delta 1e-6 --currency zcdp --json": "",
    "discreet ledger rotate-key hr.ledger --json": "old new",
    "discreet local collection colours --values red,green --epsilon 2 --lifetime 10 --json": "",
    "discreet local collection hours --range 0:23 --missing none --epsilon 1 --oracle projective --json": "",
    "discreet local days colours.json --days 2 --json": "",
    "discreet local decode colours.json reports.csv --norm-sub --hostile 1% --json": "",
    "discreet local decode colours.json reports.csv --top 1 --json": "",
    "discreet local encode colours.json --value red --json": "messages",
    "discreet local plan --values 100 --n 1000000 --epsilon 1 --delta 1e-6 --json": "",
    "discreet local shuffle --n 10000 --epsilon0 1 --delta 1e-6 --json": "",
    "discreet local shuffle --n 10000 --epsilon0 1 --delta 1e-6 --oracle projective --values 100 --json": "",
    "discreet local simulate --values 5 --n 100000 --epsilon 1 --seed 1 --json": "",
    "discreet local vectors --out vectors.jsonl --json": "",
    "discreet plan count --queries 20 --epsilon 1 --delta 1e-6 --json": "",
    "discreet plan mean --bounds 0:100 --error 2 --n 1000 --json": "",
    "discreet plan training --batch 256 --n 60000 --epochs 60 --epsilon 2 --delta 1e-5 --json": "",
    "discreet plan training --sigma 1.1 --rate 1/100 --epsilon 2 --delta 1e-5 --json": "",
    "discreet policy check people.csv policy.toml --json": "",
    "discreet prepare people.csv --unit id --json": "",
    "discreet publish publish.toml --dry-run --json": "",
    "discreet publish publish.toml --to published --yes --json": "folder remaining",
    "discreet publish tables.toml --dry-run --json": "",
    "discreet publish tables.toml --to tables --yes --json": "folder remaining",
    "discreet reproduce tabulated --json": "",
    f"discreet synthesize people.csv --columns dept,high {HIGH} {DECLARED} --epsilon 1 --delta 1e-6 --dry-run --json":
        "sigma selection",
    f"discreet synthesize people.csv --columns dept,high {HIGH} {DECLARED} --epsilon 1 --delta 1e-6 --to rows.csv --json":
        "rows mean largest bounds notes amount remaining",
    "discreet synthesize tabulated --rows 100 --to rows.csv --json": "mean largest bounds notes",
    f"discreet tabulate people.csv --by dept {DECLARED} --epsilon 1 --delta 1e-6 --dry-run --json": "",
    f"discreet tabulate people.csv --by dept --by - {DECLARED} --epsilon 1 --delta 1e-6 --json": "values remaining",
    f"discreet quote people.csv {COUNTS} {DECLARED} --error 5% --size 1000 --json": "",
    f"discreet quote people.csv {SELECTED} --epsilon 1 --json": "",
    "discreet serve check served --json": "",
    "discreet source lift broken.csv --ledger hr.ledger --json": "",
    "discreet source list --ledger hr.ledger --json": "",
    f"{OPEN_STREAM} --json": "source",
    f"{TICK} --json": "estimates",
    "discreet stream show streams.ledger --json": "source",
    "discreet stream show streams.ledger --name visits --window 7 --json": "estimates",
    "discreet verify release.json --ledger hr.ledger --json": "trusted",
    "discreet verify forged_release.json --json": "trusted",
}  # fmt: skip


def walk(command: Any, name: str = "discreet") -> Iterator[tuple[str, Any]]:
    """Every command and group of commands, with its full name."""
    yield name, command
    for part, below in getattr(command, "commands", {}).items():
        yield from walk(below, f"{name} {part}")


TREE = dict(walk(get_command(app)))
COMMANDS = {name: command for name, command in TREE.items() if not hasattr(command, "commands")}
PRINT_NO_JSON = {
    "discreet policy init", "discreet serve run", "discreet serve policy-accept", "discreet serve invite",
    "discreet login",  # needs a service: test_service.py has it
}  # fmt: skip


def name_of(line: str) -> str:
    """The command of a command line."""
    return max((name for name in COMMANDS if f"{line} ".startswith(f"{name} ")), key=len)


def file_name(name: str) -> str:
    """The golden file of a command."""
    return f"{name.removeprefix('discreet ').replace(' ', '_')}.json"


def interface(command: Any) -> dict[str, Any]:
    """The arguments of a command in order, and its options by flag."""
    types = get_type_hints(command.callback) if command.params else {}
    arguments, options = [], {}
    for parameter in command.params:
        described = {
            "type": inspect.formatannotation(types.get(parameter.name, bool)),  # typer's own options are flags
            "default": None if parameter.required else parameter.default,
            "required": parameter.required,
            "multiple": parameter.multiple,
        }
        if parameter.param_type_name == "argument":
            arguments.append({"name": parameter.name} | described)
        else:
            options[" ".join([*parameter.opts, *parameter.secondary_opts])] = described
    return {"arguments": arguments, "options": dict(sorted(options.items()))}


def pinned(value: Any, varying: set[str]) -> Any:
    """A JSON document, with only the shape of what is below a varying key."""
    match value:
        case dict():
            return {name: pinned_part(name, part, varying) for name, part in value.items()}
        case list():
            return [pinned(part, varying) for part in value]
        case float():
            return float(f"{value:.6g}")  # the last digits may differ between machines
    return value


def pinned_part(name: str, part: Any, varying: set[str]) -> Any:
    """What is below one key."""
    if name in varying:
        return shape(part)
    return without_counts(part) if f"{name}#" in varying else pinned(part, varying)


def without_counts(texts: list[str]) -> list[str]:
    """Texts such as "47 keys shown", whose first word depends on noise."""
    return [re.sub(r"^[0-9,]+(?= )", "<int>", text) for text in texts]


def shape(value: Any) -> Any:
    """The keys and types of a JSON document."""
    match value:
        case dict():
            return {name: shape(part) for name, part in value.items()}
        case list():
            return [json.loads(text) for text in sorted({json.dumps(shape(part)) for part in value})]
    return f"<{type(value).__name__}>"


def compare(path: Path, found: Any) -> None:
    """Check what was found against a golden file; write the file and fail if UPDATE_GOLDEN is 1."""
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    golden = path.read_text(encoding="utf-8") if path.exists() else None
    if os.environ.get("UPDATE_GOLDEN") == "1" and text != golden:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        pytest.fail(f"{path} was rewritten; review the difference and run again without UPDATE_GOLDEN")
    assert golden is not None, f"{path} is missing; write it with UPDATE_GOLDEN=1"
    assert text == golden


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example, a policy, a ledger with an answer and a quarantined source, and forged documents."""
    folder = tmp_path_factory.mktemp("prepared")
    for name in ("people.csv", "publish.toml", "tables.toml", "visits.csv", "visits.toml"):
        shutil.copy(EXAMPLES / name, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("DISCREET_STATE", str(folder / "state"))
        for line in SETUP.strip().splitlines():
            assert run(*shlex.split(line)[1:]).returncode == 0
        head = json.loads(run("ledger", "head", "hr.ledger").stdout)
    with open_ledger(folder / "hr.ledger") as ledger:
        ledger.quarantine.record_failure("broken.csv", FailureKind.DECODING)
    release = json.loads((folder / "release.json").read_text("utf-8"))
    release["release"]["rows"] = []
    (folder / "forged_release.json").write_text(json.dumps(release), "utf-8")
    (folder / "forged_head.json").write_text(json.dumps(head | {"entries": 1}), "utf-8")
    (folder / "reports.csv").write_text("y\n" + "0\n" * 70 + "1\n" * 20 + "2\n" * 10 + "9\n", "utf-8")
    (folder / "served").mkdir()
    for name in ("people.csv", "people.policy.toml"):
        shutil.copy(EXAMPLES / name, folder / "served")
    return folder


@pytest.fixture
def _folder(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test in its own copy of the prepared folder."""
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())  # `discreet audit` adds the folder
    monkeypatch.setattr("discreet.lab.figures.figure.render_png", lambda *_: b"")  # drawing takes seconds


def test_the_interface_of_every_command() -> None:
    compare(GOLDEN / "commands.json", {name: interface(command) for name, command in sorted(TREE.items())})


@pytest.mark.parametrize("name", TREE)
def test_help_of_every_command(name: str) -> None:
    assert TREE[name].help
    assert name not in COMMANDS or name in (TREE[name].epilog or ""), "the epilog shows no example"
    shown = run(*name.split()[1:], "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "Usage" in shown.stdout


def test_every_command_that_prints_json_has_a_golden_document() -> None:
    assert {name_of(line) for line in CASES} == COMMANDS.keys() - PRINT_NO_JSON
    assert {path.name for path in (GOLDEN / "json").glob("*")} == {file_name(name_of(line)) for line in CASES}


@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - PRINT_NO_JSON))
def test_the_json_of_every_command(name: str) -> None:
    documents = {}
    for line in BEFORE.get(name, ()):
        assert run(*shlex.split(line)[1:]).returncode == 0
    for line in (line for line in CASES if name_of(line) == name):
        done = run(*shlex.split(line)[1:])
        assert done.stderr == ""
        documents[line] = {"exit": done.returncode, "prints": pinned(json.loads(done.stdout), set(CASES[line].split()))}
    compare(GOLDEN / "json" / file_name(name), documents)
