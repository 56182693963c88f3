"""Hierarchies and exact invariants on PostgreSQL."""

from pathlib import Path

from discreet import connect
from tests.support.engine_hierarchies import CONDITIONAL, DECLARED, PEOPLE, check_hierarchy
from tests.support.postgres_server import Server, create_table


def test_a_hierarchy_is_that_of_plain_python(postgres: Server, tmp_path: Path) -> None:
    create_table(postgres.owner, "dwellers", "id BIGINT, geo TEXT, sex INTEGER", PEOPLE)
    sessions = (connect(postgres.reader, table="dwellers", **options) for options in (DECLARED, CONDITIONAL))
    check_hierarchy(*sessions, tmp_path)
