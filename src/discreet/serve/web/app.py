"""The web application: `create_app` puts the guard, sign-in, the API and the pages together.

Nothing runs when the application is made, and no thread is started before the first request that needs one. The address of
the OpenAPI description is /api/v1/openapi.json; pages that load scripts of others to show it are off.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

from fastapi import FastAPI

from discreet import __version__
from discreet.serve.control.store import Control
from discreet.serve.web import api, signing_in
from discreet.serve.web.guard import Guard
from discreet.serve.web.metrics import Measured
from discreet.serve.web.oidc import Provider
from discreet.serve.web.problems import add_handlers
from discreet.serve.web.service import Web
from discreet.serve.web.settings import WebSettings


def create_app(control: Control, settings: WebSettings, *, provider: Provider | None = None) -> FastAPI:
    """Return the application over a control database. `app.state.web` is what its routes share."""
    web = Web(control, settings, provider)

    @asynccontextmanager
    async def live(_: FastAPI) -> AsyncIterator[None]:
        yield
        web.close()

    app = FastAPI(
        title=settings.name,
        version=__version__,
        summary="Differentially private queries: cost and error before anything is spent, and no row for anybody.",
        openapi_url=None,  # served by the API, under its own address
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=live,
        separate_input_output_schemas=False,
    )
    app.state.web = web
    add_handlers(app)
    app.include_router(api.make_router(web))
    signing_in.add_routes(app.router, web)
    if settings.pages:
        _add_pages(app, web)
    app.add_middleware(Measured, metrics=web.metrics)
    app.add_middleware(Guard, settings=settings)
    app.openapi = lambda: api.describe(app)  # type: ignore[method-assign]
    return app


def _add_pages(app: FastAPI, web: Web) -> None:
    """Add the pages, which set `web.render` and include routers of their own."""
    if find_spec("discreet.serve.web.pages") is None:
        return
    from importlib import import_module

    pages: Any = import_module("discreet.serve.web.pages")
    pages.add_pages(app, web)
