"""`discreet demo`: the whole idea on one screen."""

from typing import Any

from discreet import Gaussian, Laplace, gaussian_epsilon, pure
from discreet.cli.output import number, print_json
from discreet.cli.sample import REGIONS, people
from discreet.exact import ceil_float
from discreet.units import histogram

CONFIDENCE = 0.95


def run(epsilon: str, delta: str, *, as_json: bool) -> None:
    """Release, and show what was released: never the true counts."""
    price, fail, moved = number(epsilon, "epsilon"), number(delta, "delta"), histogram()
    laplace, gaussian = Laplace.for_epsilon(price, moved), Gaussian.for_epsilon(price, fail, moved)
    counts = people().histogram()
    columns: list[dict[str, Any]] = [
        {
            "noise": repr(laplace),
            "released": laplace.release(counts).tolist(),
            "half_width": laplace.error(CONFIDENCE, len(REGIONS)),
            "epsilon": ceil_float(pure(laplace.loss(moved))),
            "delta": 0.0,
        },
        {
            "noise": repr(gaussian),
            "released": gaussian.release(counts).tolist(),
            "half_width": gaussian.error(CONFIDENCE, len(REGIONS)),
            "epsilon": gaussian_epsilon(moved.l2 / gaussian.sigma, fail).upper,
            "delta": float(fail),
        },
    ]
    if as_json:
        print_json({"regions": REGIONS, "confidence": CONFIDENCE, "releases": columns})
    else:
        _print_table(columns)


def _print_table(columns: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="People per region (invented survey), released with differential privacy")
    table.add_column("region")
    for column in columns:
        table.add_column(column["noise"], justify="right")
    for i, region in enumerate(REGIONS):
        table.add_row(region, *(f"{column['released'][i]} ± {column['half_width']:.0f}" for column in columns))
    table.add_section()
    table.add_row("price", *(_price(column) for column in columns))
    console = Console()
    console.print(table)
    console.print(
        f"± holds for all {len(REGIONS)} regions at once with {CONFIDENCE:.0%} confidence. "
        "One person can change one count by one; the true counts are not shown."
    )


def _price(column: dict[str, Any]) -> str:
    return f"ε = {column['epsilon']:.6g}, δ = {column['delta']:g}"
