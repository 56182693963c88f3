"""How long a pass over a table of the declared size takes, measured on invented rows: no row of the table is read."""

import time
from fractions import Fraction

from discreet.query.schema import Table
from discreet.remote.dummy import invent_session
from discreet.serve.schedule import count_passes

MAX_TIMED_ROWS = 200_000
"""More rows are extrapolated from these."""

REPEATS = 3


def time_pass(table: Table, rows: int) -> float:
    """Return the seconds of one pass over this many invented rows: the slowest of a few counts.

    More rows than `MAX_TIMED_ROWS` take proportionally longer.
    """
    timed = min(rows, MAX_TIMED_ROWS)
    session = invent_session(table, timed)
    bounded = session.outline(f'SELECT COUNT(*) AS n FROM "{table.name}"')
    slowest = 0.0
    for _ in range(REPEATS):
        start = time.perf_counter()
        session.ask(f'SELECT COUNT(*) AS n FROM "{table.name}"', epsilon=Fraction(1), fresh=True)
        slowest = max(slowest, time.perf_counter() - start)
    return slowest / count_passes(bounded) * rows / timed
