"""`discreet audit`: attack a function that claims to be private, and certify a lower bound on its ε."""

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from discreet.cli.app import CHECKING, app
from discreet.cli.options import Json, parse_range
from discreet.cli.output import parse_number, print_json, print_line, print_warning, show_progress
from discreet.errors import BadParameter
from discreet.paths import check_picture_path

if TYPE_CHECKING:
    from discreet.auditor.claims import Claim, Domain


@app.command(
    rich_help_panel=CHECKING,
    epilog="Examples:\n\n[bold]discreet audit mynoise:noisy_sum --epsilon 1 --domain 0:1[/bold]\n\n"
    "[bold]discreet audit --collection colours.json --command 'node client/discreet-local.js'[/bold]\n\n"
    "[bold]discreet audit --training mytraining:trainer[/bold]",
)
def audit(
    ctx: typer.Context,
    function: Annotated[
        str | None, typer.Argument(help="module:function, which takes a list with one record per person.")
    ] = None,
    epsilon: Annotated[str | None, typer.Option(help="The claimed ε.")] = None,
    delta: Annotated[str, typer.Option(help="The claimed δ.")] = "0",
    rho: Annotated[str | None, typer.Option(help="Or the claimed ρ of zCDP.")] = None,
    mu: Annotated[str | None, typer.Option(help="Or the claimed μ of Gaussian DP.")] = None,
    pairs: Annotated[
        str | None,
        typer.Option(help="A JSON file with neighbouring inputs, [[[], [1]], …]; of a collection, values: [[1, 2], …]."),
    ] = None,
    collection: Annotated[
        str | None, typer.Option(help="Instead of a function: attack the client of this collection, a JSON file.")
    ] = None,
    command: Annotated[
        str | None, typer.Option(help="A client that answers lines of JSON, such as 'node client/discreet-local.js'.")
    ] = None,
    training: Annotated[
        str | None,
        typer.Option(
            help="Instead of a function: audit a trainer, a (model, rows) or a (function, claim), named module:name, or a "
            "function without arguments that returns one."
        ),
    ] = None,
    domain: Annotated[
        str, typer.Option(help="The range of records, 0:1; any adds NaN, extreme numbers and other types.")
    ] = "0:1",
    neighbours: Annotated[
        str, typer.Option(help="The neighbouring relation: add-remove one record, or replace one.")
    ] = "add-remove",
    confidence: Annotated[float, typer.Option(help="The confidence of the certified ε.")] = 0.999,
    seconds: Annotated[float, typer.Option(help="The time that the audit may take, in seconds.")] = 120.0,
    limit: Annotated[float, typer.Option(help="The time that one call may take, in seconds.")] = 1.0,
    workers: Annotated[int, typer.Option(help="The number of processes that call the function; 0 is one per core.")] = 0,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start a fresh process for every call, which shows a fixed seed.")
    ] = False,
    grade: Annotated[
        bool, typer.Option("--grade", help="For teaching: print passed, or the pair and the event that break the claim.")
    ] = False,
    report: Annotated[str | None, typer.Option(help="Write a page with a picture into this file.")] = None,
    json: Json = False,
) -> None:
    """Attack a function that claims to be private, and certify a lower bound on its ε. Exit code 1 if the claim is false.

    With --collection, the client of local privacy is attacked: by single reports, retries, averaging and equal histories.
    With --training, DP-SGD is replayed without noise, its batches are tested, and canaries attack it: about a minute.
    """
    if collection is not None:
        _refuse_flags(ctx, COLLECTION_FLAGS, "collections, which state their own ε")
        _audit_collection(function, collection, command, pairs, confidence, seconds, grade, json)
    if training is not None:
        _refuse_flags(ctx, TRAINING_FLAGS, "training, which states its own claim and has a fixed number of runs")
        _audit_training(function, training, confidence, grade, json)
    if function is None or command is not None:
        given = "missing" if function is None else f"given with --command {command}"
        raise BadParameter(
            "function", given, "nothing to attack", "name module:function, or give --collection or --training"
        )
    from discreet.auditor.attack import audit as run_audit
    from discreet.auditor.sampling import load_function
    from discreet.units import Neighbours

    sys.path.insert(0, "")
    claim, parsed_domain, parsed_pairs = _parse_claim(epsilon, delta, rho, mu), _parse_domain(domain), _read_pairs(pairs)
    relation = Neighbours.parse(neighbours, "--neighbours")
    if report is not None:
        check_picture_path(report, "--report")
    load_function(function)  # refuse a mistyped name before any process starts
    with show_progress("auditing …") as on_progress:
        finding = run_audit(
            function, claim, parsed_pairs, confidence=confidence, seconds=seconds, domain=parsed_domain, relation=relation,
            limit=limit, workers=workers or os.cpu_count() or 1, restart=restart, progress=on_progress,
        )  # fmt: skip
    print_line(finding.to_json() if json else finding.grade() if grade else str(finding))
    if report is not None:
        try:
            finding.report(report)
        except BadParameter as failed:  # the verdict stands, and so does its exit code
            if not finding.violation:
                raise
            print_warning(str(failed))
    raise typer.Exit(1 if finding.violation else 2 if finding.failures else 0)


