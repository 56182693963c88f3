"""What is left of a plan that is refused: a source with the declarations that are sound, to look at the rest of the plan.

A refusal names every problem of a plan, not the first one. So each declaration about the source is added by itself to those
that were sound before it: what is refused then is a problem of this declaration, which is listed and left out. If the source
itself cannot be opened, those declarations are looked at that are wrong for every source. Something
stands for what others build upon: another column for a privacy unit that is refused, and `replace` for a neighbouring
relation, so that limits and invariants are looked at for themselves. A session that was opened so is never asked anything.
"""

from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any

from discreet._numbers import check_int
from discreet.errors import DiscreetError, Problems
from discreet.ledger.account import Account
from discreet.query.schema import ROW
from discreet.session.options import SourceOptions
from discreet.session.session import Session
from discreet.units import Neighbours, read_invariants
from discreet.workload.spec import open_plan_session

DECLARATIONS = (
    "unit", "unique", "max_groups", "max_rows", "bounds", "keys", "public", "neighbours", "invariants", "label",
)  # fmt: skip
"""What is declared about a source, in the order in which one builds upon another."""


def open_sound_session(options: SourceOptions, account: tuple[Account, Fraction], problems: Problems) -> Session | None:
    """Open a source with the declarations that are sound, and collect a problem for each that is not. None if the source
    itself cannot be opened."""
    try:
        return open_plan_session(options, account)
    except DiscreetError:
        return _SoundSource(options, account, problems).open()


class _SoundSource:
    """A source, and the declarations about it that were sound so far."""

    def __init__(self, options: SourceOptions, account: tuple[Account, Fraction], problems: Problems) -> None:
        self.given = {each.name: getattr(options, each.name) for each in fields(SourceOptions)}
        self.sound = {name: value for name, value in self.given.items() if name not in DECLARATIONS}
        self.account, self.problems = account, problems
        self.session: Session | None = None

    def open(self) -> Session | None:
        if self.given["policy"] is None:
            self.sound["unit"] = ROW
        if not self._add({}):
            self._look_without_source()
            return None
        for name in DECLARATIONS:
            value = self.given[name]
            if value is None and name != "unit":
                continue
            if isinstance(value, Mapping):
                for key, each in value.items():
                    self._add({name: {**self.sound.get(name, {}), key: each}})
            elif not self._add({name: value}):
                self._stand_in(name)
        return self.session

    def _look_without_source(self) -> None:
        """Look at the declarations that may be wrong whatever the source holds: limits, relation, and reasons."""
        relation, invariants = self.given["neighbours"], self.given["invariants"]
        for limit in ("max_groups", "max_rows"):
            with self.problems.collect_new():
                check_int(1 if self.given[limit] is None else self.given[limit], limit, 1)
        parsed = Neighbours.REPLACE
        with self.problems.collect_new():
            parsed = relation if isinstance(relation, Neighbours) else Neighbours.parse(relation)
        named = [each.strip() for name in invariants or () for each in str(name).split(",")]
        with self.problems.collect_new():
            read_invariants(invariants, parsed, named, ())

    def _add(self, more: dict[str, Any], problems: Problems | None = None) -> bool:
        with (self.problems if problems is None else problems).collect_new():
            self.session = open_plan_session(SourceOptions(**(self.sound | more)), self.account)
            self.sound |= more
            return True
        return False

    def _stand_in(self, name: str) -> None:
        if name == "neighbours":
            self._add({name: "replace"}, Problems())
        if name == "unit" and self.session is not None:
            taken = {*(self.given["invariants"] or {}), *(self.given["keys"] or {})}
            columns = [each for each in self.session.table.columns if each not in taken]
            any(self._add({name: each}, Problems()) for each in columns)
