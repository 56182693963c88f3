"""Names of tables as people write them: people, hr.people, "my schema"."my.people"."""

import re

from discreet.errors import BadParameter

_PART = re.compile(r'"((?:[^"]|"")+)"|([^."]+)')


def split_table_name(name: str, max_parts: int) -> tuple[str, ...]:
    """The parts of a name, each exactly as written; quotes are for names with a dot in them.

    >>> split_table_name("hr.people", 2), split_table_name('"my.schema"."people"', 2)
    (('hr', 'people'), ('my.schema', 'people'))
    """
    parts, place = [], 0
    while match := _PART.match(name, place):
        parts.append(match[1].replace('""', '"') if match[1] else match[2])
        place = match.end()
        if place == len(name) and len(parts) <= max_parts:
            return tuple(parts)
        if name[place : place + 1] != ".":
            break
        place += 1
    raise BadParameter("table", repr(name), "not the name of a table", 'write people, hr.people or "my schema"."people"')
