"""A service: analysts ask over HTTP and never see a row. The extra `serve`.

**Theory of operation: which process has what.**

    browser, notebook, shell ── HTTP ── web (any number)         signs in, quotes, takes asks, shows answers
                                          │ control database     people, grants, asks, queue; a mirror of the ledger
                                        worker (any number)      data, ledger, key: reserve → run → record

- `web/` reaches the control database alone. What it knows of the ledger, workers mirrored there: policies without their
  salts, accounts, heads, and answers from their moment on.
- `worker/` takes jobs from the queue, runs each through a `Session`, and holds the answer until its moment.
- `control/` is the database between them, in SQLite or PostgreSQL; `control/model.py` has its values and the states of an
  ask.
- `quoting`, `rules` and `schedule` are rules without a place, used by both; `classroom` is that for classes of the lab.
- `config`, `checking` and `embedded` read a folder or a serve.toml, check it, and run one process or several.

An ask: web signs the person in → finds the grant (without one the table does not exist) → quotes, which fixes ε and the
hash of what will be measured → applies the rules → writes the ask and its job → a worker claims the job, compares the hash,
debits, runs, and holds the answer → at its moment the answer is recorded, mirrored and shown.
"""
