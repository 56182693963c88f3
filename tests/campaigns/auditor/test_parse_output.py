"""An audit of a function with two million numbers."""

import pytest

from discreet import audit
from tests.auditor.test_parse_output import PAIR, make_mutant


@pytest.mark.nightly
def test_a_list_of_two_million_is_audited_inside_the_time_limit() -> None:
    found = audit(make_mutant(list, 1_500_000, 2_000_000), 0.1, [PAIR], seconds=120, limit=10)
    assert found.violation
    assert "output[1500000]" in found.event
