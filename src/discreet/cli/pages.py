"""How `discreet help` reads the pages of the documentation: the words of the glossary, and formulas as plain text.

It is apart from `help` because no other command needs it: its tables and patterns would slow down every start.

**Words** have a meaning and the page that explains it. The glossary is a page of tables: a row has the names of one idea,
its meaning, and the modules about it. A line below each heading names the page that explains most of the words;
`PAGES_OF_WORDS` has the others.

**Formulas**: the site draws LaTeX, a terminal cannot. Only the LaTeX that the pages use is known; a test shows every page
and finds what is left.
"""

import re
from dataclasses import dataclass

PAGES_OF_WORDS = {
    "ε": "choosing-epsilon",
    "δ": "choosing-epsilon",
    "privacy unit": "asking#which-unit",
    "neighbouring relation": "guarantees",
    "sensitivity": "mechanisms#sensitivity",
    "parallel composition": "guide/6-composition",
    "composition": "guide/6-composition",
    "differential privacy": "guide/1-definition",
    "pure DP": "which-currency#what-each-promises",
    "zCDP": "which-currency#what-each-promises",
    "RDP": "which-currency#what-each-promises",
    "GDP": "which-currency#what-each-promises",
    "currency": "which-currency",
    "post-processing": "asking#post-processing",
    "view": "asking#order-top-k-and-having",
    "simultaneous intervals": "asking#what-an-interval-means",
    "trade-off curve": "attacks",
    "partition selection": "asking#what-is-declared-and-why",
    "contribution bounds": "asking#what-is-declared-and-why",
    "bounds": "asking#what-is-declared-and-why",
    "bounds discovery": "asking#bounds-that-are-not-known",
    "public table": "asking#joining-a-public-table",
    "policy": "asking#the-policy-file",
    "salt": "asking#the-policy-file",
    "schema": "asking#the-policy-file",
    "query": "asking#what-a-query-may-be",
    "quantile tree": "asking#quantiles",
    "quote": "asking#state-the-error-get-the-cost",
    "accuracy target": "asking#state-the-error-get-the-cost",
    "column accuracy": "asking#state-the-error-get-the-cost",
    "pilot": "asking#state-the-error-get-the-cost",
    "weight": "publishing#how-the-noise-is-found",
    "engine": "scale",
    "quarantine": "ledger#quarantine",
    "label": "ledger#upgrades-key-rotation-and-labels",
    "cost": "asking#the-cost-in-every-currency",
    "budget": "ledger#accounts",
    "account": "ledger#accounts",
    "filter": "guarantees#when-the-analyst-adapts",
    "least ε": "asking#the-least-ε-of-a-query",
    "reserve": "ledger#reserve-run-record",
    "cached answer": "asking#asking-again",
    "id": "asking#asking-again",
    "fresh": "asking#asking-again",
    "chain": "ledger#what-a-check-finds",
    "head": "ledger#what-a-check-finds",
    "certificate": "ledger#certificates",
    "answer": "asking#what-is-shown",
    "interval": "asking#what-an-interval-means",
    "reliable": "asking#what-an-interval-means",
    "simultaneous": "asking#what-an-interval-means",
    "non-negative": "asking#post-processing",
    "forecast": "publishing#the-forecast",
    "dry run": "publishing#the-dry-run",
    "guarantee page": "publishing#what-is-written",
    "planner": "planning",
    "erratum": "lab",
    "local privacy": "local",
    "frequency oracle": "local#the-oracles",
    "support": "local#the-oracles",
    "collection": "local#a-collection-from-end-to-end",
    "report": "local#a-collection-from-end-to-end",
    "conformance vectors": "local#a-collection-from-end-to-end",
    "hostile report": "local#hostile-clients",
    "heavy hitter": "local#error-bars",
    "shuffling": "shuffling",
    "privacy blanket": "shuffling#the-ε-of-a-crowd",
    "memoised": "shuffling#memoised-reports",
}
"""The page about a row, by its first name, where it is not the page of its table."""

LETTERS = {
    "ε": "epsilon", "ϵ": "epsilon", "δ": "delta", "ρ": "rho", "μ": "mu", "µ": "mu", "α": "alpha", "ω": "omega", "σ": "sigma",
}  # fmt: skip
FORMS = {
    "eps": "epsilon", "clipped": "clipping", "clip": "clipping", "clamping": "clipping", "clipped statistic": "clipping",
    "group": "group key", "key": "group key", "not reliable": "reliable", "unreliable": "reliable", "accuracy": "half width",
    "person": "privacy unit", "privacy budget": "budget", "charged": "debit", "charge": "debit", "concentrated dp": "zcdp",
    "zero concentrated dp": "zcdp", "gaussian dp": "gdp", "renyi dp": "rdp", "rényi dp": "rdp", "private selection":
    "exponential mechanism", "add/remove": "neighbours", "replace": "neighbours", "contribution": "contribution bounds",
}  # fmt: skip
"""Other forms in which answers, errors and the literature write a word."""

_TABLE_PAGE = re.compile(r"Explained in \[[^\]]*\]\(docs/([^)]*)\.md((?:#[^)]*)?)\)")
_ROW = re.compile(r"\| (?P<title>.+?) \| (?P<means>.+?) \| .*\|$")
_NAME_BREAK = re.compile(r",\s+(?![^(]*\))| · ")


@dataclass(frozen=True, slots=True)
class Word:
    """One row of the glossary: the names of an idea, or of several that belong together."""

    title: str
    means: str
    page: str

    @property
    def names(self) -> list[str]:
        """Each name on its own."""
        return _NAME_BREAK.split(self.title)

    @property
    def text(self) -> str:
        """The row as a paragraph."""
        return f"**{self.title}**: {self.means}\n"


