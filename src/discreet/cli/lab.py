"""`discreet lab`: figures, errata, exercises and attacks of the textbook, computed live.

Figures, exercises and attacks have parameters of their own, which are given as flags: `--epsilon 0.1 --k 10`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
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


def complete_pieces(*kinds: str) -> Callable[[str], list[str]]:
    """Complete the names of the textbook's pieces, such as FIGURES, without computing any."""

    def complete(incomplete: str) -> list[str]:
        from discreet import lab

        return [name for kind in kinds for name in getattr(lab, kind) if name.startswith(incomplete)]

    return complete


WITH_PARAMETERS = {"allow_extra_args": True, "ignore_unknown_options": True}


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
    print_styled("discreet lab show NAME, discreet lab exercise NAME, or discreet lab attack NAME")


@lab.command(
    "show",
    context_settings=WITH_PARAMETERS,
    epilog="Examples:\n\n[bold]discreet lab show noise-l1 --epsilon 0.1 --k 10[/bold]\n\n"
    "[bold]discreet lab show composition-10000 --save composition.png[/bold]\n\n"
    "[bold]discreet lab show erratum-1[/bold]",
)
def lab_show(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            help="A figure or an erratum, as `lab list` names it.", autocompletion=complete_pieces("FIGURES", "ERRATA")
        ),
    ],
    save: Annotated[str | None, typer.Option(help="Draw a figure into this PNG file.")] = None,
    json: Json = False,
) -> None:
    """Draw a figure in the terminal or into a file, or show an erratum with its evidence.

    Parameters of the figure are flags, such as --epsilon 0.1 --k 10; the output names them.
    """
    from discreet.lab import ATTACKS, ERRATA, EXERCISES, FIGURES

    chosen, options = _split_words([name, *context.args], {**FIGURES, **ERRATA, **EXERCISES, **ATTACKS})
    if chosen in FIGURES:
        figure = FIGURES[chosen]
        given = _parse_flags(options, figure.options)
        with _flags_in_errors(figure.options):
            _show_figure(figure.with_options(**given), save, as_json=json)
        return
    if chosen in EXERCISES:
        raise BadParameter("name", repr(chosen), "this is an exercise", f"try it: discreet lab exercise {chosen}")
    if chosen in ATTACKS:
        raise BadParameter("name", repr(chosen), "this is an attack", f"run it: discreet lab attack {chosen}")
    if save is not None:
        raise BadParameter("--save", save, f"{chosen} is no figure", f"save one of {', '.join(FIGURES)}")
    if options:
        raise BadParameter(f"--{next(iter(options))}", "given", "an erratum has no parameters", "leave it out")
    _show_erratum(ERRATA[chosen], as_json=json)


@lab.command(
    "exercise",
    context_settings=WITH_PARAMETERS,
    epilog="Examples:\n\n[bold]discreet lab exercise counties --d 58[/bold]\n\n"
    "[bold]discreet lab exercise counties --check 181.06[/bold]\n\n"
    "[bold]discreet lab exercise counties --solution[/bold]\n\n[bold]discreet lab exercise --list[/bold]",
)
def lab_exercise(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(help="An exercise, as `lab exercise --list` names it.", autocompletion=complete_pieces("EXERCISES")),
    ] = "",
    check: Annotated[str | None, typer.Option(help="Your answer: numbers, separated by commas.")] = None,
    hint: Annotated[bool, typer.Option("--hint", help="Show a hint.")] = False,
    solution: Annotated[bool, typer.Option("--solution", help="Show the worked solution or proof.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List all exercises: the set for a class.")] = False,
    json: Json = False,
) -> None:
    """Show an exercise; check an answer; show a hint or the worked solution. The exit code of a wrong answer is 1.

    Parameters of the exercise are flags, such as --d 58; the output names them.
    """
    from discreet.lab import EXERCISES

    if list_all:
        _list_exercises(solution=solution, as_json=json)
        return
    if not name and not context.args:
        raise BadParameter("name", "missing", "no exercise is named", "see discreet lab exercise --list")
    chosen, options = _split_words([name, *context.args], EXERCISES)
    exercise = EXERCISES[chosen]
    given = _parse_flags(options, exercise.options)
    with _flags_in_errors(exercise.options):
        exercise = exercise.with_options(**given)
        if check is not None:
            _check_exercise(exercise, check, as_json=json)
        elif json:
            print_json(_describe_exercise(exercise, solution=solution))
        else:
            _show_exercise(exercise, hint=hint, solution=solution)


def _show_exercise(exercise: "Exercise", *, hint: bool, solution: bool) -> None:
    print_styled(f"[{exercise.source}] {exercise.question}", "bold")
    _print_parameters(exercise.options)
    if hint:
        _print_lines([f"Hint: {exercise.hint}"])
    if solution:
        solved = exercise.solve()
        _print_lines(solved.work)
        print_styled(f"Answer: {solved.answer}", "bold")
    else:
        print_styled(f"Check {exercise.asks} with --check; see --hint and --solution.")


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


@lab.command(
    "attack",
    context_settings=WITH_PARAMETERS,
    epilog="Examples:\n\n[bold]discreet lab attack averaging[/bold]\n\n"
    "[bold]discreet lab attack averaging --answers 50[/bold]",
)
def lab_attack(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(help="An attack, as `lab list` names it.", autocompletion=complete_pieces("ATTACKS"))
    ],
    json: Json = False,
) -> None:
    """Run an attack without discreet and with it, and show what the attacker learned.

    Parameters of the attack are flags, such as --answers 50.
    """
    from discreet.lab import ATTACKS

    chosen, options = _split_words([name, *context.args], ATTACKS)
    attack = ATTACKS[chosen]
    given = _parse_flags(options, attack.options)
    with _flags_in_errors(attack.options):
        result = attack.run(**given)
    if json:
        print_json({"attack": chosen, "title": result.title, "lines": result.lines, "numbers": result.numbers})
        return
    print_styled(result.title, "bold")
    _print_lines(result.lines)
    _print_parameters(attack.options | given)


