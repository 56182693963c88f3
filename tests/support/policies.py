"""Policies of small tables of people, for tests that serve one."""


def make_policy(
    table: str = "people", *, limits: str = "unique = true", keys: tuple[str, ...] = (), city: bool = False,
    pay: str = "integer", upper: int = 100,
) -> str:  # fmt: skip
    """Return a policy of a table with the columns id, dept (if it has `keys`), city and pay.

    >>> [line for line in make_policy(keys=("a", "b")).splitlines() if "keys" in line]
    ['keys = ["a", "b"]']
    """
    columns = {"id": 'kind = "integer"'}
    if keys:
        listed = ", ".join(f'"{key}"' for key in keys)
        columns["dept"] = f'kind = "text"\nkeys = [{listed}]'
    if city:
        columns["city"] = 'kind = "text"'
    columns["pay"] = f'kind = "{pay}"\nlower = 0\nupper = {upper}'
    parts = [
        f'table = "{table}"\nunit = "id"\n{limits}\n',
        *(f"[columns.{name}]\n{text}\n" for name, text in columns.items()),
    ]
    return "\n".join(parts)
