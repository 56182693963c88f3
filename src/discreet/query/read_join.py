"""JOIN of SQL: to a public table by name, by one equal column."""

from sqlglot import exp

from discreet.query import plan
from discreet.query.scope import Scope
from discreet.query.syntax import allow_only, make_refusal, strip_parentheses
from discreet.query.table import PublicTable

JOIN_HINT = "write JOIN cities ON people.city = cities.city, or JOIN cities USING (city)"


def read_join(node: exp.Expr, scope: Scope) -> Scope:
    """The scope with what this JOIN adds to it."""
    allow_only(node, "this", "on", "using", "side", "kind")
    lookup, side = _find_public_table(node, scope), node.args.get("side") or ""
    if (side, node.args.get("kind") or "") not in (("", ""), ("", "INNER"), ("LEFT", ""), ("LEFT", "OUTER")):
        raise make_refusal(node, "only JOIN and LEFT JOIN are in the language", JOIN_HINT)
    here, there = _read_join_columns(node, scope, lookup)
    return scope.with_join(plan.Join(lookup.name, here, there, left=side == "LEFT"))


def _find_public_table(node: exp.Expr, scope: Scope) -> PublicTable:
    known = ", ".join(scope.base.public) or "none is declared"
    if not isinstance(node.this, exp.Table):
        raise make_refusal(node, "JOIN takes a public table by name", f"public tables: {known}")
    allow_only(node.this, "this")
    if isinstance(node.this.this, exp.Identifier):
        for lookup in scope.base.public.values():
            if lookup.name.lower() == node.this.name.lower():
                return lookup
    raise make_refusal(node.this, "this is not a public table", f"public tables: {known}")


def _read_join_columns(node: exp.Expr, scope: Scope, public: PublicTable) -> tuple[str, str]:
    on, using = node.args.get("on"), node.args.get("using") or []
    if (on is None) == (not using):
        raise make_refusal(node, "a join needs ON or USING", JOIN_HINT)
    if on is None:
        if len(using) != 1 or not isinstance(using[0], exp.Identifier):
            raise make_refusal(node, "tables are joined by one column", JOIN_HINT)
        column = exp.Column(this=using[0].copy())
        return _find_own_column(column, scope), _find_public_column(column, public)
    equal = strip_parentheses(on)
    if not isinstance(equal, exp.EQ):
        raise make_refusal(node, "ON takes one column that equals another", JOIN_HINT)
    allow_only(equal, "this", "expression")
    left, right = strip_parentheses(equal.this), strip_parentheses(equal.expression)
    if _is_public_column(right, scope, public) and not _is_public_column(left, scope, public):
        return _find_own_column(left, scope), _find_public_column(right, public)
    if _is_public_column(left, scope, public) and not _is_public_column(right, scope, public):
        return _find_own_column(right, scope), _find_public_column(left, public)
    raise make_refusal(node, f"ON compares a column of {scope.base.name} with one of {public.name}", JOIN_HINT)


def _is_public_column(node: exp.Expr, scope: Scope, public: PublicTable) -> bool:
    """Whether this names a column of the lookup table: by its prefix, or because nothing else is called so."""
    if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
        raise make_refusal(node, "ON takes columns, no expressions", JOIN_HINT)
    allow_only(node, "this", "table")
    if node.table:
        return bool(node.table.lower() == public.name.lower())
    return not scope.find(node.name, exact=False)


def _find_own_column(node: exp.Expr, scope: Scope) -> str:
    assert isinstance(node, exp.Column)
    found = scope.find(node.name, node.table or None, exact=bool(node.this.args.get("quoted")))
    if len(found) != 1:
        raise make_refusal(node, "this column is not known, or two are called so", "write table.column")
    return found[0]


def _find_public_column(node: exp.Expr, public: PublicTable) -> str:
    alike = [name for name in public.columns if name == node.name]
    alike = alike or [name for name in public.columns if name.lower() == node.name.lower()]
    if len(alike) != 1:
        raise make_refusal(node, f"{public.name} has no such column", f"take one of {', '.join(public.columns)}")
    return alike[0]
