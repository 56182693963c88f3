"""`discreet verify`: what a release.json proves."""

from discreet.cli.ledger import read_json
from discreet.cli.output import print_json, print_line
from discreet.ledger import ledger_at
from discreet.ledger.keys import read_public
from discreet.ledger.verify import verify


def run(path: str, key: str | None, ledger: str | None, *, as_json: bool) -> bool:
    """Print every finding, then what has to be trusted. Whether all of it holds."""
    public = None if key is None else read_public(key)
    book = None if ledger is None else ledger_at(ledger)
    verdict = verify(read_json(path, "release"), public=public, ledger=book)
    if as_json:
        findings = [{"claim": finding.claim, "holds": finding.holds} for finding in verdict.findings]
        print_json({"holds": verdict.holds, "findings": findings, "trusted": list(verdict.trusted)})
        return verdict.holds
    print_line("proven:" if verdict.holds else "checked:")
    for finding in verdict.findings:
        print_line(f"  {'✓' if finding.holds else '✗'} {finding.claim}")
    print_line("trusted:")
    for said in verdict.trusted:
        print_line(f"  · {said}")
    return verdict.holds
