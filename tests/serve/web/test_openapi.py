"""The description of the API is OpenAPI 3.1, and no request made from it fails in a way that it does not describe."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis

from discreet.serve.control.store import open_control
from tests.support.web_service import OPEN, Service

MAX_EXAMPLES = 15


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with open_control(Path(tmp_path_factory.mktemp("control")) / "control.db") as control:
        made = Service(control, OPEN)
        yield made
        made.close()


@pytest.fixture(scope="module")
def api(service: Service) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_dict(service.app.openapi())


def test_the_description_is_openapi_3_1_and_names_no_other_host(service: Service) -> None:
    shown = service.client().get("/api/v1/openapi.json")
    assert shown.status_code == 200
    assert shown.json()["openapi"].startswith("3.1")
    assert "cdn" not in shown.text
    for page in ("/docs", "/redoc", "/openapi.json"):
        assert service.client("ada").get(page).status_code == 404
