"""`discreet audit`: attack a function that claims to be private, and certify a lower bound on its ε."""

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.app import CHECKING, app
from discreet.cli.options import Json, parse_range
from discreet.cli.output import parse_number, print_line, print_warning, show_progress
from discreet.errors import BadParameter
from discreet.paths import check_picture_path

if TYPE_CHECKING:
    from discreet.auditor.claims import Claim, Domain


@app.command(
    rich_help_panel=CHECKING, epilog="Example: [bold]discreet audit mynoise:noisy_sum --epsilon 1 --domain 0:1[/bold]"
)
def audit(
    function: Annotated[str, typer.Argument(help="module:function, which takes a list with one record per person.")],
    epsilon: Annotated[str | None, typer.Option(help="The claimed ε.")] = None,
    delta: Annotated[str, typer.Option(help="The claimed δ.")] = "0",
    rho: Annotated[str | None, typer.Option(help="Or the claimed ρ of zCDP.")] = None,
    mu: Annotated[str | None, typer.Option(help="Or the claimed μ of Gaussian DP.")] = None,
    pairs: Annotated[str | None, typer.Option(help="A JSON file with neighbouring inputs, [[[], [1]], …].")] = None,
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
    """Attack a function that claims to be private, and certify a lower bound on its ε. Exit code 1 if the claim is false."""
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
