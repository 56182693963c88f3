"""Where keys are not declared, discovering them needs a δ that the account can give."""

import pytest

from discreet import QueryRefused
from tests.support.people import BY_DEPARTMENT, session


def test_an_rdp_account_says_that_it_has_no_delta_to_give() -> None:
    place = session(delta=1e-6, currency="rdp(16)", keys={})
    with pytest.raises(QueryRefused, match=r"an account in rdp has no δ to discover them\. Declare them"):
        place.quote(BY_DEPARTMENT, epsilon=1)
