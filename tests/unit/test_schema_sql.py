"""SQL DDL of Postgres, MySQL and MariaDB."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_views.errors import SchemaError
from cdc_views.model.schema import TableSchema
from cdc_views.model.types import Kind, ListOf, Scalar
from cdc_views.schemas.sql.reader import guess_dialect, read_sql

SCHEMAS = Path(__file__).parent.parent / "data" / "schemas"


def _type(written: str, *, dialect: str) -> str:
    table = read_sql(f"CREATE TABLE t (k int PRIMARY KEY, v {written} DEFAULT NULL)", dialect=dialect).table("t")
    return str(table.column("v").type)


def _shape(table: TableSchema) -> tuple[list[str], list[str]]:
    return [c.name for c in table.partition], [c.name for c in table.regulars]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("smallint", "smallint"), ("int4", "int"), ("BIGINT", "bigint"), ("bigserial", "bigint"), ("serial", "int"),
        ("numeric(12,4)", "decimal"), ("decimal", "decimal"), ("money", "text"),
        ("real", "float"), ("double precision", "double"), ("float(24)", "float"), ("float(25)", "double"),
        ("bool", "boolean"), ("text", "text"), ("character varying(20)", "text"), ("char(5)", "text"),
        ('"char"', "text"), ("citext", "text"), ("mood", "text"), ("public.mood", "text"),
        ("timestamp", "datetime"), ("timestamp(6) without time zone", "datetime"),
        ("timestamptz(3)", "instant"), ("timestamp(3) with time zone", "instant"),
        ("date", "date"), ("time(6)", "time"), ("timetz", "text"), ("time with time zone", "text"),
        ("interval", "text"), ("inet", "text"), ("cidr", "text"), ("xml", "text"), ("tsvector", "text"),
        ("json", "json"), ("jsonb", "json"), ("bytea", "blob"), ("bit(8)", "blob"), ("bit varying(8)", "blob"),
        ("bit", "boolean"), ("bit(1)", "boolean"), ("uuid", "uuid"), ("point", "blob"),
        ("geometry(Point,4326)", "blob"),
        ("int[]", "frozen<list<int>>"), ("text[3][]", "frozen<list<frozen<list<text>>>>"),
        ("int array[4]", "frozen<list<int>>"), ("timestamp(3)[]", "frozen<list<datetime>>"),
        ("pg_catalog.int4", "int"), ('"uuid"', "uuid"),
    ],
)  # fmt: skip
def test_postgres_types(written: str, expected: str) -> None:
    assert _type(written, dialect="postgres") == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("tinyint", "tinyint"), ("tinyint(1)", "tinyint"), ("tinyint unsigned", "smallint"), ("boolean", "tinyint"),
        ("smallint unsigned", "int"), ("mediumint unsigned", "int"), ("int(10) unsigned zerofill", "bigint"),
        ("int zerofill", "bigint"), ("bigint unsigned", "varint"), ("bigint(20)", "bigint"), ("serial", "varint"),
        ("decimal(20,6) unsigned", "decimal"), ("float", "float"), ("float(7,3)", "float"), ("float(30)", "double"),
        ("real", "double"), ("double", "double"), ("bit(1)", "boolean"), ("bit(10)", "blob"),
        ("varchar(50) character set utf8mb4 collate utf8mb4_bin", "text"), ("longtext", "text"),
        ("varbinary(10)", "blob"), ("binary(16)", "blob"), ("mediumblob", "blob"),
        ("date", "date"), ("time(6)", "time"), ("datetime(6)", "datetime"),
        ("timestamp(6) null on update current_timestamp(6)", "instant"), ("year", "int"),
        ("enum('a','b,)','it''s')", "text"), ("set('x','y')", "text"), ("json", "json"), ("uuid", "uuid"),
        ("inet6", "text"), ("point", "blob"), ("national varchar(5)", "text"),
    ],
)  # fmt: skip
def test_mysql_types(written: str, expected: str) -> None:
    assert _type(written, dialect="mysql") == expected


@pytest.mark.parametrize(
    ("body", "dialect", "expected"),
    [
        ("(id int PRIMARY KEY, v int)", "postgres", (["id"], ["v"])),
        ("(a int, b int, v int, PRIMARY KEY (b, a))", "postgres", (["b", "a"], ["v"])),
        ("(a int, CONSTRAINT \"p k\" PRIMARY KEY (a) INCLUDE (v), v int)", "postgres", (["a"], ["v"])),
        ("(a int NOT NULL UNIQUE CHECK (a > 0 AND a < 9), key text, \"index\" int, PRIMARY KEY (a))", "postgres",
         (["a"], ["key", "index"])),
        ("(a int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int REFERENCES o (id) ON DELETE SET NULL DEFERRABLE)",
         "postgres", (["a"], ["v"])),
        ("(a int PRIMARY KEY, v int, UNIQUE (v), FOREIGN KEY (v) REFERENCES o (a), EXCLUDE USING gist (v WITH &&))",
         "postgres", (["a"], ["v"])),
        ("(a int PRIMARY KEY, v timestamptz DEFAULT now(), w text DEFAULT 'a,b)'::text) PARTITION BY RANGE (a)",
         "postgres", (["a"], ["v", "w"])),
        ("(`a` int KEY, `v` int COMMENT 'the key, (so)')", "mysql", (["a"], ["v"])),
        (("(`a` int, `B c` int, PRIMARY KEY (`a`,`b C`(10)) USING BTREE, KEY `i` (`B c`), UNIQUE KEY u (a)) "
         "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='x;y'"), "mysql", (["a", "B c"], [])),
        ("(a int auto_increment, v int UNIQUE KEY, FULLTEXT INDEX (v), CONSTRAINT PRIMARY KEY (a))", "mysql",
         (["a"], ["v"])),
        ("(a int PRIMARY KEY, g int AS (a*2) STORED, h varchar(9) GENERATED ALWAYS AS (concat(a,')')) VIRTUAL)",
         "mysql", (["a"], ["g", "h"])),
    ],
)  # fmt: skip
def test_keys_and_constraints(body: str, dialect: str, expected: tuple[list[str], list[str]]) -> None:
    assert _shape(read_sql(f"CREATE TABLE IF NOT EXISTS t {body};", dialect=dialect).table("t")) == expected


@pytest.mark.parametrize(
    ("alter", "dialect", "expected"),
    [
        ("ALTER TABLE t ADD COLUMN x int DEFAULT 7, DROP COLUMN v", "postgres", (["id"], ["w", "x"])),
        ("ALTER TABLE ONLY t ADD x int", "postgres", (["id"], ["v", "w", "x"])),
        ("ALTER TABLE IF EXISTS t ADD COLUMN IF NOT EXISTS v int", "postgres", (["id"], ["v", "w"])),
        ("ALTER TABLE t DROP COLUMN IF EXISTS nope CASCADE, DROP v RESTRICT", "postgres", (["id"], ["w"])),
        ("ALTER TABLE t RENAME v TO x", "postgres", (["id"], ["x", "w"])),
        ("ALTER TABLE t RENAME COLUMN id TO key", "postgres", (["key"], ["v", "w"])),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD CONSTRAINT p PRIMARY KEY (v, w)", "postgres", (["v", "w"], ["id"])),
        ("ALTER TABLE t ALTER v SET STORAGE external; ALTER TABLE t REPLICA IDENTITY FULL", "postgres",
         (["id"], ["v", "w"])),
        ("ALTER TABLE t ADD (x int, y int), ADD INDEX i (x), ENGINE=InnoDB", "mysql", (["id"], ["v", "w", "x", "y"])),
        ("ALTER TABLE t CHANGE v x bigint NOT NULL AFTER w, MODIFY W text FIRST", "mysql", (["id"], ["x", "w"])),
        ("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (V)", "mysql", (["v"], ["id", "w"])),
        ("ALTER TABLE t RENAME INDEX a TO b, DROP KEY c, DROP FOREIGN KEY d", "mysql", (["id"], ["v", "w"])),
    ],
)  # fmt: skip
def test_alter_table_is_applied(alter: str, dialect: str, expected: tuple[list[str], list[str]]) -> None:
    text = f"CREATE TABLE t (id int PRIMARY KEY, v int, w int); {alter};"
    assert _shape(read_sql(text, dialect=dialect).table("t")) == expected


def test_changed_types_are_applied() -> None:
    text = "CREATE TABLE t (id int PRIMARY KEY, v int, w int); ALTER TABLE t ALTER COLUMN v TYPE bigint USING v::bigint"
    assert str(read_sql(text + ", ALTER w SET DATA TYPE text", dialect="postgres").table("t").column("w").type) == "text"
    assert str(read_sql(text, dialect="postgres").table("t").column("v").type) == "bigint"


@pytest.mark.parametrize(
    ("text", "dialect", "expected"),
    [
        ("CREATE TABLE A.B (x int PRIMARY KEY)", "postgres", ("a.b",)),
        ('CREATE TABLE "A"."b c" (x int PRIMARY KEY)', "postgres", ("A.b c",)),
        ("CREATE TABLE db.s.t (x int PRIMARY KEY)", "postgres", ("s.t",)),
        ("CREATE TABLE t (x int PRIMARY KEY)", "postgres", ("ks.t",)),
        ("SET search_path TO shop, public; CREATE TABLE t (x int PRIMARY KEY)", "postgres", ("shop.t",)),
        ("USE `Shop`; CREATE TABLE T (x int PRIMARY KEY)", "mysql", ("Shop.T",)),
        ("CREATE TABLE t (x int PRIMARY KEY); RENAME TABLE t TO b.u", "mysql", ("b.u",)),
        ("CREATE TABLE t (x int PRIMARY KEY); ALTER TABLE t RENAME TO u", "postgres", ("ks.u",)),
        ("CREATE TABLE t (x int PRIMARY KEY); ALTER TABLE t SET SCHEMA new", "postgres", ("new.t",)),
        ("CREATE TABLE t (x int PRIMARY KEY); DROP TABLE IF EXISTS nope, t", "postgres", ()),
        ("CREATE TABLE t (x int PRIMARY KEY); CREATE TABLE u (LIKE t INCLUDING ALL)", "postgres", ("ks.t", "ks.u")),
        ("CREATE TABLE t (x int PRIMARY KEY); CREATE TABLE p PARTITION OF t FOR VALUES IN (1)", "postgres", ("ks.t",)),
    ],
)
def test_names_of_tables(text: str, dialect: str, expected: tuple[str, ...]) -> None:
    assert tuple(read_sql(text, dialect=dialect, keyspace="ks").tables) == expected


def test_a_pg_dump_is_read() -> None:
    catalog = read_sql(
        """-- PostgreSQL database dump; it's long
