"""Slips in DDL are told, and what is meant is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_views.schemas import read_catalog

GOOD = "CREATE TABLE shop.good (id int PRIMARY KEY);\n"


def notes(folder: Path, text: str, *, name: str = "schema.sql") -> tuple[str, ...]:
    file = folder / name
    file.write_text(GOOD + text)
    return tuple(note.removeprefix(f"{file}:") for note in read_catalog(file).notes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE TABLE a (id bigitn PRIMARY KEY);", "2: type 'bigitn' is not known, and is read as text; did you mean 'bigint'?"),
        (
            "CREATE TABLE a (id int PRIMARY KEY, t timestmp);",
            "2: type 'timestmp' is not known, and is read as text; did you mean ",
        ),
        ("CREATE TALBE a (id int PRIMARY KEY);", "2: a statement with 'TALBE' is passed over; did you mean TABLE?"),
        ("CRAETE TABLE a (id int PRIMARY KEY);", "2: a statement with 'CRAETE' is passed over; did you mean CREATE?"),
        ("\nALTR TABLE shop.good ADD x int;", "3: a statement with 'ALTR' is passed over; did you mean ALTER?"),
    ],
)
def test_a_slip_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    (found,) = notes(tmp_path, text)
    assert found.startswith(said)


@pytest.mark.parametrize("text", ["CREATE TALBE ks.a (id int PRIMARY KEY);", "CRAETE TABLE ks.a (id int PRIMARY KEY);"])
def test_in_cql_too(tmp_path: Path, text: str) -> None:
    (found,) = notes(tmp_path, text, name="schema.cql")
    assert found.startswith("2: a statement with ")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TYPE bigits AS ENUM ('a'); CREATE TABLE a (id int PRIMARY KEY, b bigits);",
        "CREATE DOMAIN shop.texts AS text; CREATE TABLE a (id int PRIMARY KEY, b texts, c shop.texts);",
        "CREATE TABLE a (id int PRIMARY KEY, b citext, c mood, d email, e money, f tsvector, g hstore, h double precision);",
        "CREATE TABLE a (id int PRIMARY KEY, b character varying(5), c timestamp with time zone, d int[], e varbit(3));",
        "CREATE TABLE a (id int PRIMARY KEY, b enum('x'), c mediumtext, d bit(1), e inet6, f datetime, g year) ENGINE=InnoDB;",
        "CREATE INDEX i ON a (b); CREATE VIEW v AS SELECT 1; GRANT SELECT ON a TO b; SET x = 1; BEGIN; COMMIT; SELECT 1;",
        "CREATE EXTENSION citext; CREATE SEQUENCE s; CREATE FUNCTION f() RETURNS int AS $$ x $$; CREATE TABLESPACE t;",
        "CREATE UNIQUE INDEX i ON a (b); CREATE TRIGGER t BEFORE INSERT ON a; REVOKE ALL ON a FROM b; ANALYZE; TRUNCATE a;",
    ],
)
def test_what_is_meant_is_not(tmp_path: Path, text: str) -> None:
    assert notes(tmp_path, text) == ()


def test_no_schema_of_these_tests_has_one() -> None:
    files = [file for suffix in ("cql", "sql") for file in Path(__file__).parents[1].joinpath("data").rglob(f"*.{suffix}")]
    assert len(files) > 10
    found = {file.name: read_catalog(file).notes for file in files}
    assert {name: told for name, told in found.items() if told} == {}
