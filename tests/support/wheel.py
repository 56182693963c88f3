"""The wheel, built from the working tree, and environments that hold it with what it requires and nothing else."""

import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def build_wheel(place: Path) -> Path:
    """Build the wheel as `make wheel` does, into a folder."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(place)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=300)
    [wheel] = place.glob("*.whl")
    return wheel


def read_metadata(unpacked: Path) -> Distribution:
    """The metadata of an unpacked wheel."""
    [place] = unpacked.glob("discreet-*.dist-info")
    return PathDistribution(place)


def list_requirements(found: Distribution, *extras: str) -> list[str]:
    """The names that a distribution requires, without extras or with these."""
    wanted = [Requirement(line) for line in found.requires or ()]
    return [
        each.name
        for each in wanted
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]


def list_files(names: list[str]) -> set[Path]:
    """The top-level files and folders of everything that pip would install for these names."""
    known: dict[str, Distribution] = {}
    names = list(names)
    while names:
        name = names.pop().lower().replace("_", "-")
        if name not in known:
            known[name] = distribution(name)
            names += list_requirements(known[name])
    return {
        (Path(str(each.locate_file(""))) / file.parts[0])
        for each in known.values()
        for file in each.files or ()
        if file.parts[0] not in ("..", "__pycache__")
    }


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment with the wheel in it."""

    folder: Path

    @property
    def packages(self) -> Path:
        """Its site-packages."""
        return Path(sysconfig.get_path("purelib", "venv", {"base": str(self.folder), "platbase": str(self.folder)}))

    def run(self, *arguments: object, cwd: Path, program: str = "discreet") -> subprocess.CompletedProcess[str]:
        """Run its command, or its Python, without anything of the checkout on the path."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DISCREET", "VIRTUAL"))}
        return subprocess.run(
            [self.folder / "bin" / program, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=300,
            check=False, env=clean | {"NO_COLOR": "1", "DISCREET_STATE": str(cwd / ".state"), "COLUMNS": "100"},
        )  # fmt: skip


def make_environment(wheel: Path, folder: Path, *extras: str) -> Environment:
    """Install a wheel into a new virtual environment, with links to what it requires; nothing is downloaded."""
    venv.create(folder, symlinks=True)
    made = Environment(folder)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    options = ["--no-deps", "--no-index", "--disable-pip-version-check", str(wheel)]
    subprocess.run([*pip, *options], check=True, capture_output=True, timeout=300, cwd=folder)
    for path in list_files(list_requirements(read_metadata(made.packages), *extras)):
        (made.packages / path.name).symlink_to(path)
    return made


def link_alone(unpacked: Path, names: list[str], place: Path) -> Path:
    """Link the wheel and these distributions into a folder, and nothing else that this environment holds."""
    for top in {*list_files(names), *unpacked.iterdir()}:
        (place / top.name).symlink_to(top)
    return place


def unpack(wheel: Path, folder: Path) -> Path:
    """Unpack a wheel into a folder."""
    ZipFile(wheel).extractall(folder)
    return folder
