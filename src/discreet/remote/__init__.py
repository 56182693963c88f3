"""Sessions on a service, over HTTP.

**Theory of operation.** `client` has the interface of a local session and sends queries through `connection`, which knows
addresses, tokens, retries and limits. What travels is written and read by `wire` (quotes, answers, budgets, tables) and
`problems` (errors), both over `plain`, which reads strictly. `trust` remembers which service it was and what its ledger
held. `invented` makes rows from a policy alone, and `dummy` a session of them, for trying queries.

The service uses `wire`, `problems` and `invented` too; `import discreet` loads none of it, and only `connection` needs
httpx (the extra `remote`).
"""
