"""The wheel and an environment with it, made once for all tests of this folder."""

from pathlib import Path

import pytest

from tests.support.wheel import Environment, build_wheel, make_environment


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the working tree."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """A clean environment with the wheel and its extras for publishing."""
    return make_environment(wheel, tmp_path_factory.mktemp("installed") / "venv", "plot", "arrow")
