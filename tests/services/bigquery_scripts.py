"""Scripts in the server: GoogleSQL's reference implementation runs each SELECT, `helpers.bigquery_scripts` the rest.

So MERGE, INSERT, UPDATE, DELETE and TRUNCATE are applied by the tests' own reading of a statement's parts. Scripts run one
after the other: two at once conflict only where a test says so.
"""

from __future__ import annotations

import time
from typing import Any

from helpers.bigquery_scripts import Bench
from helpers.bigquery_values import Evaluator, Table
from zetasql.wasi._pb2.zetasql.local_service import local_service_pb2 as service

from services import bigquery_values as values


class ServedScripts(Bench):
    """The tables and views of a store while a script runs; what it made or changed is kept at the end."""

    def __init__(self, store: Any) -> None:
        assert isinstance(store.sql, Evaluator)
        super().__init__(store.sql)
        self.store = store
        self.now = store.now if store.now is not None else time.time_ns() // 1000
        for name, thing in store.things.items():
            if thing.query is not None:
                self.views[name] = thing.query
            else:
                self.tables[name] = self._loaded(name)

    def executed(self, script: str, *, kill_at: int | None = None) -> tuple[Any, list[Any]]:
        """Run a script, and return columns and rows of its last SELECT; a failed one leaves what it had committed."""
        try:
            answer = self.run(script, kill_at=kill_at)
        finally:
            for name in self.store.things.keys() & self.tables.keys():
                self.store.sql.define(name, self.tables[name].columns)
                self.store.sql.fill(name, map(_row, self.tables[name].rows))
        return ([], []) if answer is None else (answer.columns, list(map(_row, answer.rows)))

    def _loaded(self, name: str) -> Table:
        columns, content = self.store.sql._tables[name]
        return Table(columns, [list(row.cell) for row in content.table_data.row])

    def _create(self, text: str, name: str, rest: str) -> None:
        bare = name.strip("`")
        is_new = bare not in self.tables
        statement, _ = self.store.resolved(text)
        self.store._create(statement.resolved_create_statement_node)
        if is_new:
            super()._create(text, name, rest)
            self.store.sql.define(bare, self.tables[bare].columns)

    def _view(self, text: str, if_missing: str | None, name: str, sql: str) -> None:
        super()._view(text, if_missing, name, sql)
        bare = name.strip("`")
        if not (if_missing and bare in self.store.things):
            columns = self.query(f"SELECT * FROM (\n{sql}\n) LIMIT 0").columns
            self.store.keep_view(bare, sql, [values.field(column, kind) for column, kind in columns])

    def _drop(self, text: str, name: str) -> None:
        self._analyse(text)
        bare = name.strip("`")
        found = self.tables.pop(bare, None)
        assert found is not None or " IF EXISTS " in text, f"there is no table {bare}"
        if bare in self.store.things:
            del self.store.things[bare]
            self.store.sql.drop(bare)


def _row(cells: list[Any]) -> Any:
    row = service.TableContent().table_data.row.add()
    row.cell.extend(cells)
    return row


__all__ = ["ServedScripts"]
