"""BigQuery's scripts, run without BigQuery: every SELECT by GoogleSQL's reference implementation, the rest applied here.

`zetasql` analyses MERGE, INSERT, UPDATE, DELETE and DDL, but runs SELECT alone. So each statement is analysed as it
stands; then its parts, cut out of the very text, are run as SELECTs, and their effect is applied to the tables. What
BigQuery does on its own is done here too: a transaction that does not end is rolled back, arrays are stored as
`bigquery_values.stored` says, and a MERGE in which two source rows match one target row is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from copy import copy

from sqlglot.dialects.bigquery import BigQuery
from sqlglot.tokens import Token

from helpers.bigquery_values import ROW_NUMBER, Evaluator, Table, Typed, stored

_NAME = r"(`[^`]+`|\w+)"


class ScriptError(Exception):
    """The script failed; a transaction that was going on was rolled back."""


class KilledError(Exception):
    """The script was stopped on purpose."""


class Bench:
    """Tables, views and variables, and the scripts that work on them."""

    def __init__(self, engine: Evaluator) -> None:
        """Begin with nothing; `now` (µs since the epoch) is what CURRENT_TIMESTAMP gives."""
        self.engine, self.now = engine, 0
        self.tables: dict[str, Table] = {}
        self.views: dict[str, str] = {}
        self.variables: dict[str, Typed] = {}
        self.statements = 0
        self._before: dict[str, Table] | None = None
        self._begun: dict[tuple[str, str | None], Typed] = {}

    def run(self, script: str, *, kill_at: int | None = None) -> Table | None:
        """Run a script and return the rows of its last SELECT; `kill_at` is the number of the statement not to reach.

        Raises `KilledError` then, and `ScriptError` where the script fails; either rolls a transaction back.
        """
        self.engine.parse(script)
        self.variables, self.statements, answer = {}, 0, None
        try:
            for statement in statements(script):
                if self.statements == kill_at:
                    raise KilledError(statement[:60])
                answer = self._run(statement) or answer
                self.statements += 1
        except Exception:
            if self._before is not None:
                self.tables, self._before = self._before, None
            raise
        assert self._before is None, "the script ends within its transaction"
        return answer

    def query(self, sql: str) -> Table:
        """Return the rows of a SELECT over tables and views."""
        return self.engine.select(self._timed(sql), self._named(sql), self._used(sql))

    def _run(self, text: str) -> Table | None:
        for pattern, apply in self._kinds():
            found = re.match(pattern, text, re.DOTALL)
            if found is not None:
                return apply(text, *found.groups())
        raise ScriptError(f"no way to run {text[:80]!r}")

    def _kinds(self) -> Iterator[tuple[str, Callable[..., Table | None]]]:
        yield r"DECLARE (.+?) (TIMESTAMP|INT64|BOOL|ARRAY<INT64>)(?: DEFAULT (.+))?\Z", self._declare
        yield r"SET \((.+?)\) = (\(.+\))\Z", self._set
        yield r"SET (\w+) = (.+)\Z", self._set
        yield r"ASSERT (.+) AS '(.*)'\Z", self._assert
        yield r"IF (.+?) THEN(.+)END IF\Z", self._if
        yield r"BEGIN TRANSACTION\Z", self._begin
        yield r"COMMIT TRANSACTION\Z", self._commit
        yield rf"CREATE TEMP TABLE {_NAME} AS\s(.+)\Z", self._create_as
        yield rf"CREATE TABLE IF NOT EXISTS {_NAME} (\(.+)\Z", self._create
        yield rf"CREATE (?:OR REPLACE )?VIEW (IF NOT EXISTS )?{_NAME} AS\s(.+)\Z", self._view
        yield rf"MERGE {_NAME} AS _t\s+USING \(", self._merge
        yield rf"INSERT INTO {_NAME} \((.+?)\)\s+(SELECT .+)\Z", self._insert
        yield rf"DELETE FROM {_NAME} WHERE (.+)\Z", self._delete
        yield rf"UPDATE {_NAME}\s+SET\s(.+)\sWHERE (.+)\Z", self._update
        yield rf"TRUNCATE TABLE {_NAME}\Z", self._truncate
        yield rf"DROP TABLE (?:IF EXISTS )?{_NAME}\Z", self._drop
        yield r"EXECUTE IMMEDIATE (.+)\Z", self._execute
        yield r"(SELECT\s.+)\Z", lambda text, sql: self.query(sql)

    def _timed(self, sql: str) -> str:
        return sql.replace("CURRENT_TIMESTAMP()", f"TIMESTAMP_MICROS({self.now})")

    def _used(self, sql: str) -> dict[str, Typed]:
        return {name: typed for name, typed in self.variables.items() if name in sql}

    def _named(self, sql: str) -> dict[str, Table]:
        """The tables that the text names, and the views, as tables."""
        named = {name: table for name, table in self.tables.items() if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sql)}
        return named | {name: self.query(text) for name, text in self.views.items() if f"`{name}`" in sql}

    def _analyse(self, text: str) -> None:
        self.engine.analyse(text, self._named(text), self._used(text))

    def _value(self, sql: str) -> Typed:
        found = self.query(f"SELECT {sql} AS v")
        return found.columns[0][1], found.rows[0][0]

    def _declare(self, text: str, names: str, kind: str, default: str | None) -> None:
        begun = self._begun.get((kind, default)) or self._value(f"CAST({default or 'NULL'} AS {kind})")
        self._begun[kind, default] = begun
        self.variables |= dict.fromkeys(names.split(", "), begun)

    def _set(self, text: str, names: str, value: str) -> None:
        kind, found = self._value(value)
        wanted = names.split(", ")
        parts = zip(kind.struct_type.field, found.struct_value.field, strict=True) if len(wanted) > 1 else ()
        given = [(part.field_type, of) for part, of in parts] or [(kind, found)]
        for name, (of, one) in zip(wanted, given, strict=True):
            assert self.variables[name][0].type_kind == of.type_kind, f"{name} is of another type"
            self.variables[name] = (self.variables[name][0], one)

    def _assert(self, text: str, condition: str, message: str) -> None:
        self._analyse(text)
        if not self._value(condition)[1].bool_value:
            raise ScriptError(message)

    def _if(self, text: str, condition: str, body: str) -> None:
        holds = self._value(condition)[1].bool_value
        for statement in statements(body):
            if holds:
                self._run(statement)
            else:
                self._analyse(statement)

    def _begin(self, text: str) -> None:
        self._before = {name: Table(table.columns, copy(table.rows)) for name, table in self.tables.items()}

    def _commit(self, text: str) -> None:
        self._before = None

    def _create_as(self, text: str, name: str, sql: str) -> None:
        self._analyse(text)
        assert name not in self.tables, f"there is a table {name} already"
        found = self.query(sql)
        self.tables[name] = Table(found.columns, [stored(row, found.columns) for row in found.rows])

    def _create(self, text: str, name: str, rest: str) -> None:
        self._analyse(text)
        body, first = parenthesized(rest), rest.rpartition("\nAS SELECT ")[2] if "\nAS SELECT " in rest else ""
        columns = [re.match(rf"{_NAME} (.+?)(?: OPTIONS.*)?\Z", part, re.DOTALL) for part in split(body)]
        selected = ", ".join(f"CAST(NULL AS {found[2]}) AS {found[1]}" for found in columns if found)
        made = self.query(f"SELECT {selected}")
        if name.strip("`") not in self.tables:
            names = [found[1] for found in columns if found]
            self.tables[name.strip("`")] = Table(made.columns)
            self._append(self.tables[name.strip("`")], names, self.query(f"SELECT {first}").rows if first else [])

    def _view(self, text: str, if_missing: str | None, name: str, sql: str) -> None:
        self._analyse(text)
        if not (if_missing and name.strip("`") in self.views):
            self.views[name.strip("`")] = sql

    def _insert(self, text: str, name: str, columns: str, sql: str) -> None:
        self._analyse(text)
        self._append(self.tables[name.strip("`")], split(columns), self.query(sql).rows)

    def _append(self, table: Table, columns: list[str], rows: list[list[object]]) -> None:
        places = [table.index(column) for column in columns]
        empty = [type(row[0])() for row in rows[:1]] * len(table.columns)
        for row in rows:
            made = list(empty)
            for place, value in zip(places, row, strict=True):
                made[place] = value
            table.rows.append(stored(made, table.columns))

    def _delete(self, text: str, name: str, condition: str) -> None:
        self._analyse(text)
        gone = self._numbers(name, f"SELECT {ROW_NUMBER} FROM {name} WHERE {condition}")
        table = self.tables[name.strip("`")]
        table.rows = [row for n, row in enumerate(table.rows) if n not in gone]

    def _numbers(self, name: str, sql: str) -> dict[int, list[object]]:
        """The rows of a query over the table and its row numbers: number → the other values."""
        tables = self._named(sql) | {name.strip("`"): self.tables[name.strip("`")].numbered()}
        found = self.engine.select(self._timed(sql), tables, self._used(sql))
        return {row[0].int64_value: row[1:] for row in found.rows}

    def _update(self, text: str, name: str, assignments: str, condition: str) -> None:
        self._analyse(text)
        columns, given = assigned(assignments)
        table = self.tables[name.strip("`")]
        changed = self._numbers(name, f"SELECT {ROW_NUMBER}, {', '.join(given)} FROM {name} WHERE {condition}")
        self._change(table, columns, changed)

    def _change(self, table: Table, columns: list[str], changed: dict[int, list[object]]) -> None:
        places = [table.index(column) for column in columns]
        for n, given in changed.items():
            row = list(table.rows[n])
            for place, value in zip(places, given, strict=True):
                row[place] = value
            table.rows[n] = stored(row, table.columns)

    def _truncate(self, text: str, name: str) -> None:
        self._analyse(text)
        self.tables[name.strip("`")].rows = []

    def _drop(self, text: str, name: str) -> None:
        self._analyse(text)
        del self.tables[name]

    def _execute(self, text: str, expression: str) -> None:
        self._analyse(text)
        self._run(self._value(expression)[1].string_value)

    def _merge(self, text: str, name: str) -> None:
        self._analyse(text)
        target, merge = self.tables[name.strip("`")], Merge(text)
        tables = self._named(text) | {"_target": target.numbered(), "_source": self.query(merge.source).numbered()}
        joined = f"FROM _target AS _t JOIN _source AS _s ON {merge.condition}"

        def select(sql: str) -> list[list[object]]:
            return self.engine.select(self._timed(sql), tables, self._used(sql)).rows

        pairs = [(t.int64_value, s.int64_value) for t, s in select(f"SELECT _t.{ROW_NUMBER}, _s.{ROW_NUMBER} {joined}")]
        free, matched = set(pairs), {s for _, s in pairs}
        gone: set[int] = set()
        changes: list[tuple[list[str], dict[int, list[object]]]] = []
        added: list[tuple[list[str], list[list[object]]]] = []
        for when in merge.whens:
            if not when.is_matched:
                rows = select(f"SELECT {ROW_NUMBER}, {', '.join(when.given)} FROM _source AS _s WHERE {when.condition}")
                mine = {row[0].int64_value: row[1:] for row in rows if row[0].int64_value not in matched}
                matched |= mine.keys()
                added.append((when.columns, list(mine.values())))
                continue
            values = ", ".join([f"_t.{ROW_NUMBER}", f"_s.{ROW_NUMBER}", *when.given])
            rows = select(f"SELECT {values} {joined} WHERE {when.condition}")
            taken = {(row[0].int64_value, row[1].int64_value): row[2:] for row in rows}
            taken = {pair: row for pair, row in taken.items() if pair in free}
            free -= taken.keys()
            if len({t for t, _ in taken}) < len(taken) or gone & {t for t, _ in taken}:
                raise ScriptError("MERGE must match at most one source row for each target row")
            if when.columns:
                changes.append((when.columns, {t: row for (t, _), row in taken.items()}))
            else:
                gone |= {t for t, _ in taken}
        for columns, changed in changes:
            self._change(target, columns, changed)
        target.rows = [row for n, row in enumerate(target.rows) if n not in gone]
        for columns, rows in added:
            self._append(target, columns, rows)


class When:
    """One WHEN branch; without `columns` it deletes."""

    def __init__(self, text: str) -> None:
        found = re.match(r"WHEN (NOT )?MATCHED(?: AND (.+?))? THEN\s+(.+)\Z", text, re.DOTALL)
        assert found is not None, text[:80]
        self.is_matched, self.condition, action = found[1] is None, found[2] or "TRUE", found[3].strip()
        self.columns: list[str] = []
        self.given: list[str] = []
        if action.startswith("UPDATE SET "):
            self.columns, self.given = assigned(action.removeprefix("UPDATE SET "))
        elif action.startswith("INSERT "):
            inserted = parenthesized(action.removeprefix("INSERT "))
            self.columns, self.given = split(inserted), split(parenthesized(action.split("VALUES ", 1)[1]))
        else:
            assert action == "DELETE", action[:80]


class Merge:
    """The parts of a MERGE statement, as its text has them."""

    def __init__(self, text: str) -> None:
        begin = text.index("USING (") + len("USING ")
        self.source = parenthesized(text[begin:])
        rest = text[begin + len(self.source) + 2 :]
        places = [token.start for token, depth in leveled(rest) if depth == 0 and token.text.upper() == "WHEN"]
        found = re.match(r"\s*AS _s\s+ON (.+)\Z", rest[: places[0]], re.DOTALL)
        assert found is not None, rest[:80]
        self.condition = found[1].strip()
        self.whens = [When(rest[a:b].strip()) for a, b in zip(places, [*places[1:], len(rest)], strict=True)]


def assigned(text: str) -> tuple[list[str], list[str]]:
    """Return the columns and the values of `a = x, b = y`."""
    pairs = [part.split(" = ", 1) for part in split(text)]
    return [column.strip() for column, _ in pairs], [value for _, value in pairs]


def leveled(text: str) -> Iterator[tuple[Token, int]]:
    """Yield each token and how many parentheses, brackets and types' angle brackets it is inside of."""
    opened: list[str] = []
    before = ""
    for token in BigQuery.Tokenizer(dialect=BigQuery()).tokenize(text):
        word = token.text.upper()
        if word in (")", "]"):
            opened.pop()
        for _ in word if word in (">", ">>") else ():
            if opened[-1:] == ["<"]:
                opened.pop()
        yield token, len(opened)
        if word in ("(", "[") or (word == "<" and before in ("ARRAY", "STRUCT")):
            opened.append(word)
        before = word


