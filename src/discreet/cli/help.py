"""`discreet help`: the pages of the documentation, which are part of the package.

A topic is a page (`asking`), a section of one (`asking#quantiles`, or `quantiles` alone), a command, an option such as
`--bounds`, or a word of the glossary (`rho`, `partition selection`), whose row is shown first. Every error names the topic
that explains it.
"""

import re
import sys
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from discreet.cli.app import LEARNING, PAGES, app
from discreet.cli.options import Json
from discreet.cli.output import print_data, print_json, print_line, print_styled
from discreet.errors import PARAMETER_PAGES, BadParameter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from discreet.cli.pages import Word

COMMANDS = {
    "account": "docs/ledger.md#accounts",  # the word; the command of this name is the former one
    "ask": "docs/asking.md",
    "calibrate": "docs/accounting.md#calibrate-noise-to-a-target",
    "demo": "docs/index.md",
    "quote": "docs/asking.md#state-the-error-get-the-cost",
}
"""The pages about the commands that `PAGES` does not name."""

GLOSSARY = "glossary"
"""The page of words. In the repository it is GLOSSARY.md."""

_HEADING = re.compile(r"(#+) +(.*?)\s*$")
_LINK = re.compile(r"\[([^\]]*)\]\(([^)]*)\)(?:: ([^;\[]*))?")


def complete_topics(incomplete: str) -> list[str]:
    """Complete the pages of the documentation, or the sections of one after a #."""
    names = list_sections(incomplete.partition("#")[0]) if "#" in incomplete else list_pages()
    return [name for name in names if name.startswith(incomplete)]


