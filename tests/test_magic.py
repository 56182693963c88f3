"""The magics of notebooks, in a real kernel."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from discreet.errors import AskPending, BadParameter
from discreet.magic import Magics, parse_line
from tests.kernel import notebook_of, run_in_kernel

CELLS = (
    "%load_ext discreet",
    "%discreet {people} unit=id unique=True epsilon=2 keys=\"{{'dept': ['sales', 'legal']}}\" -o people",
    "%%quote epsilon=0.5 -o quoted\nSELECT dept, COUNT(*) AS n FROM people GROUP BY dept",
    "%%ask error=10 -o answer\nSELECT dept, COUNT(*) AS n FROM people GROUP BY dept",
    "assert type(answer).__name__ == 'Answer' and type(quoted).__name__ == 'Quote' and answer.charged",
    "%%ask epsilon=0.5 --session people -o again\nSELECT COUNT(*) AS n FROM people",
    "assert 'IPython' in __import__('sys').modules and len(again) == 1",
)


def test_a_notebook_asks(tmp_path: Path) -> None:
    people = Path(__file__).parents[1] / "examples" / "people.csv"
    assert run_in_kernel(notebook_of(each.format(people=people) for each in CELLS), tmp_path) == ""


def test_a_token_is_not_saved_with_a_notebook(tmp_path: Path) -> None:
    said = run_in_kernel(notebook_of(["%load_ext discreet", "%discreet https://data.example/people token=dsc_1"]), tmp_path)
    assert "it would be saved with the notebook" in said


def test_lines() -> None:
    assert parse_line("error=5% size=1000 -o answer") == ([], {"error": "5%", "size": 1000}, {"output": "answer"})
    assert parse_line("""weights="{'n': 2}" fresh=True""")[1] == {"weights": {"n": 2}, "fresh": True}
    for wrong in ("-o", "-o 2x", "'open"):
        with pytest.raises(BadParameter):
            parse_line(wrong)
    assert parse_line("x=__import__('os')")[1] == {"x": "__import__(os)"}  # a text, and nothing is run


def test_without_a_session_a_file_and_a_service_are_suggested() -> None:
    with pytest.raises(BadParameter, match=r"%discreet people\.csv .*%discreet https://data\.example/people"):
        Magics(SimpleNamespace(user_ns={})).ask("epsilon=1", "SELECT COUNT(*) AS n FROM people")


class Recording:
    """A session that has the parameters of every session, and refuses what it is asked."""

    def ask(self, query: str, *, epsilon: float | None = None, purpose: str = "") -> None:
        raise AskPending("f00", "for approval")


def test_mistakes_show_their_message_alone() -> None:
    """IPython shows what `_render_traceback_` returns. The mutant leaves it out, and the cell shows a page of internals."""
    magics = Magics(SimpleNamespace(user_ns={"service": Recording()}))
    for line, kind, words in (
        ("--session service epsilon=1", AskPending, "it is for approval"),
        ("--session service eps=1", BadParameter, r"eps is 1: not a parameter of %%ask\. Did you mean epsilon=1\?"),
        ("epsilon=1", BadParameter, "no session is open"),
    ):
        with pytest.raises(kind, match=words) as refused:
            magics.ask(line, "SELECT COUNT(*) AS n FROM people")
        assert refused.value._render_traceback_() == [f"{kind.__name__}: {refused.value}"]  # type: ignore[attr-defined]


def test_importing_discreet_loads_no_client() -> None:
    program = (
        "import sys, discreet, discreet.session.connect; assert callable(discreet.load_ipython_extension); "
        "assert not {'httpx', 'fastapi', 'IPython', 'discreet.remote.client', 'discreet.magic'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
