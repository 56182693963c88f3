"""Properties of every command: help with an example, a page for every error, an exit code; and the overview."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import discreet
from discreet import BudgetExceeded, EngineFailed, QueryRefused, SourceRefused, cli, errors
from discreet.auditor import audit
from discreet.cli import app
from discreet.cli.app import OWN_NAMES, PAGES, list_spellings, spell_flags, spell_text
from discreet.cli.help import find_topic, read_topic, to_topic
from discreet.errors import PARAMETER_PAGES, BadExpression, BadParameter, DiscreetError, MissingDeclarations
from discreet.lab.attacks import run as run_attack
from discreet.lab.figures.figure import save_png
from discreet.ledger import open_ledger
from discreet.ledger.chain import Ledger, LedgerQuarantine
from discreet.ledger.keys import resolve_key_path, rotate_key
from discreet.ledger.verify import find_divergence, verify
from discreet.local import (
    Client,
    Listed,
    choose_oracle,
    count_collection,
    decode,
    plan_collection,
    simulate_recovery,
)
from discreet.local.charts import list_spending
from discreet.planner import Histogram, Mean, plan
from discreet.remote.connection import check_token
from discreet.serve.config import read_config
from discreet.session.connect import connect
from discreet.session.policy_check import check_policy
from discreet.session.preparing import prepare
from discreet.session.session import Session
from discreet.streams import Stream, load_stream, open_stream, read_stream
from discreet.synthesis.publication import synthesize_publication
from discreet.synthesis.synthesis import Drawing, plan_synthesis
from discreet.tabulation.files import reproduce
from discreet.tabulation.plan import plan_tabulation
from discreet.workload import publish, read_workload
from tests.support.console import run, run_process

ROOT = Path(__file__).parents[2]
WITHOUT_JSON = {"policy init", "ledger head", "ledger key", "serve run"}
"""What these print is itself a file for programs: TOML, a signed JSON head, a key; `serve run` runs until it is ended."""


def commands(command: Any, name: str = "") -> list[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        return [(name, command)]
    return [found for part, each in command.commands.items() for found in commands(each, f"{name} {part}".strip())]


ALL = commands(get_command(app))


@pytest.mark.parametrize(("name", "command"), ALL, ids=[name for name, _ in ALL])
def test_every_command_has_an_example_and_json(name: str, command: Any) -> None:
    assert f"discreet {name}" in (command.epilog or "")
    assert command.help
    flags = {flag for parameter in command.params for flag in parameter.opts}
    assert ("--json" in flags) != (name in WITHOUT_JSON)
    assert all(getattr(parameter, "help", None) for parameter in command.params), "every option says what it is"


def test_the_overview_names_commands_that_exist() -> None:
    shown = CliRunner().invoke(app, [])
    assert shown.exit_code == 0
    named = re.findall(r"  discreet ([a-z]+(?: open| init| list|(?<=local) plan)?)", shown.stdout)
    assert len(named) >= 9
    assert set(named) <= {name for name, _ in ALL}


def anchors(page: Path) -> set[str]:
    """As GitHub and mkdocs make them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("kind", [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, DiscreetError)])
def test_every_error_has_a_page(kind: type[DiscreetError]) -> None:
    page, _, anchor = kind.see.partition("#")
    assert anchor in anchors(ROOT / page)