\\restrict x'y
SET statement_timeout = 0;
SELECT pg_catalog.set_config('search_path', '', false);
CREATE FUNCTION public.f() RETURNS trigger LANGUAGE plpgsql AS $_$ BEGIN; CREATE TABLE no (a int); END $_$;
CREATE TABLE public.orders (
    id bigint NOT NULL,
    note character varying(10) DEFAULT 'it''s'::character varying
);
ALTER TABLE public.orders OWNER TO postgres;
COPY public.orders (id, note) FROM stdin;
1\tit's; CREATE TABLE x
\\.
ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_pkey PRIMARY KEY (id);
"""
    )
    assert catalog.names == ("public.orders",)
    assert _shape(catalog.table("public.orders")) == (["id"], ["note"])


@pytest.mark.parametrize("with_statements", [False, True])
def test_the_ddl_of_the_captured_postgres_tables(with_statements: bool) -> None:
    text = (SCHEMAS / "postgres_schema.sql").read_text(encoding="utf-8")
    if with_statements:
        text += (SCHEMAS / "postgres_statements.sql").read_text(encoding="utf-8")
    catalog = read_sql(text, where="s.sql")
    assert {c.name: str(c.type) for c in catalog.table("public.t_types").columns} == {
        "id": "int", "big": "bigint", "small": "smallint", "n": "decimal", "n_unb": "decimal", "r": "float",
        "d": "double", "b": "boolean", "t": "text", ("vc2" if with_statements else "vc"): "text", "ch": "text",
        "ts": "datetime", "tstz": "instant", "dt": "date", "tm": "time", "tmtz": "text", "iv": "text", "j": "json",
        "jb": "json", "by": "blob", "ai": "frozen<list<int>>", "at": "frozen<list<text>>", "u": "uuid", "ip": "text",
        "mood": "text", "toast": "text", "hs": "blob",
    }  # fmt: skip
    assert catalog.table("public.t_full").has("extra") == with_statements
    with pytest.raises(SchemaError, match=r"s\.sql: public\.t_nopk has no key"):
        catalog.table("public.t_nopk")


@pytest.mark.parametrize("with_statements", [False, True])
def test_the_ddl_of_the_captured_mariadb_tables(with_statements: bool) -> None:
    text = (SCHEMAS / "mariadb_schema.sql").read_text(encoding="utf-8")
    if with_statements:
        text += (SCHEMAS / "mariadb_statements.sql").read_text(encoding="utf-8")
    catalog = read_sql(text)
    found = {c.name: str(c.type) for c in catalog.table("lab.t_types").columns}
    assert (found.pop("extra", None) == "int") == with_statements
    assert found == {
        "id": "int", "ubig": "varint", "tiny1": "tinyint", "tiny": "tinyint", "n": "decimal", "f": "float",
        "d": "double", "b1": "boolean", "b8": "blob", "vc": "text", "lat": "text",
        ("txt2" if with_statements else "txt"): "text", "bin": "blob", "bl": "blob", "dt": "date", "tm": "time",
        "dtm": "datetime", "ts": "instant", "y": "int", "en": "text", "st": "text", "js": "json", "uu": "uuid",
        "ip": "text", "pt": "blob", "gen": "int",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("create table `t` (a int)", "mysql"),
        ("create table t (a int auto_increment primary key)", "mysql"),
        ("create table t (a int unsigned, b datetime)", "mysql"),
        ("create table t (a serial, b jsonb)", "postgres"),
        ("create table t (a int, b text) -- not `mysql`, unsigned", "postgres"),
        ("create table t (a int, b text default 'auto_increment')", "postgres"),
    ],
)
def test_the_dialect_is_guessed_from_the_words_of_the_text(text: str, expected: str) -> None:
    assert guess_dialect(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE TABLE t (a int, PRIMARY KEY (b))", "the key names 'b', which is no column"),
        ("CREATE TABLE t AS SELECT 1 AS a", "without columns"),
        ("CREATE TABLE t (a int PRIMARY KEY, a int)", "is there already"),
        ("CREATE TABLE t (LIKE u)", "LIKE names a table that the file does not create"),
        ("ALTER TABLE t ADD a int", "never created in this file"),
        ("CREATE TABLE t (a int PRIMARY KEY, abc int); ALTER TABLE t DROP abd", "did you mean 'abc'"),
        ("CREATE TABLE t (a int PRIMARY KEY, b int); ALTER TABLE t DROP b; ALTER TABLE t ADD b int", "added again"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_when_asked_for(text: str, expected: str) -> None:
    catalog = read_sql(f"{text}; CREATE TABLE other (a int PRIMARY KEY)", dialect="postgres")
    assert tuple(catalog.tables) == ("other",)
    with pytest.raises(SchemaError) as caught:
        catalog.table("t")
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("CREATE TABLE t (a int,\n 5 int)", "2:2", "expected a column's name, found '5'"),
        ("CREATE TABLE t (a int,\n b)", "2:3", "expected the column's type, found ')'"),
        ("CREATE TABLE t (a int", "1:22", "expected ')', found the end"),
        ("CREATE TABLE (a int)", "1:14", "expected a table's name"),
    ],
)
def test_what_is_not_ddl_is_refused_at_its_place(text: str, place: str, expected: str) -> None:
    with pytest.raises(SchemaError) as caught:
        read_sql(text, where="s.sql", dialect="postgres")
    assert str(caught.value).startswith(f"s.sql:{place}: ")
    assert expected in str(caught.value)


def test_an_open_string_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"^s\.sql: the file cannot be split into postgres tokens"):
        read_sql("CREATE TABLE t (a text DEFAULT 'x)", where="s.sql", dialect="postgres")


@pytest.mark.parametrize(
    ("dialect", "written", "size", "shown"),
    [
        ("postgres", "numeric(12,4)", (12, 4), (12, 4)), ("postgres", "numeric(9)", (9, 0), (9, 0)),
        ("postgres", "numeric", (None, None), None), ("postgres", "dec(3, 1)", (3, 1), (3, 1)),
        ("postgres", "numeric(5,-2)", (5, -2), (7, 0)), ("postgres", "numeric(2,5)", (2, 5), (5, 5)),
        ("postgres", "numeric(39,2)", (39, 2), None), ("postgres", "numeric(38,38)", (38, 38), None),
        ("postgres", "numeric(38,37)", (38, 37), (38, 37)),
        ("postgres", "int", (None, None), None), ("mysql", "decimal(20,6) unsigned", (20, 6), (20, 6)),
        ("mysql", "decimal", (10, 0), (10, 0)), ("mysql", "fixed(5)", (5, 0), (5, 0)),
        ("mysql", "float(7,3)", (None, None), None),
    ],
)  # fmt: skip
def test_the_size_of_a_decimal(
    dialect: str, written: str, size: tuple[int | None, int | None], shown: tuple[int, int] | None
) -> None:
    table = read_sql(f"create table t (id int primary key, a {written})", dialect=dialect).tables["t"]
    found = table.column("a").type
    assert isinstance(found, Scalar)
    assert (found.precision, found.scale) == size
    assert found.decimal_size == shown


def test_an_array_of_decimals_has_their_size() -> None:
    table = read_sql("create table t (id int primary key, a numeric(4,2)[])", dialect="postgres").tables["t"]
    assert table.column("a").type == ListOf(Scalar(Kind.DECIMAL, 2, 4))


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        (
            "postgres",
            "CREATE TABLE s.t (id int PRIMARY KEY, old text, comment text DEFAULT 'x');\n"
            "COMMENT ON TABLE s.t IS 'One row a day; it''s whole.'; COMMENT ON COLUMN s.t.old IS 'Of it';\n"
            "COMMENT ON TABLE s.v IS 'no table'; COMMENT ON COLUMN s.t.nope IS 'x'; COMMENT ON INDEX s.i IS 'x';\n"
            "COMMENT ON COLUMN s.t.id IS 'gone'; COMMENT ON COLUMN s.t.id IS NULL; ALTER TABLE s.t RENAME old TO new;",
        ),
        (
            "mysql",
            "CREATE TABLE s.t (id int PRIMARY KEY, `old` text COMMENT 'Of', comment text) ENGINE=InnoDB COMMENT='One row a day; "
            "it''s whole.';\nALTER TABLE s.t CHANGE `old` `new` text COMMENT 'Of it';",
        ),
    ],
)
def test_comments_are_descriptions(dialect: str, text: str) -> None:
    table = read_sql(text, dialect=dialect).table("s.t")
    assert table.description == "One row a day; it's whole."
    assert {column.name: column.description for column in table.columns} == {"id": "", "new": "Of it", "comment": ""}
