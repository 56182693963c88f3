"""Source options are declared once, and errors name flags on the command line and parameters in Python."""

import inspect
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from discreet import BadParameter, connect
from discreet.cli import app
from discreet.cli.options import parse_range, parse_source_options, parse_weight
from discreet.session.options import WRITTEN_OPTIONS, KeyText, SourceOptions
from discreet.units import Neighbours
from discreet.workload.spec import TOP_LEVEL_KEYS, Workload
from tests.support.console import run

OPTIONS = {each.name: each.default for each in fields(SourceOptions)}
COUNT = "SELECT COUNT(*) AS n FROM people"


def test_every_source_option_is_a_parameter_of_connect_with_its_default() -> None:
    parameters = inspect.signature(connect).parameters
    for name, default in OPTIONS.items():
        expected = Neighbours.parse(default) if name == "neighbours" else default
        assert name == "source" or parameters[name].default == expected, name
    assert parameters["source"].default is inspect.Parameter.empty


@pytest.mark.parametrize("command", ["ask", "quote"])
def test_every_source_option_is_a_flag(command: str) -> None:
    parameters = {each.name: each for each in get_command(app).commands[command].params}  # type: ignore[attr-defined]
    assert parameters["source"].param_type_name == "argument"
    for name, spec in WRITTEN_OPTIONS.items():
        if name != "source":
            assert parameters[name].opts == [f"--{name.replace('_', '-')}"]
            assert parameters[name].multiple == (spec.kind is dict)
        assert parameters[name].help.startswith(spec.help)


def test_every_source_option_is_a_key_of_a_plan() -> None:
    assert WRITTEN_OPTIONS.keys() <= TOP_LEVEL_KEYS
    assert issubclass(Workload, SourceOptions)


def test_bounds_of_dates_have_colons_inside() -> None:
    texts = ["day=2024-01-01:2024-12-31", "at=2024-01-01T06:00:2024-12-31 12:30:15", "n=20240101:20241231"]
    assert parse_source_options({"source": "people.csv", "bounds": texts}).bounds == {
        "day": ("2024-01-01", "2024-12-31"),
        "at": ("2024-01-01T06:00", "2024-12-31 12:30:15"),
        "n": (Fraction(20240101), Fraction(20241231)),
    }


def test_texts_become_values() -> None:
    typed: dict[str, Any] = dict.fromkeys(WRITTEN_OPTIONS) | {
        "source": "people.csv", "bounds": ["pay=0:200", "a=b=-1/2:1e3", "age=auto"], "keys": ["dept=a,b", "age=1"],
        "public": ["cities=c=d.csv"], "unique": False, "max_rows": 3, "neighbours": "replace",
    }  # fmt: skip
    parsed = parse_source_options(typed)
    assert parsed.bounds == {"pay": (0, 200), "a=b": (Fraction(-1, 2), 1000), "age": "auto"}
    assert parsed.keys == {"dept": ("a", "b"), "age": ("1",)}
    assert all(isinstance(key, KeyText) for keys in parsed.keys.values() for key in keys)
    assert parsed.public == {"cities": "c=d.csv"}
    assert (parsed.unique, parsed.max_rows, parsed.neighbours) == (None, 3, "replace")
    assert parse_source_options({**typed, "unique": True}).unique is True
    assert parse_weight("n=2") == ("n", 2)


@pytest.mark.parametrize(
    ("option", "text", "example"),
    [
        ("bounds", "pay", "--bounds pay=0:200"),
        ("bounds", "pay=5", "--bounds pay=0:200"),
        ("bounds", "pay=0:x", "0.5"),
        ("keys", "dept", "--keys dept=a,b,c"),
        ("public", "cities", "--public cities=cities.csv"),
        ("public", "=x", "--public cities=cities.csv"),
    ],
)
def test_a_text_that_cannot_be_parsed_names_its_flag_and_an_example(option: str, text: str, example: str) -> None:
    with pytest.raises(BadParameter, match=f"^--{option}(?: is| of `pay` are) ") as refused:
        parse_source_options({"source": "people.csv", option: [text]})
    assert example in refused.value.hint


def test_a_range_names_its_flag() -> None:
    with pytest.raises(BadParameter, match=r"^--domain is '5': not a range\. Write --domain 0:100\.$"):
        parse_range("5", "--domain")


@pytest.mark.parametrize(
    ("given", "flags", "parameters"),
    [
        ({"epsilon": "1"}, "--unit id", 'unit="id"'),
        ({"epsilon": "1", "unit": "id", "max_rows": "2", "unique": True}, "--max-rows is 2", "max_rows is 2"),
        ({"epsilon": "1", "unit": "id", "path": "x"}, "--path is 'x'", "path is 'x'"),
        ({"epsilon": "1", "unit": "id", "neighbours": "next"}, "--neighbours is 'next'", "neighbours is 'next'"),
        ({"epsilon": "1", "unit": "id", "account": "hr"}, "--ledger hr.ledger", 'ledger="hr.ledger"'),
    ],
)
def test_an_error_names_flags_in_a_shell_and_parameters_in_python(
    given: dict[str, Any], flags: str, parameters: str, source: str
) -> None:
    typed = [f"--{name.replace('_', '-')}{'' if value is True else f'={value}'}" for name, value in given.items()]
    shown = run("ask", source, COUNT, *typed)
    assert shown.returncode == 2
    assert flags in shown.stderr
    values = {name: int(value) if value in ("1", "2") else value for name, value in given.items()}
    with pytest.raises(BadParameter) as refused:
        connect(source, **values)
    assert parameters in str(refused.value)


def test_a_budget_that_is_exceeded_names_the_flag(source: str) -> None:
    shown = run("ask", source, COUNT, "--unit", "id", "--epsilon", "2", "--budget", "1")
    assert shown.returncode == 3
    assert "--epsilon 1 would fit" in shown.stderr


def test_a_plan_names_its_keys_and_no_flags(source: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(f'source = "{source}"\n[budget]\nepsilon = 1\n[questions.all]\nsql = "{COUNT}"\n', encoding="utf-8")
    shown = run("publish", plan, "--dry-run")
    assert shown.returncode == 2
    assert 'unit="id"' in shown.stderr
    assert "--unit" not in shown.stderr


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        ('city="Paris, TX",Rome', ("Paris, TX", "Rome")),
        ('city=Rome,"Paris, TX"', ("Rome", "Paris, TX")),
        ('city="say ""hi""",x', ('say "hi"', "x")),
        ('city=""', ("",)),
        ("city=a,,b", ("a", "", "b")),
        ('city=5",6', ('5"', "6")),
        ("city=a=b,c", ("a=b", "c")),
    ],
)
def test_keys_with_commas_are_quoted(typed: str, keys: tuple[str, ...]) -> None:
    assert parse_source_options({"source": "people.csv", "keys": [typed]}).keys == {"city": keys}


@pytest.mark.parametrize("typed", ['city="Paris, TX', 'city="a"b,c'])
def test_a_quote_that_is_not_closed_is_refused(typed: str) -> None:
    with pytest.raises(BadParameter, match="--keys"):
        parse_source_options({"source": "people.csv", "keys": [typed]})


@pytest.mark.parametrize(
    ("typed", "unit"), [("id", "id"), ("household,person", ("household", "person")), ("row", "row"), ('"a, b"', "a, b")]
)
def test_a_unit_may_be_several_columns(typed: str, unit: object) -> None:
    assert parse_source_options({"source": "people.csv", "unit": typed}).unit == unit
