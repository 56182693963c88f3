"""The periods of a stream: hours, days, weeks or months, one after the other from a start."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Literal, TypeAlias

from discreet.errors import BadParameter
from discreet.formats import count_things
from discreet.query.schema import Kind, parse_moment

Every: TypeAlias = Literal["hour", "day", "week", "month"]
LENGTHS = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}
MONTH = "month"


@dataclass(frozen=True, slots=True)
class Schedule:
    """When each step of a stream begins and ends. Times are in UTC, as those of the source are.

    >>> Schedule.parse("month", "2026-11-01").period(3)
    (datetime.datetime(2027, 1, 1, 0, 0), datetime.datetime(2027, 2, 1, 0, 0))
    """

    every: str
    start: datetime

    @classmethod
    def parse(cls, every: str, start: str | date) -> "Schedule":
        """Read a schedule; `start` is a date or a time, also as text."""
        if every not in (*LENGTHS, MONTH):
            raise BadParameter("every", repr(every), "no such period", f"take {', '.join(LENGTHS)} or {MONTH}")
        moment = start
        if isinstance(start, str):
            moment = parse_moment(start, Kind.TIMESTAMP) or parse_moment(start, Kind.DATE) or start
        if not isinstance(moment, date):
            raise BadParameter("start", repr(start), "not a date", 'write it as in start="2026-11-01"')
        found = moment if isinstance(moment, datetime) else datetime.combine(moment, time.min)
        if found.tzinfo is not None or found.microsecond:
            raise BadParameter("start", str(start), "not a plain time in UTC", 'write it as in start="2026-11-01T06:00:00"')
        if every == MONTH and found.day != 1:
            raise BadParameter("start", str(start), "a month begins with its first day", "name the first of a month")
        return cls(every, found)

    def moment(self, steps: int) -> datetime:
        """Return when so many steps have passed. Refuse what lies behind the end of the calendar, the year 9999."""
        try:
            if self.every == MONTH:
                years, month = divmod(self.start.month - 1 + steps, 12)
                return self.start.replace(year=self.start.year + years, month=month + 1)
            return self.start + steps * LENGTHS[self.every]
        except (OverflowError, ValueError):
            reason = f"{count_things(steps, self.every)} later the calendar has ended"
            raise BadParameter("start", self.format(self.start), reason, "begin earlier, or take fewer steps") from None

    def period(self, step: int) -> tuple[datetime, datetime]:
        """Return when a step begins, and when it ends, which is no longer part of it."""
        return self.moment(step - 1), self.moment(step)

    @property
    def has_days(self) -> bool:
        """Whether every period begins at midnight, so that a column of dates can be cut into them."""
        return self.every in ("day", "week", MONTH) and self.start.time() == time.min

    def format(self, moment: datetime) -> str:
        """Return a moment as text: its date alone where periods are days or longer."""
        return moment.date().isoformat() if self.has_days else moment.isoformat(sep=" ", timespec="minutes")
