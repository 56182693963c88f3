"""`discreet lab`: figures, errata, exercises and attacks of the textbook, computed live."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.app import LEARNING, App, app
from discreet.cli.options import Json
from discreet.cli.output import print_json, print_line, print_styled
from discreet.errors import BadParameter

if TYPE_CHECKING:
    from discreet.lab import Erratum, Exercise, Figure

lab = App(no_args_is_help=True, help="See the textbook live: figures, errata, exercises and attacks.")
app.add_typer(lab, name="lab", rich_help_panel=LEARNING)


@lab.command("list", epilog="Example: [bold]discreet lab list[/bold]")
def lab_list(json: Json = False) -> None:
    """List every figure, erratum, exercise and attack by name."""
    from discreet.lab import ATTACKS, ERRATA, EXERCISES, FIGURES

    kinds = {
        "figures": {name: figure.title for name, figure in FIGURES.items()},
        "errata": {name: f"[{erratum.source}] {erratum.title}" for name, erratum in ERRATA.items()},
        "exercises": {name: f"[{exercise.source}] {exercise.question}" for name, exercise in EXERCISES.items()},
        "attacks": {name: attack.summary for name, attack in ATTACKS.items()},
    }
    if json:
        print_json(kinds)
        return
    for kind, names in kinds.items():
        print_styled(kind, "bold")
        _print_columns(names)
    print_styled("discreet lab show NAME, or discreet lab attack NAME")


@lab.command(
    "show",
    epilog="Examples:\n\n[bold]discreet lab show composition-10000 --save composition.png[/bold]\n\n"
    "[bold]discreet lab show erratum-1[/bold]\n\n[bold]discreet lab show counties --json[/bold]",
)
def lab_show(
    name: Annotated[str, typer.Argument(help="A figure, an erratum or an exercise, as `lab list` names it.")],
    save: Annotated[str | None, typer.Option(help="Draw a figure into this PNG file.")] = None,
    json: Json = False,
) -> None:
    """Show the numbers of a figure, an erratum with its evidence, or an exercise with its answer."""
    from discreet.lab import FIGURES, Erratum, Figure

    entry = _find_entry(name)
    if isinstance(entry, Figure):
        _show_figure(entry, save, as_json=json)
        return
    if save is not None:
        raise BadParameter("--save", save, f"{name} is no figure", f"save one of {', '.join(FIGURES)}")
    if isinstance(entry, Erratum):
        _show_erratum(entry, as_json=json)
    else:
        _show_exercise(entry, as_json=json)


@lab.command("all", epilog="Example: [bold]discreet lab all --out pictures[/bold]")
def lab_all(
    out: Annotated[str, typer.Option(help="The folder for the pictures; created if it does not exist.")],
    json: Json = False,
) -> None:
    """Draw every figure into a PNG file each; the files are the same bit for bit every time."""
    from discreet.lab import FIGURES
    from discreet.lab.figures.figure import save_png

    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise BadParameter("--out", out, problem.strerror or "no folder", "name a folder that can be made") from None
    for name, figure in FIGURES.items():
        save_png(figure, folder / f"{name}.png")
        if not json:
            print_line(f"{folder / name}.png")
    if json:
        print_json({"pictures": [str(folder / f"{name}.png") for name in FIGURES]})


@lab.command("attack", epilog="Example: [bold]discreet lab attack averaging[/bold]")
def lab_attack(
    name: Annotated[str, typer.Argument(help="An attack, as `lab list` names it.")],
    json: Json = False,
) -> None:
    """Run an attack without discreet and with it, and show what the attacker learned."""
    from discreet.lab.attacks import run

    result = run(name)
    if json:
        print_json({"attack": name, "title": result.title, "lines": result.lines, "numbers": result.numbers})
        return
    print_styled(result.title, "bold")
    _print_lines(result.lines)


def _find_entry(name: str) -> "Figure | Erratum | Exercise":
    from difflib import get_close_matches

    from discreet.lab import ATTACKS, ERRATA, EXERCISES, FIGURES

    known: dict[str, Figure | Erratum | Exercise] = {**FIGURES, **ERRATA, **EXERCISES}
    if name in known:
        return known[name]
    if name in ATTACKS:
        raise BadParameter("name", repr(name), "this is an attack", f"run it: discreet lab attack {name}")
    near = get_close_matches(name, known, 1)
    raise BadParameter(
        "name",
        repr(name),
        "unknown name",
        f"did you mean {near[0]}?" if near else "see discreet lab list",
    )


def _show_figure(figure: "Figure", path: str | None, *, as_json: bool) -> None:
    from discreet.lab.figures.figure import save_png

    numbers = figure.numbers()
    if path is not None:
        save_png(figure, path, numbers)
    if as_json:
        plain = {name: values.tolist() for name, values in numbers.items()}
        print_json({"figure": figure.name, "title": figure.title, "caption": figure.caption, "numbers": plain})
        return
    print_styled(figure.title, "bold")
    _print_lines(figure.caption.split("\n"))
    _print_columns({name: _summarise(values) for name, values in numbers.items()})
    print_styled(f"Picture written to {path}." if path else "Draw it with --save; print all its numbers with --json.")


def _show_erratum(erratum: "Erratum", *, as_json: bool) -> None:
    evidence = erratum.evidence()
    if as_json:
        parts = {"title": erratum.title, "source": erratum.source, "says": erratum.claim, "true": erratum.correction}
        print_json({"erratum": erratum.name, **parts, "how": erratum.proof, "evidence": evidence})
        return
    print_styled(f"Erratum {erratum.number} [{erratum.source}]: {erratum.title}", "bold")
    _print_lines([f"The text says: {erratum.claim}", f"True is: {erratum.correction}", f"How we know: {erratum.proof}"])
    _print_columns({name: f"{value:.6g}" for name, value in evidence.items()})


def _show_exercise(exercise: "Exercise", *, as_json: bool) -> None:
    solution = exercise.solve()
    if as_json:
        parts = {"question": exercise.question, "work": solution.work, "answer": solution.answer}
        print_json({"exercise": exercise.name, "source": exercise.source, **parts, "numbers": solution.numbers})
        return
    print_styled(f"[{exercise.source}] {exercise.question}", "bold")
    _print_lines(solution.work)
    print_styled(f"Answer: {solution.answer}", "bold")


def _summarise(values: Any) -> str:
    """The number itself, or how many there are, from the first to the last."""
    if values.ndim == 0:
        return f"{values.item():.6g}"
    if values.dtype.kind not in "fiu":
        return f"{len(values)} rows"
    return f"{values.size} from {values.flat[0]:.6g} to {values.flat[-1]:.6g}"


def _print_lines(lines: Iterable[str]) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    for line in lines:
        Console().print(Padding(Text(line), (0, 0, 0, 2)))


def _print_columns(rows: dict[str, str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for name, words in rows.items():
        grid.add_row(Text(f"  {name}"), Text(words))
    Console().print(grid)
