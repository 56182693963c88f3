"""`discreet policy init`: a policy to fill in; `discreet policy check`: whether it is true of the data."""

from pathlib import Path

from discreet.cli.output import print_data, print_json, print_line, print_table
from discreet.engines.base import explain_to_owner
from discreet.errors import BadParameter
from discreet.query.policy import write_policy
from discreet.session.policy_check import WARNING, Verdict, check_policy
from discreet.session.source import open_source


def init(source: str, unit: str, name: str | None, path: str | None, out: str) -> None:
    """Write names and types; bounds and keys are the steward's to declare."""
    with explain_to_owner():
        declared = open_source(source, unit=unit, table=name, path=path).validate().table
    text = write_policy(declared, template=True)
    if out == "-":
        print_data(text)
        return
    try:
        with Path(out).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadParameter("--out", out, "there is such a file already", "name another, or remove it") from None
    except OSError as error:
        raise BadParameter("--out", out, f"cannot be written ({error.strerror})", "name another place") from None
    print_line(f"{out} written: declare bounds, keys and limits in it, then discreet ask {source} … --policy {out}")


def check(source: str, policy: str, name: str | None, path: str | None, *, as_json: bool) -> bool:
    """Print what is declared beside what is there, and return whether the guarantee holds."""
    checks = check_policy(source, policy, table=name, path=path)
    if as_json:
        print_json({"owner_only": True, "warning": WARNING, "checks": [each.to_dict() for each in checks]})
    else:
        rows = [(each.subject, each.declared, each.found, each.verdict.value) for each in checks]
        print_table("OWNER ONLY: exact numbers about the data", ("what", "declared", "found", "verdict"), rows)
        print_line(WARNING)
    return all(each.verdict is not Verdict.BROKEN for each in checks)
