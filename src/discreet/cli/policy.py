"""`discreet policy`: write a policy to fill in, and compare a policy with the data."""

import os
import sys
from dataclasses import replace
from typing import Annotated

import typer

from discreet.cli.app import ASKING, App, app
from discreet.cli.options import Json, complete_files, parse_names, takes_source
from discreet.cli.output import print_data, print_json, print_line, print_styled, print_table
from discreet.errors import BadParameter
from discreet.session.options import WRITTEN_OPTIONS, SourceOptions

policy = App(no_args_is_help=True, help="Declare a table in a file.")
app.add_typer(policy, name="policy", rich_help_panel=ASKING)


@policy.command("init", epilog="Example: [bold]discreet policy init people.csv --unit id[/bold]")
@takes_source("table", "path")
def policy_init(
    options: SourceOptions,
    unit: Annotated[str | None, typer.Option(help=f"{WRITTEN_OPTIONS['unit'].help} Asked for if it is missing.")] = None,
    out: Annotated[str, typer.Option(help="The file to write; - for the screen.")] = "policy.toml",
) -> None:
    """Write a policy.toml to fill in: the names and types of the columns, no values of the data."""
    from secrets import token_urlsafe

    from discreet.engines.base import explain_to_owner
    from discreet.query.policy import write_policy
    from discreet.query.schema import DEFAULT_SALT
    from discreet.session.source import find_prepared_unit, open_source

    is_prepared = unit is None and find_prepared_unit(options.source) is not None  # then it has its unit
    if unit is None and not is_prepared and not sys.stdin.isatty():
        raise BadParameter("--unit", "missing", "no privacy unit", "name the column that identifies a person: --unit id")
    unit = typer.prompt("Which column identifies a person") if unit is None and not is_prepared else unit
    with explain_to_owner():
        named = None if unit is None else parse_names(str(unit), "--unit")
        table = open_source(replace(options, unit=named)).validate().table
    salt = token_urlsafe(32) if table.salt == DEFAULT_SALT else table.salt  # a prepared table has its own
    text = write_policy(replace(table, salt=salt), template=True)
    if out == "-":
        print_data(text)
        return
    try:
        handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # it holds the salt
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadParameter("--out", out, "the file exists already", "name another, or remove it") from None
    except OSError as error:
        raise BadParameter("--out", out, f"cannot be written ({error.strerror})", "name another place") from None
    print_line(f"Wrote {out}. Declare bounds, keys and limits in it. Then: discreet ask {options.source} … --policy {out}")


@policy.command("check", epilog="Example: [bold]discreet policy check people.csv policy.toml[/bold]")
@takes_source("table", "path")
def policy_check(
    options: SourceOptions,
    policy: Annotated[
        str, typer.Argument(help="The policy.toml to check.", autocompletion=complete_files(".toml"))
    ] = "policy.toml",
    json: Json = False,
) -> None:
    """Compare a policy with the data, for the data owner only. Exit code 1 if the data breaks its guarantee."""
    from discreet.session.policy_check import WARNING, Verdict, check_policy, summarise_checks

    checks = check_policy(options.source, policy, table=options.table, path=options.path)
    verdict = summarise_checks(checks)
    if json:
        shown = [each.to_dict() for each in checks]
        print_json({"owner_only": True, "warning": WARNING, "checks": shown, "verdict": verdict})
    else:
        print_line(WARNING)
        findings = [each for each in checks if each.verdict is not Verdict.TRUE]
        rows = [(each.subject, each.declared, each.found, each.verdict.value) for each in findings]
        if rows:
            print_table("OWNER ONLY: exact numbers about the data", ("what", "declared", "found", "verdict"), rows)
        if fine := [f"{each.subject} ({each.declared})" for each in checks if each.verdict is Verdict.TRUE]:
            print_line(f"OWNER ONLY: true of every row: {', '.join(fine)}.")
        print_styled(f"Verdict: {verdict}", "bold")
    if any(each.verdict is Verdict.BROKEN for each in checks):
        raise typer.Exit(1)