@pytest.mark.parametrize(
    ("mistake", "code"),
    [
        (BudgetExceeded("ε", cost=Fraction(2), remaining=Fraction(1)), 3),
        (EngineFailed(), 4),
        (SourceRefused("no such file", "check the path"), 4),
        (QueryRefused("not in the language", "ask otherwise"), 2),
    ],
)
def test_every_kind_of_mistake_has_its_exit_code(mistake: Exception, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise mistake

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code


def test_version_and_help() -> None:
    assert run_process("--version").stdout.startswith("discreet 0.")
    assert "demo" in run_process("--help").stdout
    assert "Example" in run_process("demo", "--help").stdout
    shown = run_process("ask", "--help").stdout
    for word in ("Cost or error", "Source", "--pilot", "--consistent", "Examples:"):
        assert word in shown


# -- Python names parameters, a shell names flags: one mechanism translates, for every command -----------------------------

SOURCE = Path(discreet.__file__).parent


def walk(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every command that can be run, with its name."""
    if not hasattr(command, "commands"):
        yield name, command
    for part, below in getattr(command, "commands", {}).items():
        yield from walk(below, f"{name} {part}".strip())


COMMANDS = dict(walk(get_command(app)))
CALLS: dict[str, tuple[Callable[..., Any], ...]] = {
    "ask": (connect, Session.ask),
    "quote": (connect, Session.quote),
    "demo": (),
    "login": (check_token,),
    "logout": (),
    "publish": (read_workload, publish),
    "reproduce": (reproduce,),
    "synthesize": (connect, plan_synthesis, synthesize_publication, Drawing),
    "tabulate": (connect, plan_tabulation),
    "policy init": (),
    "policy check": (check_policy,),
    "prepare": (prepare,),
    "budget": (open_ledger, Ledger.get_account),
    "ledger open": (open_ledger, Ledger.open_account),
    "ledger check": (open_ledger, find_divergence),
    "ledger head": (open_ledger, resolve_key_path),
    "ledger key": (resolve_key_path,),
    "ledger rotate-key": (open_ledger, resolve_key_path, rotate_key),
    "source list": (),
    "source lift": (LedgerQuarantine.lift,),
    "local plan": (plan_collection,),
    "local collection": (choose_oracle, Listed),
    "local encode": (Client.report,),
    "local decode": (count_collection, decode),
    "local days": (list_spending,),
    "local simulate": (simulate_recovery,),
    "local vectors": (),
    "local shuffle": (discreet.shuffled_epsilon,),
    "plan": (plan, Mean, Histogram),
    "epsilon": (discreet.epsilon,),
    "account": (discreet.epsilon,),
    "calibrate": (discreet.calibrate,),
    "verify": (verify,),
    "audit": (audit,),
    "serve run": (read_config,),
    "serve check": (),
    "serve policy-accept": (),
    "serve invite": (),
    "stream open": (connect, open_stream),
    "stream tick": (connect, load_stream, Stream.tick),
    "stream show": (open_ledger, Ledger.get_account, read_stream, Stream.show),
    "lab list": (),
    "lab show": (save_png,),
    "lab all": (save_png,),
    "lab attack": (run_attack,),
    "help": (),
}
"""What a command calls in Python."""

GIVEN_BY_THE_COMMAND = {
    "self", "args", "options", "progress", "bits", "create", "location", "parameter", "path", "kind", "event", "rtol",
    "figure", "numbers", "samples", "memory", "on_progress",
}  # fmt: skip
"""Parameters that the command itself sets, so that no error about them reaches a shell."""


ONLY_IN_PYTHON = {
    "ask": {"name"},
    "quote": {"name", "pilot"},
    "publish": {"beside"},
    "synthesize": {"name", "session", "token"},
    "tabulate": {"name", "session", "token"},
    "audit": {"sharp"},
    "local decode": {"counts", "labels"},
    "stream open": {"session", "currency", "delta", "token"},
    "stream tick": {"session", "currency", "delta", "epsilon", "token", "now"},
}
"""Parameters that a command has no use for: what the account of a stream has fixed, the clock, the name of a frame, the
pilot of a quote, the folder of a plan as text, a search of the audit, the counts and the labels that decoding takes."""


def test_every_command_is_in_the_table() -> None:
    assert {name for name in COMMANDS if name.split()[0] != "lab"} <= CALLS.keys()


@pytest.mark.parametrize("name", sorted(CALLS.keys() & COMMANDS.keys()))
def test_an_error_about_any_parameter_of_python_names_a_flag_or_an_argument(name: str) -> None:
    command = COMMANDS[name]
    spellings = list_spellings(command.params, OWN_NAMES.get(name, {}))
    shown = {
        each.opts[0] if each.param_type_name == "option" else (each.metavar or each.name).upper() for each in command.params
    }
    assert set(spellings.values()) <= shown
    for function in CALLS[name]:
        for parameter in inspect.signature(function).parameters.keys() - GIVEN_BY_THE_COMMAND:
            if parameter in ONLY_IN_PYTHON.get(name, ()):
                continue
            mistake = spell_flags(BadParameter(parameter, "x", "wrong", f"give {parameter}=5"), spellings)
            flag = str(mistake).partition(" is x: ")[0]
            assert flag in shown, f"{function.__qualname__}({parameter}=…) has no name in `discreet {name}`"
            assert f"Give {flag} 5" in str(mistake)


def strings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Every text in a program that is not a docstring."""
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body and isinstance(node.body[0], ast.Expr)
    }
    documents |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node


FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
COMMAND_LINE = re.compile(r"`?discreet [a-z].*|python again\.py.*| --ledger $|usage: .*", re.DOTALL)


def find_flags(program: str) -> list[str]:
    """The flags that a program names outside the command lines that it shows."""
    return [found for text in strings(ast.parse(program)) for found in FLAG.findall(COMMAND_LINE.sub("", str(text.value)))]


FOR_BOTH = {
    "formats.py", "magic.py", "remote/trust.py", "query/answer.py", "query/missing.py", "session/missing.py",
    "workload/accounts.py", "workload/planning.py", "serve/config.py", "serve/embedded.py", "serve/web/stewardship.py",
}  # fmt: skip
"""Variables of CSS; a note that is shown in a shell and in Python; places that write a command to fill in."""


def test_what_is_written_for_python_names_no_flag() -> None:
    files = [
        path
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] != "cli" and path.relative_to(SOURCE).as_posix() not in FOR_BOTH
    ]
    assert len(files) > 100
    assert {str(path): found for path in files if (found := find_flags(path.read_text(encoding="utf-8")))} == {}
    assert find_flags('raise QueryRefused("no keys", "declare them (--keys dept=a)")') == ["--keys"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            'declare them (keys={"dept": ["a", "b"]}), or set delta=1e-6',
            "declare them (--keys dept=a,b), or set --delta 1e-6",
        ),
        ('give error="5%" with size=', "give --error 5% with --size"),
        ('public={"cities": "cities.csv"} or fresh=True', "--public cities=cities.csv or --fresh"),
        ("other=1 and xkeys=1 and a.keys=1", "other=1 and xkeys=1 and a.keys=1"),
        ("where keys==1", "where keys==1"),
    ],
)
def test_values_are_spelled_as_in_a_shell(text: str, shown: str) -> None:
    names = ("keys", "delta", "error", "size", "public", "fresh")
    assert spell_text(text, {name: f"--{name}" for name in names}) == shown


