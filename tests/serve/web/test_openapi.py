"""The description of the API is OpenAPI 3.1, and no request made from it fails in a way that it does not describe."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import positive_data_acceptance

from discreet.serve.control.store import open_control
from discreet.serve.web.app import create_app
from tests.support.web_server import find_socket, serve
from tests.support.web_service import OPEN, Service

MAX_EXAMPLES = {("sam", "positive"): 4, ("ada", "positive"): 3, ("sam", "negative"): 4, ("ada", "negative"): 1}
"""What contradicts the description is refused whoever sends it, so the analyst sends fewer of those. By night there are many
more: `tests/campaigns/serve/test_openapi.py`."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    bound, port = find_socket()
    with open_control(Path(tmp_path_factory.mktemp("control")) / "control.db") as control:
        made = Service(control, replace(OPEN, address=f"http://127.0.0.1:{port}"))
        with serve(made.app, bound):
            yield made
        made.close()


@pytest.fixture(scope="module")
def connection() -> Iterator[requests.Session]:
    """A connection that all requests share, as that of a client does."""
    with requests.Session() as made:
        yield made


OPERATIONS = {
    found.ok().label: found.ok()
    for found in schemathesis.openapi.from_dict(create_app(cast("Any", None), OPEN).openapi()).get_all_operations()
}
NOT_DESCRIBED = "POST /api/v1/verify"
"""No schema says what a certificate is: one that is none is refused, with its own status and error."""
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("person", ["sam", "ada"])
@pytest.mark.parametrize("label", OPERATIONS)
def test_no_request_from_the_description_fails_undescribed(
    service: Service, connection: requests.Session, label: str, person: str, mode: GenerationMode
) -> None:
    send_requests(service, connection, label, person, mode, MAX_EXAMPLES[person, mode.value])


def send_requests(
    service: Service, connection: requests.Session, label: str, person: str, mode: GenerationMode, examples: int
) -> None:
    """Send so many requests that are made from the description of an operation, or contradict it."""
    headers = {"Authorization": f"Bearer {service.tokens[person]}"}

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
    @given(OPERATIONS[label].as_strategy(generation_mode=mode))
    def run(case: Any) -> None:
        response = case.call(base_url=service.settings.address, headers=headers, session=connection)
        if response.status_code != 413:  # the guard refuses a large body before any description is looked at
            excluded = [positive_data_acceptance] if label == NOT_DESCRIBED else []
            case.validate_response(response, excluded_checks=excluded, headers=headers)
            if excluded and response.status_code == 422 and mode is GenerationMode.POSITIVE:
                assert response.json()["error"] == "BadParameter"

    try:
        run()
    except Unsatisfiable:  # without parameters and body, no request contradicts the description
        assert mode is GenerationMode.NEGATIVE


def test_the_description_is_openapi_3_1_and_names_no_other_host(service: Service) -> None:
    shown = service.client(address=service.settings.address).get("/api/v1/openapi.json")
    assert shown.status_code == 200
    assert shown.json()["openapi"].startswith("3.1")
    assert "cdn" not in shown.text
    for page in ("/docs", "/redoc", "/openapi.json"):
        assert service.client("ada", address=service.settings.address).get(page).status_code == 404