# -- names and parameters ---------------------------------------------------------------------------------------------------


def _split_words(words: list[str], known: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the one name among the words, and the flags with their values as text."""
    from discreet.lab.parameters import split_flags

    names, flags = split_flags(words)
    if len(names) != 1:
        given = " ".join(names) or "missing"
        raise BadParameter("name", given, "one name is wanted", "write the name, then flags with their values")
    if names[0] not in known:
        raise _unknown_name(names[0], known)
    return names[0], flags


def _unknown_name(name: str, known: Iterable[str]) -> BadParameter:
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), 1)
    return BadParameter("name", repr(name), "unknown name", f"did you mean {near[0]}?" if near else "see discreet lab list")


def _parse_flags(flags: dict[str, str], options: dict[str, Any]) -> dict[str, Any]:
    from discreet.lab.parameters import parse_number

    for name in flags:
        if name not in options:
            flag = f"--{name.replace('_', '-')}"
            raise BadParameter(flag, flags[name], "no such flag here", f"the flags are {_format_flags(options) or 'none'}")
    return {name: parse_number(f"--{name.replace('_', '-')}", text, options[name]) for name, text in flags.items()}


@contextmanager
def _flags_in_errors(options: Mapping[str, Any]) -> Iterator[None]:
    """Name the flag in an error about a parameter."""
    try:
        yield
    except BadParameter as mistake:
        if mistake.name not in options:
            raise
        flag = f"--{mistake.name.replace('_', '-')}"
        raise BadParameter(flag, mistake.value, mistake.reason, mistake.hint) from None


def _format_flags(options: Mapping[str, Any]) -> str:
    from discreet.lab.parameters import format_options

    return " ".join(f"--{name.replace('_', '-')} {text}".replace(",", "") for name, text in format_options(options).items())


def _print_parameters(options: Mapping[str, Any]) -> None:
    if options:
        print_styled(f"Parameters: {_format_flags(options)}")


# -- what is shown ----------------------------------------------------------------------------------------------------------


def _show_figure(figure: "Figure", path: str | None, *, as_json: bool) -> None:
    from discreet.lab.figures.figure import draw_text, save_png

    numbers = figure.numbers()
    if path is not None:
        save_png(figure, path, numbers)
    if as_json:
        plain = {name: values.tolist() for name, values in numbers.items()}
        options = {name: float(value) for name, value in figure.options.items()}
        words = {"figure": figure.name, "title": figure.title, "caption": figure.caption}
        print_json({**words, "parameters": options, "numbers": plain})
        return
    print_styled(figure.title, "bold")
    if path is None:
        for line in draw_text(numbers):
            print_line(line)
    _print_lines(figure.caption.split("\n"))
    _print_parameters(figure.options)
    print_styled(f"Picture written to {Path(path).resolve()}." if path else "Draw a picture with --save FILE.png.")


def _list_exercises(*, solution: bool, as_json: bool) -> None:
    from discreet.lab import EXERCISES

    if as_json:
        print_json({"exercises": [_describe_exercise(exercise, solution=solution) for exercise in EXERCISES.values()]})
        return
    for exercise in EXERCISES.values():
        print_styled(f"{exercise.name} [{exercise.source}]", "bold")
        _print_lines([exercise.question])
    print_styled("discreet lab exercise NAME shows one; --json prints the set for a class, with --solution its solutions.")


def _describe_exercise(exercise: "Exercise", *, solution: bool) -> dict[str, Any]:
    described: dict[str, Any] = {
        "exercise": exercise.name,
        "source": exercise.source,
        "question": exercise.question,
        "asks": exercise.asks,
        "hint": exercise.hint,
        "parameters": {name: float(value) for name, value in exercise.options.items()},
    }
    if solution:
        solved = exercise.solve()
        described |= {"work": solved.work, "answer": solved.answer, "results": solved.results, "numbers": solved.numbers}
    return described


def _check_exercise(exercise: "Exercise", text: str, *, as_json: bool) -> None:
    from discreet._numbers import parse_rational

    answers = [float(parse_rational(part.strip(), "--check")) for part in text.split(",")]
    feedback = exercise.check(*answers)
    if as_json:
        print_json({"exercise": exercise.name, "right": feedback.right, "feedback": feedback.message})
    else:
        print_styled(feedback.message, "bold")
    if not feedback.right:
        raise typer.Exit(1)


def _show_erratum(erratum: "Erratum", *, as_json: bool) -> None:
    evidence = erratum.evidence()
    if as_json:
        parts = {"title": erratum.title, "source": erratum.source, "says": erratum.claim, "true": erratum.correction}
        print_json({"erratum": erratum.name, **parts, "how": erratum.proof, "evidence": evidence})
        return
    print_styled(f"Erratum {erratum.number} [{erratum.source}]: {erratum.title}", "bold")
    _print_lines([f"The text says: {erratum.claim}", f"True is: {erratum.correction}", f"How we know: {erratum.proof}"])
    _print_columns({name: f"{value:.6g}" for name, value in evidence.items()})


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
