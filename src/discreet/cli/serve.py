"""`discreet serve`: let analysts ask from a browser or a notebook, without seeing a row."""

from typing import Annotated, Any

import typer

from discreet.cli.app import ASKING, App, Group, app
from discreet.cli.options import Json
from discreet.cli.output import parse_number, print_json, print_line, print_warning
from discreet.errors import BadParameter


class ServeGroup(Group):
    """`discreet serve examples/` means `discreet serve run examples/`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command before what is no command."""
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


serve = App(no_args_is_help=True, help="Serve tables to analysts: in a browser, a notebook or a shell.")
serve.info.cls = ServeGroup
app.add_typer(serve, name="serve", rich_help_panel=ASKING)

Target = Annotated[str, typer.Argument(metavar="FOLDER|serve.toml", help="A folder with policies, or a serve.toml.")]


@serve.command(
    "run",
    epilog="Examples:\n\n[bold]discreet serve examples/[/bold]\n\n[bold]discreet serve run serve.toml --worker[/bold]",
)
def serve_run(
    target: Target,
    port: Annotated[int | None, typer.Option(help="The port; 8765 unless given, 0 for a free one.")] = None,
    host: Annotated[
        str | None,
        typer.Option(help="The address to listen on; 127.0.0.1 unless given. Others need a certificate or --behind-proxy."),
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="The ε of a folder's budget when it is first served; 3 unless given.")
    ] = None,
    web: Annotated[bool, typer.Option("--web", help="Run the web process alone: no data, no ledger, no key.")] = False,
    worker: Annotated[bool, typer.Option("--worker", help="Run a worker alone: no network.")] = False,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A proxy in front has the certificate and sets X-Forwarded-For.")
    ] = False,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Serve a ledger that has entries: no other service uses it or a copy of it.")
    ] = False,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open a browser.")] = False,
) -> None:
    """Serve a folder or a serve.toml until Ctrl+C. `run` may be left out.

    Each people.policy.toml beside people.csv is a table. A folder is served on
    this machine alone, to its owner, with a budget of ε = 3 for all its tables
    and everybody together; a serve.toml is for a team.
    """
    import sys

    from discreet.serve.config import read_config
    from discreet.serve.embedded import run

    amount = None if epsilon is None else parse_number(epsilon, "epsilon")
    config = read_config(target, port=port, host=host, epsilon=amount, behind_proxy=behind_proxy)
    if config.embedded and web != worker:
        given = "--web" if web else "--worker"
        raise BadParameter(given, "given", "a folder is served by one process", "write a serve.toml")

    def say(text: str) -> None:
        print_line(text)
        sys.stdout.flush()

    alone = web != worker
    run(config, web=web or not alone, worker=worker or not alone, adopt=adopt, browser=not no_browser, say=say)


@serve.command("check", epilog="Example: [bold]discreet serve check serve.toml[/bold]")
def serve_check(
    target: Target,
    propose: Annotated[
        bool, typer.Option("--propose", help="Time invented rows of the declared size, and propose a schedule.")
    ] = False,
    json: Json = False,
) -> None:
    """Read the configuration and open every policy, source, ledger and database. Nothing is asked, made or changed."""
    from discreet.serve.checking import check_service, propose_schedules
    from discreet.serve.config import read_config
    from discreet.serve.schedule import format_duration

    config = read_config(target)
    checks = check_service(config)
    proposals = propose_schedules(config) if propose else {}
    if json:
        print_json(
            {
                "checks": [{"what": each.what, "holds": each.problem is None, "problem": each.problem} for each in checks],
                "warnings": [f"{each.what}: {each.warning}" for each in checks if each.warning is not None],
                "schedules": {name: [format_duration(each) for each in classes] for name, classes in proposals.items()},
            }
        )
    else:
        for each in checks:
            print_line(f"ok     {each.what}" if each.problem is None else f"WRONG  {each.what}: {each.problem}")
            if each.warning is not None:
                print_line(f"note   {each.what}: {each.warning}.")
        for name, classes in proposals.items():
            words = ", ".join(f'"{format_duration(each)}"' for each in classes)
            print_line(f"[tables.{name}] schedule = [{words}]")
    if any(each.problem is not None for each in checks):
        raise typer.Exit(1)


@serve.command("policy-accept", epilog="Example: [bold]discreet serve policy-accept serve.toml people 3[/bold]")
def serve_policy_accept(
    target: Target,
    table: Annotated[str, typer.Argument(help="The table.")],
    version: Annotated[int, typer.Argument(help="The version of the proposal.")],
    json: Json = False,
) -> None:
    """Bring a policy that was proposed in the browser into force. Run it where the worker runs.

    The policy file is replaced; the earlier one is kept beside it. Answers that
    were recorded under the earlier policy stay, and are not found by queries
    under the new one.
    """
    from discreet.serve.checking import accept_policy
    from discreet.serve.config import read_config

    kept = accept_policy(read_config(target), table, version)
    if json:
        print_json({"table": table, "version": version, "kept": str(kept)})
        return
    print_line(f"Version {version} of the policy of {table} is in force. The earlier one is in {kept}.")


@serve.command("invite", epilog="Example: [bold]discreet serve invite serve.toml ada --role steward[/bold]")
def serve_invite(
    target: Target,
    person: Annotated[str, typer.Argument(help="The short name of the person, which is part of account names.")],
    role: Annotated[
        str | None,
        typer.Option(help="steward (of a known person, too), analyst, reader or student; analyst unless given."),
    ] = None,
    json: Json = False,
) -> None:
    """Add a person, and print a link that signs them in once, within ten minutes."""
    import shlex

    from discreet.serve.checking import invite_person
    from discreet.serve.config import read_config
    from discreet.serve.embedded import LINK_SECONDS

    config = read_config(target)
    invited = invite_person(config, person, role)
    has = invited.person.role.value
    if json:
        print_json(
            {
                "person": person, "role": has, "is_new": invited.is_new, "link": invited.link, "seconds": LINK_SECONDS,
                "is_running": invited.is_running,
            }
        )  # fmt: skip
    else:
        print_line(invited.link)
        said = f"{person} is new, and {_name_role(has)}" if invited.is_new else f"{person} is known, and {_name_role(has)}"
        print_line(f"The link signs {person} in once, within {LINK_SECONDS / 60:g} minutes. {said}.")
    if invited.is_running is False:
        command = f"discreet serve {shlex.quote(config.target)}"
        print_warning(f"The service is not running, so the link opens nothing. Start it within that time: {command}")


def _name_role(role: str) -> str:
    return f"an {role}" if role[0] in "aeiou" else f"a {role}"
