"""A table that is added to the project file while a producer runs: it goes on with it, or says why not."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import pytest
from helpers.producing import eventually

from cdc_views.cli.added_tables import FollowedTables
from cdc_views.cli.producing import chosen_names, facts_of, targets_of
from cdc_views.errors import UsageError
from cdc_views.landing.targets import ProducerOrder


@dataclass
class Said:
    lines: list[str] = field(default_factory=list)

    def info(self, message: str, **_: object) -> None:
        self.lines.append(message)

    warning = info

    def __contains__(self, part: str) -> bool:
        return any(part in line for line in self.lines)


@dataclass
class Project:
    """A project file of tables `public.NAME`, and the runs of a producer that only waits."""

    file: Path
    log: Said = field(default_factory=Said)
    runs: list[list[str]] = field(default_factory=list)
    refuses: Callable[[Sequence[str]], str] = lambda _: ""
    stop: Event = field(default_factory=Event)

    def write(self, *tables: str) -> None:
        entries = [{"name": f"public.{name}", "schema": f"{name}.sql", "raw": {"format": "debezium"}} for name in tables]
        text = json.dumps({"name": "shop", "engine": "duckdb", "tables": entries})
        draft = self.file.with_suffix(".draft")
        draft.write_text(text)
        os.replace(draft, self.file)

    def schema(self, name: str) -> None:
        (self.file.parent / f"{name}.sql").write_text(f"CREATE TABLE public.{name} (a int PRIMARY KEY);")

    def order(self, names: Sequence[str] = ()) -> ProducerOrder:
        targets = targets_of(self.file, names, format_name="debezium", log=self.log)
        return ProducerOrder(targets=targets, log=self.log, stop=Event(), project=facts_of(self.file))

    def produce(self, order: ProducerOrder) -> None:
        names = [target.name.removeprefix("public.") for target in order.targets]
        self.runs.append(names)
        if why := self.refuses(names):
            raise UsageError(why)
        order.stop.wait(30)

    def begin(self, *, takes: bool = True) -> Thread:
        names = lambda: chosen_names(self.file, format_name="debezium")  # noqa: E731
        tables = FollowedTables(self.file, self.order, names, self.produce, self.log, takes)
        order = self.order()
        thread = Thread(target=lambda: tables.run(order, self.stop), daemon=True)
        thread.start()
        return thread


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "cdc_views.yml")
    for name in "abc":
        made.schema(name)
    made.write("a")
    return made


def ended(project: Project, thread: Thread) -> None:
    project.stop.set()
    thread.join(5)
    assert not thread.is_alive()


def test_it_goes_on_with_the_new_table(project: Project) -> None:
    thread = project.begin()
    eventually(lambda: project.runs == [["a"]])
    project.write("a", "b")
    eventually(lambda: project.runs == [["a"], ["a", "b"]], what=project.log)
    assert "public.b: added to" in project.log
    ended(project, thread)
    assert len(project.runs) == 2


def test_a_table_whose_schema_comes_later_waits_for_it(project: Project) -> None:
    thread = project.begin()
    project.write("a", "later")
    eventually(lambda: "later.sql, is no file" in project.log, what=project.log)
    project.schema("later")
    eventually(lambda: project.runs[1:] == [["a", "later"]], what=project.log)
    ended(project, thread)


def test_one_that_the_source_lacks_is_left_out_until_the_file_is_saved_again(project: Project) -> None:
    there = {"a", "c"}
    project.refuses = lambda names: "no such table" if set(names) - there else ""
    thread = project.begin()
    project.write("a", "b")
    eventually(lambda: project.runs == [["a"], ["a", "b"], ["a"]], what=project.log)
    assert "public.b: cannot be added: no such table" in project.log
    there.add("b")
    project.write("a", "b", "c")
    eventually(lambda: project.runs[3:] == [["a", "b", "c"]], what=project.log)
    ended(project, thread)


def test_a_failure_without_added_tables_ends_the_producer(project: Project) -> None:
    project.refuses = lambda _: "wrong"
    tables = FollowedTables(project.file, project.order, lambda: (), project.produce, project.log)
    with pytest.raises(UsageError, match="wrong"):
        tables.run(project.order(), project.stop)


def test_where_it_may_not_begin_anew_it_says_so(project: Project) -> None:
    thread = project.begin(takes=False)
    project.write("a", "b")
    eventually(lambda: "public.b: added to" in project.log, what=project.log)
    assert "the next start of this producer" in project.log
    ended(project, thread)
    assert project.runs == [["a"]]