@app.command(
    "help",
    rich_help_panel=LEARNING,
    epilog="Examples:\n\n[bold]discreet help[/bold]\n\n[bold]discreet help asking[/bold]\n\n"
    "[bold]discreet help quarantine[/bold]\n\n[bold]discreet help partition selection[/bold]\n\n"
    "[bold]discreet help --json -- --bounds[/bold]",
    context_settings={"ignore_unknown_options": True},
)
def help_(
    topic: Annotated[
        list[str] | None,
        typer.Argument(
            help="A page, a section, a command, an option or a word; all pages, unless given.",
            autocompletion=complete_topics,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show the page about a topic, or list all pages by role. No network is used."""
    if not topic:
        _list_topics(as_json=json)
        return
    typed = " ".join(topic)
    name, text = find_topic(typed), show_topic(typed)
    if json:
        print_json({"topic": name, "text": text})
    elif sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
        if "#" in name and not name.startswith("glossary#"):
            print_styled(f"The whole page: discreet help {name.partition('#')[0]}")
    else:
        print_data(text)


def to_topic(see: str) -> str:
    """The topic of the page that an error names.

    >>> to_topic("docs/ledger.md#quarantine")
    'ledger#quarantine'
    """
    return see.removeprefix("docs/").replace(".md", "")


def find_folder() -> Path:
    """The folder of the pages: in the package, or in the repository that the package is run from."""
    packaged = Path(__file__).parents[1] / "docs"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "docs"


def _read_page(page: str) -> str:
    from discreet.cli.pages import to_plain_formulas

    folder = find_folder()
    path = folder / f"{page}.md"
    if page == GLOSSARY and not path.exists():
        path = folder.parent / "GLOSSARY.md"
    return to_plain_formulas(path.read_text(encoding="utf-8"))


@cache
def list_words() -> dict[str, "Word"]:
    """The rows of the glossary, by every spelling of their names."""
    from discreet.cli.pages import list_spellings, read_words

    return {spelling: word for word in reversed(read_words(_read_page(GLOSSARY))) for spelling in list_spellings(word)}


@cache
def list_pages() -> tuple[str, ...]:
    """The topics that are whole pages."""
    folder = find_folder()
    pages = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.md")} | {GLOSSARY}
    return tuple(sorted(pages, key=lambda page: page.rpartition("/")))


def list_sections(page: str) -> list[str]:
    """The sections of a page, as page#section; none of a page that does not exist."""
    if page not in list_pages():
        return []
    text = _read_page(page)
    return [f"{page}#{anchor}" for depth, anchor, _ in _read_lines(text) if depth > 1]


QUERY_TOPIC = "asking#what-a-query-may-be"
SQL_WORDS = (
    "select", "from", "where", "group by", "having", "order by", "limit", "join", "not", "in", "between", "like",
    "is null", "case", "distinct", "sql",
)  # fmt: skip
"""Words of SQL, which the section about queries explains."""


def find_topic(text: str) -> str:
    """The page or section, as page or page#section, that a text means.

    >>> find_topic("LIKE"), find_topic("max rows"), find_topic("guide/1")
    ('asking#what-a-query-may-be', 'asking#what-is-declared-and-why', 'guide/1-definition')
    >>> find_topic("Asking"), find_topic("quarantine"), find_topic("--max-rows")
    ('asking', 'ledger#quarantine', 'asking#what-is-declared-and-why')
    """
    wanted = text.strip().removeprefix("docs/").replace(".md", "").lower()
    known, option = _list_topics_by_name(), _to_option_name(wanted)
    found = known.get(wanted) or known.get(option)
    if found is None and wanted in SQL_WORDS:
        return QUERY_TOPIC
    if found is not None:
        return found
    from discreet.cli.pages import find_word, list_spellings

    if wanted.startswith("--") and option in list_options():
        return list_options()[option].topic
    if (word := find_word(text, list_words())) is not None:
        name = next(each for each in list_spellings(word) if list_words()[each] is word)
        return f"{GLOSSARY}#{name.replace(' ', '-')}"
    group, _, rest = wanted.partition(" ")
    if rest and wanted in list_commands():
        return known[group]
    if option in list_options():
        return list_options()[option].topic
    from difflib import get_close_matches

    names = dict.fromkeys([*known, *list_words(), *(name.replace("_", "-") for name in list_options())])
    near = get_close_matches(wanted.removeprefix("--"), names, 3)
    hint = f"did you mean {' or '.join(near)}?" if near else "list all topics with: discreet help"
    raise BadParameter("topic", repr(text), "no such page, section, command, option or word", hint)


def list_commands() -> list[str]:
    """Every command, those of a group with its name before theirs."""
    from typer.main import get_command

    def walk(command: Any, path: str) -> "Iterator[str]":
        for name, each in getattr(command, "commands", {}).items():
            yield f"{path}{name}"
            yield from walk(each, f"{path}{name} ")

    return list(walk(get_command(app), ""))


class Option(NamedTuple):
    """An option of one or more commands: what each says about it, and the topic that explains the first of them."""

    topic: str
    help: dict[str, list[str]]  # the commands by their text

    def format(self, name: str) -> str:
        """Write what the commands say, a paragraph for each text."""
        flag = f"`--{name.replace('_', '-')}`"
        return "".join(f"{flag} of {', '.join(commands)}: {text}\n\n" for text, commands in self.help.items())


def _to_option_name(text: str) -> str:
    return text.removeprefix("--").replace("-", "_").replace(" ", "_")


@cache
def list_options() -> dict[str, Option]:
    """Every option of every command, by its name without the dashes, as the commands themselves define them."""
    from typer.main import get_command

    pages, options = PAGES | COMMANDS, dict[str, Option]()

    def walk(command: Any, path: str) -> None:
        for name, below in getattr(command, "commands", {}).items():
            if not below.hidden:
                walk(below, f"{path} {name}".strip())
        for each in command.params:
            for flag in [*each.opts, *each.secondary_opts]:
                if flag.startswith("--"):
                    page = pages.get(path) or pages.get(path.partition(" ")[0], pages["help"])
                    option = options.setdefault(_to_option_name(flag), Option(to_topic(page), {}))
                    option.help.setdefault(each.help or "", []).append(f"discreet {path}".strip())

    walk(get_command(app), "")
    return options


def show_topic(text: str) -> str:
    """What `discreet help` shows: the row of the glossary, if the text is a word of it, or what commands say of an
    option; and the page or section."""
    from discreet.cli.pages import find_word

    topic = find_topic(text)
    is_option, option = text.startswith("--"), _to_option_name(text.strip().lower())
    word = None if is_option or "#" in text else find_word(text, list_words())
    if option in list_options() and (is_option or (word is None and option not in _list_topics_by_name())):
        return f"{list_options()[option].format(option)}{read_topic(topic)}"
    if word is None or topic.startswith(f"{GLOSSARY}#"):
        return read_topic(topic)
    return f"{word.text}\n{read_topic(topic)}"


def read_topic(topic: str) -> str:
    """The text of a page, of one section with what is below it, or of a word with the section about it."""
    page, _, section = topic.partition("#")
    text = _read_page(page)
    if not section:
        return text
    if page == GLOSSARY and topic not in list_sections(GLOSSARY):
        return _read_word(list_words()[section.replace("-", " ")])
    lines, level = [], 0
    for depth, anchor, line in _read_lines(text):
        if depth and level and depth <= level:
            break
        if anchor == section:
            level = depth
        if level:
            lines.append(line)
    return "\n".join(lines).rstrip() + "\n"


def _read_word(word: "Word") -> str:
    """A row of the glossary, and the section that explains it. A whole page is only named: it is long."""
    section = f"\n{read_topic(word.page)}" if "#" in word.page else ""
    return f"{word.text}{section}\nMore: discreet help {word.page.partition('#')[0]}\n"


def _read_lines(text: str) -> "Iterator[tuple[int, str, str]]":
    """Every line, with its level and anchor if it is a heading; a # in a block of code is none."""
    is_code = False
    for line in text.splitlines():
        is_code ^= line.lstrip().startswith("```")
        found = None if is_code else _HEADING.match(line)
        yield (len(found[1]), to_anchor(found[2]), line) if found else (0, "", line)


def to_anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub and mkdocs make it.

    >>> to_anchor("Reserve, run, record")
    'reserve-run-record'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


@cache
def _list_topics_by_name() -> dict[str, str]:
    """Every name of a topic. A page comes before a command, a command before an option, an option before a section."""
    names: dict[str, str] = {}
    sections: dict[str, str] = {}
    for page in list_pages():
        for section in list_sections(page):
            sections[section] = section
            sections.setdefault(section.partition("#")[2], section)
    for table in (PAGES | COMMANDS, PARAMETER_PAGES):
        for name, page in table.items():
            names.setdefault(name, to_topic(page))
    stems = {page.rpartition("/")[2]: page for page in reversed(list_pages()) if "/" in page and "index" not in page}
    numbers = {page.partition("-")[0]: page for page in stems.values() if page.partition("-")[0][-1:].isdigit()}
    titles = {stem.partition("-")[2]: page for stem, page in stems.items() if stem[:1].isdigit()}
    return titles | sections | names | stems | numbers | {page: page for page in list_pages()}


def list_roles() -> dict[str, dict[str, str]]:
    """The topics for each role with what they are about, as the table of the start page has them."""
    roles: dict[str, dict[str, str]] = {}
    for line in read_topic("index#where-to-go-next").splitlines():
        role, *cells = line.strip("|").split("|")
        links = {to_topic(link): words.strip() or name for cell in cells for name, link, words in _LINK.findall(cell)}
        if links and "**" in role:
            roles[role.replace("**", "").strip()] = links
    return roles


def _list_topics(*, as_json: bool) -> None:
    roles = list_roles()
    if as_json:
        print_json({"roles": {role: list(topics) for role, topics in roles.items()}, "topics": list(list_pages())})
        return
    width = max(len(topic) for topics in roles.values() for topic in topics)
    for role, topics in roles.items():
        print_styled(role, "bold")
        for topic, words in topics.items():
            print_line(f"  {topic:{width}}  {words}".rstrip())
    shown = {topic.partition("#")[0] for topics in roles.values() for topic in topics}
    print_styled("more pages", "bold")
    for _, pages in groupby(list_pages(), lambda page: page.rpartition("/")[0]):
        print_line(f"  {', '.join(page for page in pages if page not in shown)}")
    print_styled(
        "Show one with discreet help TOPIC: a page, section (quarantine), command (ask), option (bounds) or word (rho)."
    )
