"""Words that GLOSSARY.md retires stay out of the source and the docs.

Only unmistakable identifiers and phrases are listed, never everyday words. Every entry has an example that its pattern must
match, so that no pattern is empty. A retired word that is still in use stands in `NOT_YET`, which must hold exactly those: a
rename takes its word out, and no word comes back in.

Text in quotes is not searched for identifiers: old names live on as tags and columns on the wire (`tag="LaplaceLoss"`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")  # GLOSSARY.md names the retired words

NAMES = {
    # events and accounting
    "BadFact": "BadEvent",
    "EitherLaw": "CgfEnvelope",
    "HypothesisFails": "TheoremNotApplicable",
    "Ladder": "CgfTable",
    "OptimalThreshold": "OptimalPartitionSelection",
    "leak_left": "delta_remaining",
    "leak_limit": "delta_limit",
    # query
    "found_bounds": "bounds_discovery",
    "measures_of": "the statistics of an aggregate",
    "name_of": "currency_name",
    "quietest": "least_error_mechanism",
    "shown_as": "with_keys",
    "shown_groups": "select_partitions",
    "span_of": "the grid range of a BoundedQuery",
    # session and ledger
    "LedgerBroken": "LedgerCorrupted",
    "LedgerFailed": "LedgerUnavailable",
    "Manner": "RunOptions",
    "Paper": "LedgerReference",
    "Purse": "Account, in the auditor SamplingBudget",
    "Till": "Executor",
    "key_at": "load_key",
    "key_beside": "default_key_path",
    "key_place": "default_key_path",
    "ledger_at": "open_ledger",
    "one_whose": "require_same_unit",
    "purse_of": "open_account",
    "whose_of": "privacy_unit_of",
    # everywhere
    "shown_down": "format_down",
    "shown_up": "format_up",
    "way_out": "hint",
}
"""Identifiers that are no words of prose: found anywhere."""

DEFINITIONS = {
    # events and accounting
    "class Fact": ("", "PrivacyEvent"),
    "class Law": ("accounting", "PLD, a privacy-loss distribution"),
    "class Line": ("accounting", "Contour"),
    "class Listed": ("accounting", "DiscretePld"),
    "class Piece": ("accounting", "Component"),
    "class Side": ("accounting", "Direction"),
    "class Tilt": ("accounting", "SaddlePoint"),
    "class Race": ("noise", "selection"),
    "Loss: TypeAlias": ("", "PrivacyEvent"),
    "Reading: TypeAlias": ("", "a guarantee; of a column, how it is decoded"),
    "def approx": ("accounting", "basic_composition"),
    "def hits": ("accounting", "true_positive_rate"),
    "def least": ("accounting", "smallest_where"),
    "def most": ("accounting", "max_loss"),
    "def real": ("accounting", "cgf"),
    "def readings": ("accounting", "compare_guarantees"),
    "def sides": ("accounting", "directions"),
    # query
    "class Bounded": ("query", "BoundedQuery"),
    "class Cell": ("query", "Estimate"),
    "class Counts": ("query", "CellCounts"),
    "class Exact": ("query", "ExactTotals"),
    "class Found": ("query", "DiscoveredBounds"),
    "class Lookup": ("query", "PublicTable"),
    "class Price": ("query", "Cost"),
    "class Promise": ("query", "ColumnAccuracy"),
    "class Release": ("query", "Answer"),
    "class Rows": ("query", "RowCount"),
    "class Span": ("query", "GridRange"),
    "class Tidied": ("query", "what postprocess returns"),
    "class Total": ("query", "CentredSum"),
    "class Units": ("query", "UnitCount"),
    "class Values": ("query", "ValueCount"),
    "Measure: TypeAlias": ("query", "Statistic"),
    "def bound": ("query", "bound_contributions"),
    "def described": ("query", "measurement_spec"),
    "def drawable": ("query", "check_scale"),
    "def holds": ("query", "accepts"),
    "def measure": ("query", "calibrate_query"),
    "def named": ("query", "parse_currency"),
    "def noised": ("query", "add_noise"),
    "def promised": ("query", "predict_accuracy"),
    "def within": ("query", "with_bounds"),
    "def written": ("query", "to_sql"),
    # session, engines and ledger
    "class Answered": ("ledger", "AnswerRecorded"),
    "class Declared": ("", "Source"),
    "class Opened": ("ledger", "AccountOpened"),
    "class Pages": ("ledger", "Transaction"),
    "class Recorded": ("ledger", "CachedAnswer"),
    "class Shape": ("", "IntervalOptions"),
    "class Wanted": ("", "AccuracyTarget"),
    "def begun": ("engines", "new_connection"),
    "def declare": ("", "open_source"),
    "def exact": ("", "run"),
    "def locked": ("engines", "lock_down"),
    "def proper": ("ledger", "validate_name"),
    "def turn": ("engines", "lock"),
    # workload, auditor and numbers
    "class Asked": ("", "WorkloadQuery"),
    "class Crowd": ("auditor", "a worker pool"),
    "class Outlook": ("", "Forecast"),
    "class Solved": ("", "WorkloadPlan"),
    "def again(published": ("", "reproduce"),
    "def card": ("", "guarantee"),
    "def confident": ("mechanisms", "check_confidence"),
    "def found": ("auditor", "load_function"),
    "def shown": ("", "format_rational"),
    "def whole(value": ("", "check_int"),
}
"""Words of prose that were names: found where they are defined, in this folder of the source; without a definition there is
no use."""

MODULES = {
    "discreet.accounting.approx": "discreet.accounting.basic",
    "discreet.accounting.either": "discreet.accounting.contour",
    "discreet.accounting.ladder": "discreet.accounting.contour",
    "discreet.accounting.laws": "discreet.accounting.pld",
    "discreet.accounting.nodes": "discreet.accounting.contour",
    "discreet.accounting.pairs": "discreet.accounting.dominating_pairs",
    "discreet.accounting.pieces": "discreet.accounting.dominating_pairs",
    "discreet.accounting.resolve": "discreet.accounting.rewrite",
    "discreet.accounting.samples": "discreet.accounting.dominating_pairs",
    "discreet.accounting.side_by_side": "discreet.accounting.compare",
    "discreet.accounting.sides": "discreet.accounting.dominating_pairs",
    "discreet.accounting.solve": "discreet.accounting.contour",
    "discreet.auditor.crowd": "a worker pool",
    "discreet.auditor.game": "sampling",
    "discreet.auditor.purse": "a sampling budget",
    "discreet.auditor.where": "load_function",
    "discreet.cli.commands": "discreet.cli, one file per command",
    "discreet.declare": "discreet.session.connect",
    "discreet.engines.owner": "discreet.engines.base",
    "discreet.exact": "discreet._numbers",
    "discreet.ledger.book": "discreet.ledger",
    "discreet.ledger.pages": "discreet.ledger.store",
    "discreet.loss": "discreet.events",
    "discreet.mechanisms.keep": "discreet.mechanisms.partition_selection",
    "discreet.mechanisms.quantile": "discreet.mechanisms._additive_noise",
    "discreet.mechanisms.utility": "discreet.mechanisms.textbook_accuracy",
    "discreet.noise.floats": "the samplers",
    "discreet.noise.race": "discreet.noise.selection",
    "discreet.opening": "discreet.session.connect",
    "discreet.publisher": "discreet.workload",
    "discreet.query.auto": "discreet.session.discovery",
    "discreet.query.plan": "discreet.query.ast",
    "discreet.query.read_aggregate": "discreet.query.parser",
    "discreet.query.read_expression": "discreet.query.parser",
    "discreet.query.read_join": "discreet.query.parser",
    "discreet.query.scope": "discreet.query.validate",
    "discreet.query.syntax": "discreet.query.parser",
    "discreet.query.tidy": "discreet.query.postprocess",
    "discreet.till": "discreet.session.executor",
}
"""Modules, as they are imported or named."""

SPELLINGS = {
    "class GaussianLoss(Fact)": (r"(?<![\w\"'])(?<!nn\.)[A-Z]\w*Loss(?![\w\"'])", "GaussianEvent"),
    "GaussianLaw(mu)": (r"(?<![\w\"'])[A-Z]\w*Law(?![\w\"'])", "a distribution in accounting/pld"),
    "mechanism.loss(1)": (r"\.loss\(", "mechanism.event(1)"),
    "approx(loss)": (r"(?<![\w.])approx\(", "basic_composition(event)"),
    "hits(loss, 0.05)": (r"\bhits\(", "true_positive_rate(event, 0.05)"),
    "readings(loss, 1e-6)": (r"\breadings\(", "compare_guarantees(event, 1e-6)"),
    "filter.leaked": (r"\.leaked\b|\bleaked[:=]", "delta_spent"),
    "at: Number = 0": (r"\bat: Number\b", "certified_delta: Number = 0"),
    '{"left": 1}': (r"\[?\"left\"[:\]]", '{"remaining": 1}'),
}
"""Other spellings in code: an example, its pattern, and what is written now."""

PHRASES = {
    "0.00623 of zcdp": (r"(?-i:\bof zcdp\b)|\} of \{(?:name_of|currency_name)", "ρ = 0.00623"),
    "Whoever asks": (r"\bwho(?:m)?ever\b", "name the actor: the analyst, the owner, the account"),
    "nobody knows": (r"\bnobody\b", "name the actor"),
    "somebody's record": (r"\bsomebody\b", "name the actor"),
    "the owner is told": (r"\b(?:is|are|be|was|were) told\b(?! (?:apart|from|with))", "discreet reports to the owner"),
    "a release mends it": (r"\bmend(?:s|ed|ing)?\b", "fix"),
    "without telling on anyone": (r"\btelling on\b", "runs differentially private SQL"),
    "wrong twins": (r"\btwins?\b", "mutants"),
    "rows that the bounds left out": (r"\bbounds left out\b", "error from clipping is not included"),
    "what was paid stays paid": (r"\bstays? paid\b", "is not refunded"),
    "once and for all": (r"\bonce and for all\b", "declare it in a policy"),
    "pay, then look": (r"\bpay,? (?:then )?look\b", "reserve, run, record"),
    "open a δ": (r"\bopen a δ", "set --delta 1e-6"),
    "The chance of failure": (r"\bchance of failure\b", "δ of the (ε, δ) guarantee"),
    "guessed from the values": (r"\bguessed from the(?:ir)? values\b", "inferred"),
    "pay from a purse": (r"\bpurses?\b", "account"),
    "discreet account": (r"\bdiscreet account\b(?! is)", "discreet epsilon"),
}
"""Phrases of prose, in upper or lower case: an example, its pattern, and what to write instead."""

NOT_YET: set[str] = set()
"""What is retired and still in use. A rename takes its words out of here."""


@dataclass(frozen=True, slots=True)
class Retired:
    """A retired word: an example of it, how it is found, where, and what replaces it."""

    example: str
    pattern: re.Pattern[str]
    instead: str
    under: str = ""  # a folder of the source; everything, if empty
    part: str = ""  # what every text holds that the pattern finds: quicker to look for

    def find(self, path: str, text: str) -> Iterator[str]:
        """Say in which lines of a file it stands."""
        if self.under and not path.startswith(f"src/discreet/{self.under}/"):
            return
        if self.part not in text:
            return
        for found in self.pattern.finditer(text):
            yield f"{path}:{text.count(chr(10), 0, found.start()) + 1}"


def _name(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w\"']){re.escape(name)}(?![\w\"'])")


def _definition(text: str) -> re.Pattern[str]:
    """A class, a function or a method by its name; an alias at the top of a module."""
    return re.compile(rf"^{'' if 'TypeAlias' in text else ' *'}{re.escape(text)}\b", re.MULTILINE)


def _module(path: str) -> re.Pattern[str]:
    package, _, name = path.rpartition(".")
    return re.compile(rf"\b{re.escape(path)}\b|from {re.escape(package)} import [^\n]*\b{name}\b")


RETIRED = [
    *(Retired(name, _name(name), instead, part=name) for name, instead in NAMES.items()),
    *(Retired(text, _definition(text), instead, under, part=text) for text, (under, instead) in DEFINITIONS.items()),
    *(Retired(path, _module(path), instead, part=path.rpartition(".")[2]) for path, instead in MODULES.items()),
    *(Retired(example, re.compile(pattern), instead) for example, (pattern, instead) in SPELLINGS.items()),
    *(Retired(example, re.compile(pattern, re.IGNORECASE), instead) for example, (pattern, instead) in PHRASES.items()),
]


def _texts() -> dict[str, str]:
    """Every file that is searched, by its path."""
    found = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.py")]
    pages = [ROOT / page for page in PAGES if (ROOT / page).exists()]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted((*found, *pages))}


def test_retired_words_are_gone_but_for_those_that_wait() -> None:
    texts = _texts()
    found = {word: [at for path, text in texts.items() for at in word.find(path, text)] for word in RETIRED}
    back = {word.example: (at[:5], word.instead) for word, at in found.items() if at and word.example not in NOT_YET}
    assert back == {}, "these words are retired: write what stands beside them"
    gone = {word.example for word, at in found.items() if not at} & NOT_YET
    assert gone == set(), "these words are gone: take them out of NOT_YET"


def test_only_retired_words_wait() -> None:
    assert {word.example for word in RETIRED} >= NOT_YET
    assert len({word.example for word in RETIRED}) == len(RETIRED)


@pytest.mark.parametrize("word", RETIRED, ids=lambda word: word.example)
def test_every_pattern_finds_its_example(word: Retired) -> None:
    path = f"src/discreet/{word.under}/some.py" if word.under else "docs/some.md"
    assert list(word.find(path, f"before\n{word.example}\nafter\n")) == [f"{path}:2"]


@pytest.mark.parametrize(
    "text",
    [
        'class LaplaceEvent(PrivacyEvent, frozen=True, tag="LaplaceLoss"): ...',
        'rename={"delta_limit": "leak_limit", "delta_spent": "leaked"}',
        "UPDATE discreet_accounts SET spent = ?, leaked = ?, whose = ?",
        "The privacy loss is a random variable; losses add up.",
        'select.join(other, join_type="left")',
        "We recommended that the amended policy be read. Rows, Values and Counts are statistics.",
        "In terms of zCDP, neighbours that are told apart cost ρ = ∞; the truth is told with probability p.",
        "assert total == pytest.approx(3)",
    ],
)
def test_the_wire_and_everyday_words_are_left_alone(text: str) -> None:
    assert [word.example for word in RETIRED if list(word.find("src/discreet/query/some.py", text))] == []
