"""Draw the layers of discreet from its real imports.

    python tools/draw_layers.py            print the drawing
    python tools/draw_layers.py --write    write it between the markers `layers` of ARCHITECTURE.md

The order of the layers is that of the first contract of type "layers" in pyproject.toml, which import-linter checks. The
marks are the imports that grimp finds in the source: those inside functions too, and not those for type checking alone,
which the contract leaves out. `discreet/__init__.py`, which forwards every public name, is left out.
"""

import argparse
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grimp

from marked_block import ROOT, write_block

BLOCK = "layers"
IMPORTS, WRONG, SELF = "●", "✗", "■"


@dataclass(frozen=True, slots=True)
class Layer:
    """Modules or packages side by side; independent ones do not import each other."""

    modules: tuple[str, ...]
    independent: bool = True


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the drawing: a module or package and the layer that it stands in, 1 at the top."""

    module: str
    layer: int
    independent: bool


def read_layers(pyproject: Path) -> tuple[str, list[Layer]]:
    """Return the root package and the layers of the first layers contract, top to bottom."""
    settings = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["importlinter"]
    package = settings.get("root_package") or settings["root_packages"][0]
    contract = next(contract for contract in settings["contracts"] if contract["type"] == "layers")
    return package, [_parse_layer(layer, _prefix(contract)) for layer in contract["layers"]]


def _prefix(contract: dict[str, Any]) -> str:
    """A contract with a container names its layers relative to it."""
    containers = contract.get("containers", [])
    return f"{containers[0]}." if containers else ""


def _parse_layer(text: str, prefix: str = "") -> Layer:
    """Read one layer as import-linter writes it: "a | b" are independent, "a : b" are not, "(a)" may be missing."""
    names = text.replace("|", " ").replace(":", " ").replace("(", " ").replace(")", " ").split()
    return Layer(tuple(f"{prefix}{name}" for name in names), ":" not in text)


@dataclass(frozen=True, slots=True)
class Source:
    """The modules of a package and who imports whom, its own `__init__` left out."""

    modules: frozenset[str]
    imports: frozenset[tuple[str, str]]


def read_source(package: str) -> Source:
    """Find the modules and their imports."""
    graph = grimp.build_graph(package, cache_dir=None, exclude_type_checking_imports=True)
    modules = frozenset(graph.modules - {package})
    found = ((importer, graph.find_modules_directly_imported_by(importer)) for importer in modules)
    return Source(modules, frozenset((importer, each) for importer, all_of in found for each in all_of if each != package))


def assign(modules: Iterable[str], layers: Sequence[Layer]) -> dict[str, str | None]:
    """Map each module to the layered module that holds it, the longest if several do; None if no layer does."""
    layered = sorted((name for layer in layers for name in layer.modules), key=len, reverse=True)
    return {
        module: next((name for name in layered if module == name or module.startswith(f"{name}.")), None)
        for module in modules
    }


def draw(package: str, layers: Sequence[Layer], source: Source) -> str:
    """Draw one row per layered module: a mark in column k says that it imports the module of row k.

    >>> layers = [Layer(("p.a",)), Layer(("p.b", "p.c"))]
    >>> source = Source(frozenset({"p.a", "p.b", "p.c.d"}), frozenset({("p.a", "p.c.d"), ("p.c.d", "p.b")}))
    >>> print(draw("p", layers, source))
    layer       1  2  3
    1    1 a    ■  ·  ●
    2    2 b       ■  ·
         3 c       ✗  ■
    """
    home = assign(source.modules, layers)
    present = {name for name in home.values() if name is not None}
    rows = [
        Row(name, number, layer.independent)
        for number, layer in enumerate(_keep_present(layers, present), 1)
        for name in layer.modules
    ]
    edges = {(home[one], home[two]) for one, two in source.imports if home[one] != home[two]}
    width = max(len(_short(package, row.module)) for row in rows)
    lines = [f"{'layer':<8}{'':<{width}} " + "".join(f"{number:>3}" for number in range(1, len(rows) + 1))]
    for i, row in enumerate(rows):
        first = i == 0 or rows[i - 1].layer != row.layer
        marks = "".join(f"{_mark(row, other, edges):>3}" for other in rows).rstrip()
        lines.append(f"{row.layer if first else '':<4}{i + 1:>2} {_short(package, row.module):<{width}}  {marks}")
    return "\n".join(lines)


def _keep_present(layers: Iterable[Layer], present: set[str]) -> list[Layer]:
    kept = (Layer(tuple(name for name in layer.modules if name in present), layer.independent) for layer in layers)
    return [layer for layer in kept if layer.modules]


def _short(package: str, module: str) -> str:
    return module.removeprefix(f"{package}.")


def _mark(row: Row, other: Row, edges: set[tuple[str | None, str | None]]) -> str:
    """A downward import is right; one that points up, or to an independent neighbour, is wrong."""
    if row.module == other.module:
        return SELF
    downward = row.layer < other.layer or (row.layer == other.layer and not row.independent)
    if (row.module, other.module) in edges:
        return IMPORTS if downward else WRONG
    return "·" if row.layer <= other.layer else ""


def find_unlayered(root: Path = ROOT) -> set[str]:
    """Return the modules that no layer holds: nothing checks what they import."""
    package, layers = read_layers(root / "pyproject.toml")
    return {module for module, home in assign(read_source(package).modules, layers).items() if home is None}


def draw_layers(root: Path = ROOT) -> str:
    """Draw the layers of the working tree, as the block of ARCHITECTURE.md holds them."""
    package, layers = read_layers(root / "pyproject.toml")
    return f"```text\n{draw(package, layers, read_source(package))}\n```"


def main() -> None:
    """Print the drawing or write it."""
    options = argparse.ArgumentParser(description="Draw the layers of discreet from its real imports.")
    options.add_argument("--write", action="store_true", help="write the drawing into ARCHITECTURE.md")
    sys.path.insert(0, str(ROOT / "src"))
    if options.parse_args().write:
        write_block(BLOCK, draw_layers())
    else:
        print(draw_layers())


if __name__ == "__main__":
    main()
