"""`discreet lab`: the textbook, live."""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from discreet.cli.output import print_json, print_line, print_styled
from discreet.errors import BadParameter
from discreet.lab import ATTACKS, ERRATA, EXERCISES, FIGURES, Erratum, Exercise, Figure
from discreet.lab.attacks import run
from discreet.lab.figures.figure import save_png


def list_all(*, as_json: bool) -> None:
    """Every name, by kind."""
    kinds = {
        "figures": {name: figure.title for name, figure in FIGURES.items()},
        "errata": {name: f"[{erratum.source}] {erratum.title}" for name, erratum in ERRATA.items()},
        "exercises": {name: f"[{exercise.source}] {exercise.question}" for name, exercise in EXERCISES.items()},
        "attacks": {name: attack.summary for name, attack in ATTACKS.items()},
    }
    if as_json:
        print_json(kinds)
        return
    for kind, names in kinds.items():
        print_styled(kind, "bold")
        _print_columns(names)
    print_styled("discreet lab show NAME, or discreet lab attack NAME")


def show(name: str, path: str | None, *, as_json: bool) -> None:
    """One figure, erratum or exercise."""
    chosen = _find_entry(name)
    if isinstance(chosen, Figure):
        _show_figure(chosen, path, as_json=as_json)
        return
    if path is not None:
        raise BadParameter("--save", path, f"{name} is no figure", f"save one of {', '.join(FIGURES)}")
    if isinstance(chosen, Erratum):
        _show_erratum(chosen, as_json=as_json)
    else:
        _show_exercise(chosen, as_json=as_json)


def draw_all(folder: str, *, as_json: bool) -> None:
    """Every figure into a folder."""
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise BadParameter("--out", folder, problem.strerror or "no folder", "name a folder that can be made") from None
    for name, figure in FIGURES.items():
        save_png(figure, place / f"{name}.png")
        if not as_json:
            print_line(f"{place / name}.png")
    if as_json:
        print_json({"pictures": [str(place / f"{name}.png") for name in FIGURES]})


def attack(name: str, *, as_json: bool) -> None:
    """What the attacker learned."""
    played = run(name)
    if as_json:
        print_json({"attack": name, "title": played.title, "lines": played.lines, "numbers": played.numbers})
        return
    print_styled(played.title, "bold")
    _print_lines(played.lines)


def _find_entry(name: str) -> Figure | Erratum | Exercise:
    known: dict[str, Figure | Erratum | Exercise] = {**FIGURES, **ERRATA, **EXERCISES}
    if name in known:
        return known[name]
    if name in ATTACKS:
        raise BadParameter("name", repr(name), "that is an attack", f"play it: discreet lab attack {name}")
    near = get_close_matches(name, known, 1)
    raise BadParameter(
        "name", repr(name), "nothing of that name", f"did you mean {near[0]}?" if near else "see discreet lab list"
    )


def _show_figure(figure: Figure, path: str | None, *, as_json: bool) -> None:
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
    print_styled(f"picture written to {path}" if path else "draw it with --save, all its numbers with --json")


def _show_erratum(erratum: Erratum, *, as_json: bool) -> None:
    evidence = erratum.evidence()
    if as_json:
        parts = {"title": erratum.title, "source": erratum.source, "says": erratum.claim, "true": erratum.correction}
        print_json({"erratum": erratum.name, **parts, "how": erratum.proof, "evidence": evidence})
        return
    print_styled(f"Erratum {erratum.number} [{erratum.source}]: {erratum.title}", "bold")
    _print_lines([f"The text says: {erratum.claim}", f"True is: {erratum.correction}", f"How we know: {erratum.proof}"])
    _print_columns({name: f"{value:.6g}" for name, value in evidence.items()})


def _show_exercise(exercise: Exercise, *, as_json: bool) -> None:
    solution = exercise.solve()
    if as_json:
        parts = {"question": exercise.question, "work": solution.work, "answer": solution.answer}
        print_json({"exercise": exercise.name, "source": exercise.source, **parts, "numbers": solution.numbers})
        return
    print_styled(f"[{exercise.source}] {exercise.question}", "bold")
    _print_lines(solution.work)
    print_styled(f"Answer: {solution.answer}", "bold")


def _summarise(values: Any) -> str:
    """One number, or how many from which to which."""
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