def split(text: str) -> list[str]:
    """Return what commas separate outside of any parentheses."""
    places = [token.start for token, depth in leveled(text) if depth == 0 and token.text == ","]
    return [text[a:b].strip() for a, b in zip([0, *(p + 1 for p in places)], [*places, len(text)], strict=True)]


def parenthesized(text: str) -> str:
    """Return what stands inside the parentheses that the text begins with."""
    end = next(token.start for token, depth in leveled(text) if depth == 0 and token.text == ")")
    return text[1:end]


def statements(script: str) -> list[str]:
    """Return the statements of a script without comment lines; an IF with its body is one."""
    tokens = BigQuery.Tokenizer(dialect=BigQuery()).tokenize(script)
    found: list[str] = []
    begin, ifs = 0, 0
    for before, token in zip([None, *tokens], tokens, strict=False):
        word = token.text.upper()
        if word == "IF" and (before is None or before.text == ";"):
            ifs += 1
        if word == ";" and ifs and not re.search(r"\bEND IF\s*\Z", script[begin : token.start]):
            continue
        if word == ";":
            found.append(script[begin : token.start])
            begin, ifs = token.start + 1, 0
    found.append(script[begin:])
    return [text for text in map(_uncommented, found) if text]


def _uncommented(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("-- ")).strip()
