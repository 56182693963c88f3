"""`discreet verify`: what a release.json proves."""

from discreet.cli.ledger import read_json
from discreet.cli.output import print_json, print_line
from discreet.ledger import open_ledger
from discreet.ledger.keys import read_public_key
from discreet.ledger.verify import verify


def run(path: str, key: str | None, ledger: str | None, *, as_json: bool) -> bool:
    """Print every finding, then what has to be trusted. Whether all of it holds."""
    public = None if key is None else read_public_key(key)
    book = None if ledger is None else open_ledger(ledger)
    verdict = verify(read_json(path, "release"), public=public, ledger=book)
    if as_json:
        findings = [{"claim": finding.claim, "holds": finding.is_valid} for finding in verdict.claims]
        print_json({"holds": verdict.is_valid, "findings": findings, "trusted": list(verdict.assumptions)})
        return verdict.is_valid
    print_line("proven:" if verdict.is_valid else "checked:")
    for finding in verdict.claims:
        print_line(f"  {'✓' if finding.is_valid else '✗'} {finding.claim}")
    print_line("trusted:")
    for said in verdict.assumptions:
        print_line(f"  · {said}")
    return verdict.is_valid
