"""JOIN of SQL: to a public table by name, by one equal column."""

from sqlglot import exp

from discreet.query import plan
from discreet.query.scope import Scope
from discreet.query.syntax import bare, only, refused
from discreet.query.table import Lookup

WRITE = "write JOIN cities ON people.city = cities.city, or JOIN cities USING (city)"


def read_join(node: exp.Expr, scope: Scope) -> Scope:
    """The scope with what this JOIN adds to it."""
    only(node, "this", "on", "using", "side", "kind")
    lookup, side = _lookup(node, scope), node.args.get("side") or ""
    if (side, node.args.get("kind") or "") not in (("", ""), ("", "INNER"), ("LEFT", ""), ("LEFT", "OUTER")):
        raise refused(node, "only JOIN and LEFT JOIN are in the language", WRITE)
    here, there = _columns(node, scope, lookup)
    return scope.joined_to(plan.Join(lookup.name, here, there, left=side == "LEFT"))


def _lookup(node: exp.Expr, scope: Scope) -> Lookup:
    known = ", ".join(scope.own.public) or "none is declared"
    if not isinstance(node.this, exp.Table):
        raise refused(node, "JOIN takes a public table by name", f"public tables: {known}")
    only(node.this, "this")
    if isinstance(node.this.this, exp.Identifier):
        for lookup in scope.own.public.values():
            if lookup.name.lower() == node.this.name.lower():
                return lookup
    raise refused(node.this, "this is not a public table", f"public tables: {known}")


def _columns(node: exp.Expr, scope: Scope, lookup: Lookup) -> tuple[str, str]:
    on, using = node.args.get("on"), node.args.get("using") or []
    if (on is None) == (not using):
        raise refused(node, "a join needs ON or USING", WRITE)
    if on is None:
        if len(using) != 1 or not isinstance(using[0], exp.Identifier):
            raise refused(node, "tables are joined by one column", WRITE)
        column = exp.Column(this=using[0].copy())
        return _here(column, scope), _there(column, lookup)
    equal = bare(on)
    if not isinstance(equal, exp.EQ):
        raise refused(node, "ON takes one column that equals another", WRITE)
    only(equal, "this", "expression")
    left, right = bare(equal.this), bare(equal.expression)
    if _of(right, scope, lookup) and not _of(left, scope, lookup):
        return _here(left, scope), _there(right, lookup)
    if _of(left, scope, lookup) and not _of(right, scope, lookup):
        return _here(right, scope), _there(left, lookup)
    raise refused(node, f"ON compares a column of {scope.own.name} with one of {lookup.name}", WRITE)


def _of(node: exp.Expr, scope: Scope, lookup: Lookup) -> bool:
    """Whether this names a column of the lookup table: by its prefix, or because nothing else is called so."""
    if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
        raise refused(node, "ON takes columns, no expressions", WRITE)
    only(node, "this", "table")
    if node.table:
        return bool(node.table.lower() == lookup.name.lower())
    return not scope.find(node.name, exact=False)


def _here(node: exp.Expr, scope: Scope) -> str:
    assert isinstance(node, exp.Column)
    found = scope.find(node.name, node.table or None, exact=bool(node.this.args.get("quoted")))
    if len(found) != 1:
        raise refused(node, "this column is not known, or two are called so", "write table.column")
    return found[0]


def _there(node: exp.Expr, lookup: Lookup) -> str:
    alike = [name for name in lookup.columns if name == node.name]
    alike = alike or [name for name in lookup.columns if name.lower() == node.name.lower()]
    if len(alike) != 1:
        raise refused(node, f"{lookup.name} has no such column", f"take one of {', '.join(lookup.columns)}")
    return alike[0]
