"""`discreet demo`, run as a user runs it."""

import json
import re

from tests.support.console import run


def test_it_shows_answers_error_bars_and_the_cost() -> None:
    out = run("demo")
    assert out.returncode == 0
    for word in (
        "north",
        "islands",
        "±",
        "ε = 1.5 of 1.5",
        "δ = 1e-6",
        "quote SELECT",
        "ask SELECT",
        "mean_paid",
        "visits (count) by region\nnorth   █",
        "would fit",
        "zCDP ρ = ",
        "remaining",
    ):
        assert word in out.stdout
    # an answer explains itself here as everywhere; what is not explanation fits on a screen
    explanations = re.findall(r"^In zCDP, .*?(?=^visits |^> )", out.stdout, re.DOTALL | re.MULTILINE)
    first, second = (len(text.splitlines()) for text in explanations)
    assert len(out.stdout.splitlines()) - first - second <= 40
    assert first <= 9
    assert second <= 5, "what was explained once is not repeated"


def test_json_is_json_only_and_near_the_truth() -> None:
    out = run("demo", "--json", "--epsilon", "2")
    shown = json.loads(out.stdout)
    before, after = shown["budget"]["before"], shown["budget"]["after"]
    assert before["amount"] == 0
    assert after["remaining"] < before["remaining"]
    assert after["epsilon"]["upper"] < before["epsilon"]["lower"] == before["limit"]["epsilon"] == 6, (
        "what remains, not the limit"
    )
    counts, mean = shown["answers"]
    assert [row["region"] for row in counts["rows"]] == ["north", "east", "south", "west", "islands"]
    assert all(row["visits"]["reliable"] for row in counts["rows"])
    assert abs(mean["rows"][0]["mean_paid"]["value"] - 79) < 2
    assert mean["cost"]["epsilon"]["upper"] <= 2
    assert out.stderr == ""


def test_a_mistake_is_one_line_with_exit_code_2() -> None:
    for wrong in (("demo", "--epsilon", "0"), ("demo", "--epsilon", "lots"), ("demo", "--delta", "2"), ("nonsense",)):
        out = run(*wrong)
        assert out.returncode == 2
        assert "Traceback" not in out.stderr
        assert out.stdout == ""
