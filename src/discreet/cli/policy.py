"""`discreet policy init`: a policy to fill in."""

from pathlib import Path

from discreet.cli.output import print_data, print_line
from discreet.declare import declare
from discreet.errors import BadParameter
from discreet.query.policy import write_policy


def init(source: str, unit: str, table: str | None, path: str | None, out: str) -> None:
    """Write names and types; bounds and keys are the steward's to declare."""
    declared = declare(source, unit=unit, table=table, path=path).table
    text = write_policy(declared, template=True)
    if out == "-":
        print_data(text)
        return
    try:
        with Path(out).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadParameter("--out", out, "there is such a file already", "name another, or remove it") from None
    except OSError:
        raise BadParameter("--out", out, "cannot be written", "name another place") from None
    print_line(f"{out} written: declare bounds, keys and limits in it, then discreet ask {source} … --policy {out}")
