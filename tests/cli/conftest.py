"""A source for the commands that query one."""

import pytest

from tests.support.people_csv import write_people


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of people.csv."""
    return write_people(tmp_path_factory.mktemp("source"))


@pytest.fixture(autouse=True)
def config(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what `discreet login` stores out of the user's own folder."""
    monkeypatch.setenv("DISCREET_CONFIG", str(tmp_path_factory.mktemp("config")))
