"""A source for the commands that query one."""

import pytest

from tests.support.people_csv import write_people


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of people.csv."""
    return write_people(tmp_path_factory.mktemp("source"))
