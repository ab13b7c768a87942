"""A todo list in PostgreSQL: somebody adds tasks, changes them, ticks them off and throws them away."""

from __future__ import annotations

import random
from typing import Any

import psycopg
from cdc_producers.postgres.connections import postgres_errors
from psycopg import conninfo

from cdc_views.errors import UsageError

DDL = """\
CREATE TABLE IF NOT EXISTS public.todo (
  id bigint PRIMARY KEY,
  task text NOT NULL,
  note text,
  priority int NOT NULL DEFAULT 3,
  is_done boolean NOT NULL DEFAULT false,
  due date,
  changed_at timestamptz NOT NULL DEFAULT now()
);
"""
_FEWEST, _MOST = 5, 500
_VERBS = ("buy", "call", "fix", "read", "write", "water", "clean", "send", "mend", "plan")
_THINGS = (
    "milk",
    "the bank",
    "the bike",
    "a report",
    "the letter",
    "the plants",
    "the kitchen",
    "an invoice",
    "socks ☃",
    "a trip",
)


class TodoList:
    """See `workloads.workload.Workload`. An update may leave a long note as it was, which TOAST keeps apart."""

    def __init__(self, address: str, chance: random.Random) -> None:
        """Keep the address; connect later."""
        self._address, self._chance = address, chance
        self._connection: Any = None
        self._ids: list[int] = []
        self._next = 1

    def prepare(self) -> None:
        """See `Workload.prepare`."""
        self._run(DDL, ())
        self._ids = [number for (number,) in self._run("SELECT id FROM public.todo ORDER BY id", ())]
        self._next = max(self._ids, default=0) + 1

    def step(self) -> str:
        """See `Workload.step`."""
        pick = self._chance.random()
        if len(self._ids) < _FEWEST or (pick < 0.4 and len(self._ids) < _MOST):
            return self._insert()
        return self._update() if pick < 0.8 else self._delete()

    def _insert(self) -> str:
        number, self._next = self._next, self._next + 1
        values = (
            number,
            self._task(),
            self._note(),
            self._chance.randrange(1, 6),
            f"2027-01-{self._chance.randrange(1, 29):02d}",
        )
        self._run("INSERT INTO public.todo (id, task, note, priority, due) VALUES (%s, %s, %s, %s, %s)", values)
        self._ids.append(number)
        return "insert"

    def _update(self) -> str:
        number = self._chance.choice(self._ids)
        column, value = self._chance.choice(
            (
                ("is_done", True),
                ("is_done", False),
                ("priority", self._chance.randrange(1, 6)),
                ("task", self._task()),
                ("note", self._note()),
            )
        )
        self._run(f"UPDATE public.todo SET {column} = %s, changed_at = now() WHERE id = %s", (value, number))
        return "update"

    def _delete(self) -> str:
        number = self._ids.pop(self._chance.randrange(len(self._ids)))
        self._run("DELETE FROM public.todo WHERE id = %s", (number,))
        return "delete"

    def _task(self) -> str:
        return f"{self._chance.choice(_VERBS)} {self._chance.choice(_THINGS)}"

    def _note(self) -> str | None:
        return self._chance.choice((None, "", "soon", "n" * 3000 + str(self._chance.random())))

    def _run(self, text: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with postgres_errors("making a change"):
            try:
                if self._connection is None:
                    self._connection = psycopg.connect(
                        self._address, autocommit=True, application_name="cdc-views workload", connect_timeout=10
                    )
                with self._connection.cursor() as cursor:
                    cursor.execute(text, values)
                    return list(cursor.fetchall()) if cursor.description else []
            except psycopg.Error:
                self.close()
                raise

    def close(self) -> None:
        """See `Workload.close`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def open_workload(address: str, chance: random.Random) -> TodoList:
    """Return the workload; an empty address means libpq's variables."""
    try:
        conninfo.conninfo_to_dict(address)
    except psycopg.ProgrammingError:
        # its message would quote the DSN
        raise UsageError("--postgres is no connection string; postgresql://user@host/database was expected") from None
    return TodoList(address, chance)