COLLECTION_FLAGS = {"function", "collection", "command", "pairs", "confidence", "seconds", "grade", "json"}
TRAINING_FLAGS = {"function", "training", "confidence", "grade", "json"}


def _refuse_flags(ctx: typer.Context, taken: set[str], subject: str) -> None:
    """Refuse flags that were typed and would have no effect."""
    for each in ctx.command.params:
        source = ctx.get_parameter_source(str(each.name))
        if each.name not in taken and source is not None and source.name == "COMMANDLINE":
            flag = each.opts[0]
            raise BadParameter(flag, str(ctx.params[str(each.name)]), f"not for {subject}", f"leave {flag} out")


def _audit_collection(
    function: str | None,
    path: str,
    command: str | None,
    pairs: str | None,
    confidence: float,
    seconds: float,
    grade: bool,
    json: bool,
) -> NoReturn:
    """Play every game that suits a collection against its client, print the findings, and exit."""
    from discreet.auditor.client_checks import audit_collection
    from discreet.auditor.clients import CommandPlayer, DevicePlayer
    from discreet.local.collection import Collection
    from discreet.paths import read_text

    if function is not None:
        raise BadParameter("--collection", repr(path), f"given with the function {function}", "give one of them")

    def refuse(reason: str) -> BadParameter:
        return BadParameter("--collection", repr(path), reason, "write one with Collection.to_json")

    read = Collection.read(read_text(path, refuse))
    player = DevicePlayer(read) if command is None else CommandPlayer(read, command)
    with show_progress("auditing …") as on_progress:
        found = audit_collection(player, _read_pairs(pairs), confidence=confidence, seconds=seconds, progress=on_progress)
    violation = any(each.violation for each in found.values())
    if json:
        print_json({"violation": violation, "games": {game: each.to_dict() for game, each in found.items()}})
    else:
        for game, each in found.items():
            print_line(f"{game}: {each.grade() if grade else each}")
    raise typer.Exit(1 if violation else 0)


def _audit_training(function: str | None, name: str, confidence: float, grade: bool, json: bool) -> NoReturn:
    """Audit a trainer, a model with its rows or a function with its claim, print the findings, and exit."""
    from discreet.auditor.sampling import load_attribute
    from discreet.auditor.training import audit_training, read_target

    if function is not None:
        raise BadParameter("--training", repr(name), f"given with the function {function}", "give one of them")
    sys.path.insert(0, "")
    try:
        target, options = read_target(load_attribute(name, "--training"))
        with show_progress("auditing …") as on_progress:
            found = audit_training(target, confidence=confidence, progress=on_progress, **options)
    except BadParameter as refused:
        hint = "name a pair: (model, (features, targets)), with invented records" if refused.name == "rows" else refused.hint
        raise BadParameter("--training", repr(name), refused.reason, hint) from None
    violation = any(each.violation for each in found.values())
    if json:
        print_json({"violation": violation, "checks": {name: each.to_dict() for name, each in found.items()}})
    else:
        for check, each in found.items():
            print_line(f"{check}: {each.grade() if grade else each}")
    raise typer.Exit(1 if violation else 0)


def _parse_claim(epsilon: str | None, delta: str, rho: str | None, mu: str | None) -> "Claim":
    """ε and δ, or ρ, or μ."""
    from discreet.auditor.claims import Mu, Rho

    given = [flag for flag, value in (("--epsilon", epsilon), ("--rho", rho), ("--mu", mu)) if value is not None]
    if len(given) != 1:
        value = f"given with {' and '.join(given[1:])}" if given else "missing"
        name = given[0] if given else "claim"
        raise BadParameter(name, value, "exactly one claim is tested", "give --epsilon, --rho or --mu")
    if rho is not None:
        return Rho(parse_number(rho, "rho"))
    if mu is not None:
        return Mu(parse_number(mu, "mu"))
    return (parse_number(epsilon or "", "epsilon"), parse_number(delta, "delta"))


def _parse_domain(text: str) -> "Domain":
    if text == "any":
        return "any"
    if ":" not in text:
        raise BadParameter("--domain", repr(text), "not a range", "write --domain 0:1, or --domain any")
    lower, upper = parse_range(text, "--domain")
    return float(lower), float(upper)


def _read_pairs(path: str | None) -> list[Any] | None:
    """Read a JSON list of pairs of inputs: [[[], [1]], [[1, 2], [1, 2, 3]]]."""
    from json import JSONDecodeError, loads

    from discreet.paths import read_text

    if path is None:
        return None

    def refuse(reason: str) -> BadParameter:
        return BadParameter("--pairs", repr(path), reason, "write [[[], [1]], [[0], [0, 1]]]")

    try:
        pairs = loads(read_text(path, refuse))
    except (JSONDecodeError, RecursionError):
        raise refuse("not JSON") from None
    if not isinstance(pairs, list):
        raise refuse("not a JSON list")
    return pairs
