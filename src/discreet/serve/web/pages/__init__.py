"""The pages of the web app: server-rendered, complete without scripts, and nicer with them.

`drawing` says how a page is drawn and what keeps texts of strangers texts, `forms` what follows a form that is refused, and
`once` how a page shows a secret once. Each other module is one group of pages: `tables` (home, tables, invented rows),
`asking` (ask, live quote, confirm), `outcomes` (answers, waiting, my asks; `charts` draws), `budgets` (the tree of accounts,
state), `requests` (approvals), `declarations` (rules and policies), `people` (people, grants, tokens), `records`
(publications, trail), `reading` (certificates, the API, errors: no sign-in), `lab` (figures, exercises, attacks on invented
tables) and `classes`.

Pages use what the API uses (`service.Web`, `stewardship`), so neither may do what the other may not.
"""

from fastapi import FastAPI

from discreet.serve.web.service import Web


def add_pages(app: FastAPI, web: Web) -> None:
    """Add all pages, static files and the page that shows a problem."""
    from discreet.serve.web.pages import (
        asking,
        budgets,
        classes,
        declarations,
        lab,
        outcomes,
        people,
        reading,
        records,
        requests,
        tables,
    )
    from discreet.serve.web.pages.drawing import Pages

    pages = Pages(app, web)
    web.render = pages.render
    pages.add_static()
    pages.add_handlers()
    for module in (tables, asking, outcomes, budgets, requests, declarations, people, records, reading, lab, classes):
        module.add_to(pages)