def test_an_expression_is_left_as_the_user_wrote_it() -> None:
    mistake = BadExpression("claim(epsilon=x)", 7, "epsilon=x is no number", "write epsilon=1")
    assert str(spell_flags(mistake, {"epsilon": "--epsilon"})) == str(mistake)
    assert "epsilon=x" in str(mistake)


COUNT = "SELECT COUNT(*) AS n FROM people"
MEAN = "SELECT AVG(pay) AS m FROM people"


@pytest.mark.parametrize(
    ("arguments", "start", "end"),
    [
        (
            ("ask", "{source}", MEAN, "--unit=id", "--epsilon=1", "--bounds=pay=5:3"),
            "--bounds of `pay` are 5:3",
            "asking#what-is-d",
        ),
        (("plan", "mean", "--bounds=5:3", "--epsilon=1", "--n=9"), "--bounds is 5", "planning#"),
        (("ask", "{source}", COUNT, "--unit=id", "--epsilon=1", "--weight=m=2"), "--weight is 'm'", "asking#state-the"),
        (("ask", "{source}", COUNT, "--unit=id", "--epsilon=1", "--weight=n=-2"), "--weight is -2", "asking#state-the"),
        (("calibrate", "gaussian", "--epsilon=1", "--delta=1e-6", "--times=0"), "--times is 0", "accounting#calibrate"),
        (("calibrate", "gaussian", "--epsilon=1", "--delta=1e-6", "--rate=3"), "--rate is 3", "accounting#calibrate"),
        (("calibrate", "poisson", "--epsilon=1", "--delta=1e-6"), "MECHANISM is 'poisson'", "accounting#calibrate"),
        (("ledger", "open", "{new}", "--account=a", "--epsilon=1", "--parent=b"), "--parent is 'b'", "ledger#accounts"),
        (("verify", "{source}"), "RELEASE is {source}", "ledger#certificates"),
        (("verify", "{source}", "--key=nope"), "--key is 'nope'", "ledger#certificates"),
        (("audit", "math:floor", "--epsilon=1", "--neighbours=next"), "--neighbours is 'next'", "auditing#any-function"),
        (("audit", "math:floor"), "--epsilon is missing", "auditing#any-function"),
        (("lab", "attack", "nope"), "NAME is 'nope'", "lab"),
        (("help", "asknig"), "TOPIC is 'asknig'", "index#where"),
        (("budget", "mysql://x"), "LEDGER is mysql://…", "ledger#accounts"),
    ],
)  # fmt: skip
def test_messages_name_the_flag_and_the_page(
    arguments: tuple[str, ...], start: str, end: str, source: str, tmp_path: Path
) -> None:
    names = {"source": source, "new": str(tmp_path / "l")}
    done = run(*(each.format(**names) for each in arguments))
    assert done.returncode == 2
    message, see = done.stderr.strip().rsplit("\n", 1)
    assert message.startswith(f"discreet: {start.format(**names)}")
    assert see.startswith(f"See: discreet help {end}")


def test_python_names_parameters(source: str) -> None:
    with pytest.raises(DiscreetError, match=r'bounds=\{"pay": \(0, 100\)\}'):
        connect(source, unit="id", epsilon=1).ask(MEAN, epsilon=1)
    with pytest.raises(DiscreetError, match=r'keys=\{"dept": \["a", "b", "c"\]\}.* delta=1e-6') as refused:
        connect(source, unit="id", epsilon=1).ask("SELECT dept, COUNT(*) AS n FROM people GROUP BY dept", epsilon=1)
    assert refused.value.see in (PARAMETER_PAGES["keys"], MissingDeclarations.see)


@pytest.mark.parametrize("page", sorted({*PARAMETER_PAGES.values(), *PAGES.values()}))
def test_every_page_about_a_parameter_or_a_command_exists(page: str) -> None:
    assert find_topic(page) == to_topic(page)
    assert len(read_topic(to_topic(page))) > 100


def raised_names(package: str) -> set[str]:
    """The literal names of the parameters that a package refuses."""
    names = set()
    for path in (SOURCE / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "BadParameter":
                name = node.args[0]
                if isinstance(name, ast.Constant) and "." not in name.value:
                    names.add(name.value)
    return names


@pytest.mark.parametrize("package", ["session", "engines", "query", "workload", "planner", "auditor"])
def test_every_parameter_of_a_query_has_the_page_that_explains_it(package: str) -> None:
    explained = PARAMETER_PAGES.keys() | {"KEY", "adjusted_after_looking", "lower", "upper", "option"}
    assert raised_names(package) - explained == set()
    assert raised_names(package), "the search finds names"