def read_words(glossary: str) -> list[Word]:
    """Read the rows of the glossary.

    >>> read_words("Explained in [The ledger](docs/ledger.md).\\n| spent · remaining | The sum · the rest. | x | |")
    [Word(title='spent · remaining', means='The sum · the rest.', page='ledger')]
    """
    page, words = "glossary", []
    for line in glossary.splitlines():
        if found := _TABLE_PAGE.match(line):
            page = found[1] + found[2]
        elif (row := _ROW.match(line)) and row["title"] != "word":
            first = _NAME_BREAK.split(row["title"])[0].partition(" (")[0]
            words.append(Word(row["title"], row["means"], PAGES_OF_WORDS.get(first, page)))
    return words


def list_spellings(word: Word) -> list[str]:
    """The ways to type a word, as `normalise` writes them: with and without what is in brackets. Names of code are none.

    >>> list_spellings(Word("zCDP, ρ", "", "")), list_spellings(Word("differential privacy (DP)", "", ""))
    (['zcdp', 'rho'], ['differential privacy (dp)', 'differential privacy', 'dp'])
    """
    spellings = []
    for name in (each for each in word.names if "`" not in each):
        spellings.append(normalise(name))
        if bracketed := re.fullmatch(r"(.+) \((.+)\)", name):
            spellings += [normalise(part) for part in bracketed.groups() if part not in ("verb", "noun")]
        if symbol := re.fullmatch(r"\w+ ([α-ω])", name):
            spellings.append(normalise(symbol[1]))
    return spellings


def normalise(text: str) -> str:
    """A word in one spelling, whatever case, hyphens and Greek letters it is typed with.

    >>> normalise("Half-Width"), normalise("ρ"), normalise("least_ε")
    ('half width', 'rho', 'least epsilon')
    """
    plain = "".join(LETTERS.get(letter, letter) for letter in text.lower())
    return " ".join(re.sub(r"[-_]", " ", plain).split())


def find_word(text: str, words: dict[str, Word]) -> Word | None:
    """The row about a word, which may be in the plural or in another form."""
    wanted = normalise(text)
    for form in (wanted, wanted.removesuffix("s"), wanted.removesuffix("es")):
        if found := words.get(form) or words.get(normalise(FORMS.get(form, ""))):
            return found
    return None


# -- formulas as plain text ------------------------------------------------------------------------------------------------

SYMBOLS = {
    "varepsilon": "ε", "epsilon": "ε", "delta": "δ", "rho": "ρ", "mu": "μ", "alpha": "α", "omega": "ω", "sigma": "σ",
    "pi": "π", "Delta": "Δ", "Phi": "Φ", "lambda": "λ", "le": "≤", "ge": "≥", "ne": "≠", "approx": "≈", "cdot": "·",
    "times": "×", "pm": "±", "infty": "∞", "int": "∫", "sum": "∑", "in": "∈", "to": "→", "ln": "ln", "log": "log",
    "exp": "exp", "max": "max", "min": "min", "Pr": "Pr", "quad": "  ",
}  # fmt: skip
"""What each command without an argument stands for."""

_CODE_OR_FORMULA = re.compile(
    r"(?P<code>^[ \t]*```.*?^[ \t]*```[ \t]*$|`[^`\n]+`)"
    r"|\$\$(?P<shown>.+?)\$\$|\$(?P<inline>[^\s$](?:[^$\n]*[^\s$])?)\$(?!\d)",
    re.DOTALL | re.MULTILINE,
)
_GROUP = r"\{((?:[^{}]|\{[^{}]*\})*)\}"  # braces, with braces in them once
_WRAPPER = re.compile(rf"\\(?:mathbb|mathrm|text|operatorname)\s*{_GROUP}")
_FRACTION = re.compile(rf"\\frac\s*{_GROUP}\s*{_GROUP}")
_ROOT = re.compile(rf"\\sqrt\s*{_GROUP}")
_SCRIPT = re.compile(rf"([\^_]){_GROUP}")


def to_plain_formulas(text: str) -> str:
    """Write the formulas of a page as plain text; code stays as it is.

    >>> to_plain_formulas(r"at most $$\\frac{p}{p + (1 - p)\\,e^{-\\varepsilon}}$$ and `$HOME`")
    'at most p / (p + (1 - p) e^(-ε)) and `$HOME`'
    """
    return _CODE_OR_FORMULA.sub(lambda found: found["code"] or to_plain_formula(found["shown"] or found["inline"]), text)


def to_plain_formula(latex: str) -> str:
    """Write one formula as plain text.

    >>> to_plain_formula(r"\\rho + 2\\sqrt{\\rho \\ln(1/\\delta)}"), to_plain_formula(r"\\sqrt{2}/e^\\varepsilon")
    ('ρ + 2√(ρ ln(1/δ))', '√2/e^ε')
    """
    text = re.sub(r"\\[,;:! ]", " ", latex)
    text = re.sub(r"\\([A-Za-z]+)", lambda found: SYMBOLS.get(found[1], found[0]), text)
    text = _WRAPPER.sub(r"\1", text)
    while (simpler := _write_once(text)) != text:
        text = simpler
    return re.sub(r" {2,}", " ", text).strip()


def _write_once(text: str) -> str:
    """Rewrite the fractions, roots and exponents that stand in no other one's braces, and so the outermost ones first."""
    text = _FRACTION.sub(lambda found: f"{_bracket(found[1])} / {_bracket(found[2])} ", text)
    text = _ROOT.sub(lambda found: f"√{_bracket(found[1])}", text)
    return _SCRIPT.sub(lambda found: f"{found[1]}{_bracket(found[2])}", text)


def _bracket(part: str) -> str:
    """Put what has more than one symbol into brackets."""
    return part if re.fullmatch(r"\w|\d+", part) else f"({part})"
