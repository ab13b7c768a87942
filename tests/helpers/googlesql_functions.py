"""Calls of SQL functions written out: GoogleSQL's reference implementation analyzes a function here, and keeps none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp


@dataclass(frozen=True)
class Function:
    """A function's parameters and body; `is_table`: calls stand in FROM, and the body is a query."""

    names: tuple[str, ...]
    body: str
    is_table: bool = False


def function_of(statement: Any, *, is_table: bool = False) -> Function:
    """The function that a resolved CREATE FUNCTION or CREATE TABLE FUNCTION makes."""
    return Function(tuple(statement.argument_name_list), str(statement.code), is_table)


def written_out(sql: str, functions: Mapping[str, Function]) -> str:
    """Return a statement with each call of a function, by its full name, replaced by its body."""
    if any(function.is_table for function in functions.values()):
        sql = _tables_written_out(sql, functions)
    scalars = {name: function for name, function in functions.items() if not function.is_table}
    if not any(name.rpartition(".")[2] in sql for name in scalars):
        return sql
    return sqlglot.parse_one(sql, read="bigquery").transform(_written, scalars).sql(dialect="bigquery")


def _written(node: exp.Expr, functions: Mapping[str, Function]) -> exp.Expr:
    if not isinstance(node, exp.Dot) or not isinstance(node.expression, exp.Anonymous):
        return node
    function = functions.get(f"{_path(node.this)}.{node.expression.name}")
    if function is None:
        return node
    given = dict(zip(function.names, node.expression.expressions, strict=True))

    def argument(part: exp.Expr) -> exp.Expr:
        is_one = isinstance(part, exp.Column) and part.name in given and not part.table
        return exp.paren(given[part.name].transform(_written, functions)) if is_one else part

    return exp.paren(sqlglot.parse_one(function.body, read="bigquery").transform(argument))


def _path(schema: exp.Expr) -> str:
    return f"{_path(schema.this)}.{schema.expression.name}" if isinstance(schema, exp.Dot) else schema.name


def _tables_written_out(sql: str, functions: Mapping[str, Function]) -> str:
    """Of table functions; arguments are literals."""

    def written(call: re.Match[str]) -> str:
        function = functions.get(call["name"])
        if function is None or not function.is_table:
            return call[0]
        body = function.body
        for name, argument in zip(function.names, call["arguments"].split(","), strict=True):
            body = re.sub(rf"\b{name}\b", lambda _, a=argument: f"({a.strip()})", body)
        return f"({body})"

    return re.sub(r"`(?P<name>[^`]+)`\s*\((?P<arguments>[^()]*)\)", written, sql)
