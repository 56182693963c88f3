"""Many requests made from the description of the API, and many that contradict it: none fails undescribed."""

import pytest
import requests
from schemathesis import GenerationMode

from tests.serve.web.test_openapi import MODES, OPERATIONS, connection, send_requests, service
from tests.support.web_service import Service

__all__ = ["connection", "service"]

EXAMPLES = 50


@pytest.mark.nightly
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("person", ["sam", "ada"])
@pytest.mark.parametrize("label", OPERATIONS)
def test_no_request_of_many_fails_undescribed(
    service: Service, connection: requests.Session, label: str, person: str, mode: GenerationMode
) -> None:
    send_requests(service, connection, label, person, mode, EXAMPLES)
