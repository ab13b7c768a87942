"""CQL files: statements of every form, names of every kind, and errors that name the place."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_views.errors import SchemaError, UnsupportedError
from cdc_views.model.schema import DroppedColumn, Role, TableSchema
from cdc_views.model.types import Kind, ListOf, Scalar, Udt
from cdc_views.schemas.cql.reader import read_cql
from cdc_views.schemas.table_draft import NEVER_SHOWS

SCHEMAS = Path(__file__).parent.parent / "data" / "schemas"
INT, TEXT = Scalar(Kind.INT), Scalar(Kind.TEXT)


def _table(text: str, name: str = "ks.t") -> TableSchema:
    return read_cql(text, keyspace="ks", where="f.cql").table(name)


def _roles(table: TableSchema) -> list[str]:
    return [f"{c.name} {c.role.value}{' desc' if c.descending else ''}" for c in table.columns]


# --- keys and options -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("(a int PRIMARY KEY, b int)", ["a partition", "b regular"]),
        ("(b int, a int, PRIMARY KEY (a))", ["a partition", "b regular"]),
        ("(b int, a int, primary key (a, b))", ["a partition", "b clustering"]),
        ("(c int, b int, a int, PRIMARY KEY ((b, a), c))", ["b partition", "a partition", "c clustering"]),
        ("(a int, s int static, b int, c int, PRIMARY KEY ((a), b))",
         ["a partition", "b clustering", "s static", "c regular"]),
        ("(a int, b int, c int, PRIMARY KEY (a, b, c)) WITH CLUSTERING ORDER BY (b DESC, c)",
         ["a partition", "b clustering desc", "c clustering"]),
        (("(a int, b int, PRIMARY KEY (a, b)) WITH COMPACT STORAGE AND comment = 'it''s; a trap' "
         "AND compaction = {'class': 'X', 'opts': {'a': 1}} AND CLUSTERING ORDER BY (b desc) AND gc_grace_seconds = 5 "
         "AND id = 74eb34f0-e597-11f1-bb77-574fd902ab3a AND speculative_retry = '99p'"),
         ["a partition", "b clustering desc"]),
        ("(a int PRIMARY KEY, b text MASKED WITH mask_inner(1, null), c int CHECK c > 0 AND c < 9)",
         ["a partition", "b regular", "c regular"]),
        (("(a int, b 'org.apache.cassandra.db.marshal.ReversedType(org.apache.cassandra.db.marshal.Int32Type)', "
         "PRIMARY KEY (a, b))"), ["a partition", "b clustering desc"]),
        ("(key int PRIMARY KEY, type int, static int, list int, primary int, timestamp timestamp)",
         ["key partition", "type regular", "static regular", "list regular", "primary regular", "timestamp regular"]),
    ],
)  # fmt: skip
def test_key_and_options_of_create_table(body: str, expected: list[str]) -> None:
    assert _roles(_table(f"CREATE TABLE ks.t {body};")) == expected


def test_statements_that_shape_no_table_are_skipped() -> None:
    table = _table(
        """
        CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CONSISTENCY QUORUM
        USE ks;
        -- CREATE TABLE no (a int PRIMARY KEY);
        // CREATE TABLE no (a int PRIMARY KEY);
        /* CREATE TABLE no (a int PRIMARY KEY); */
        CREATE COLUMNFAMILY t (a int PRIMARY KEY, b int);
        --
        CREATE INDEX i ON t (b);
        CREATE CUSTOM INDEX ON t (b) USING 'org.Index' WITH OPTIONS = {'a': 'CREATE TABLE x'};
        CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE b IS NOT NULL PRIMARY KEY (b, a);
        CREATE OR REPLACE FUNCTION f(x int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE java
            AS $$ if (x > 1) { return 'a;b'.length(); } return 1; $$;
        CREATE ROLE r WITH PASSWORD = 'CREATE TABLE y (a int PRIMARY KEY);' AND LOGIN = true;
        BEGIN BATCH INSERT INTO t (a, b) VALUES (1, 2); UPDATE t SET b = 1 WHERE a = 1; APPLY BATCH;
        ALTER TABLE t WITH comment = 'x' AND gc_grace_seconds = 1;
        ALTER TABLE t DROP COMPACT STORAGE;
        GRANT ALL ON t TO r
        """
    )
    assert _roles(table) == ["a partition", "b regular"]


# --- names ------------------------------------------------------------------------------------------------------


def test_unquoted_names_are_lower_case_and_quoted_ones_as_written() -> None:
    catalog = read_cql('CREATE TABLE Ks.T (A int PRIMARY KEY, "B" int); CREATE TABLE "Ks"."T" (a int PRIMARY KEY);')
    assert catalog.names == ("ks.t", "Ks.T")
    assert [c.name for c in catalog.tables["ks.t"].columns] == ["a", "B"]


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10), min_size=1, unique=True),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="."), min_size=1),
)
def test_any_text_can_be_a_quoted_name(columns: list[str], table: str) -> None:
    def quoted(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    body = ", ".join(f"{quoted(name)} int" for name in columns)
    text = f"CREATE TABLE ks.{quoted(table)} ({body}, PRIMARY KEY ({quoted(columns[-1])}));"
    found = _table(text, f"ks.{table}")
    assert {c.name for c in found.columns} == set(columns)
    assert found.partition[0].name == columns[-1]


def test_hostile_names_survive_whole() -> None:
    table = _table('CREATE TABLE t ("select" int, "a""b" int, "🙂; DROP" int, "--x" int, PRIMARY KEY ("--x"));')
    assert [c.name for c in table.columns] == ["--x", "select", 'a"b', "🙂; DROP"]


def test_use_sets_the_keyspace_of_the_names_after_it() -> None:
    text = 'CREATE TABLE t (a int PRIMARY KEY); USE Other; CREATE TABLE t (a int PRIMARY KEY); USE "X"; '
    assert read_cql(text + "CREATE TABLE t (a int PRIMARY KEY)", keyspace="ks").names == ("ks.t", "other.t", "X.t")
    assert read_cql("CREATE TABLE t (a int PRIMARY KEY)").names == ("t",)


# --- user types -------------------------------------------------------------------------------------------------


def test_a_user_type_may_be_created_after_its_use_and_altered() -> None:
    table = _table(
        """CREATE TABLE t (a int PRIMARY KEY, p person, q list<person>);
           CREATE TYPE IF NOT EXISTS ks.person (name varchar, home "Addr", tags set<int>);
           CREATE TYPE "Addr" ("Street" text);
           ALTER TYPE "Addr" ADD zip int;
           ALTER TYPE "Addr" RENAME "Street" TO street AND zip TO plz;
           ALTER TYPE ks.person ALTER name TYPE blob;"""
    )
    addr = Udt("ks", "Addr", (("street", TEXT), ("plz", INT)))
    person = table.column("p").type
    assert isinstance(person, Udt)
    assert person.is_multicell
    assert person.fields[0] == ("name", Scalar(Kind.BLOB))
    assert person.fields[1] == ("home", addr)
    assert str(person.fields[2][1]) == "frozen<set<int>>"
    assert table.column("q").type == ListOf(person.frozen_form(), frozen=False)


def test_a_user_type_is_looked_up_in_the_keyspace_of_the_table() -> None:
    catalog = read_cql(
        """CREATE TYPE a.u (x int); CREATE TYPE b.u (y text);
           CREATE TABLE a.t (k int PRIMARY KEY, v frozen<u>); CREATE TABLE b.t (k int PRIMARY KEY, v frozen<u>);"""
    )
    assert catalog.table("a.t").column("v").type == Udt("a", "u", (("x", INT),))
    assert catalog.table("b.t").column("v").type == Udt("b", "u", (("y", TEXT),))


def test_an_unknown_user_type_refuses_its_table_only() -> None:
    catalog = read_cql(
        "CREATE TYPE ks.addr (x int);\nCREATE TABLE ks.bad (k int PRIMARY KEY,\n  v frozen<adr>);\n"
        "CREATE TABLE ks.good (k int PRIMARY KEY);",
        where="f.cql",
    )
    assert tuple(catalog.tables) == ("ks.good",)
    with pytest.raises(SchemaError, match=r"f\.cql:3:12: unknown type 'adr'.*did you mean 'addr'.*CREATE TYPE"):
        catalog.table("ks.bad")


def test_a_user_type_that_contains_itself_is_refused() -> None:
    with pytest.raises(SchemaError, match="contains itself"):
        _table("CREATE TYPE u (x frozen<v>); CREATE TYPE v (y frozen<u>); CREATE TABLE t (k int PRIMARY KEY, v u);")


# --- ALTER TABLE ------------------------------------------------------------------------------------------------

BASE = "CREATE TABLE ks.t (a int, b int, c text, PRIMARY KEY (a, b)) WITH CLUSTERING ORDER BY (b DESC);"


@pytest.mark.parametrize(
    ("alter", "expected"),
    [
        ("ALTER TABLE ks.t ADD d int", ["c", "d"]),
        ("ALTER TABLE ks.t ADD d int, e list<int>", ["c", "d", "e"]),
        ("ALTER TABLE ks.t ADD (d int, e text static)", ["c", "d", "e"]),
        ("ALTER TABLE IF EXISTS ks.t ADD IF NOT EXISTS c int", ["c"]),
        ("ALTER TABLE ks.t DROP c", []),
        ("ALTER TABLE ks.t ADD d int; ALTER TABLE ks.t DROP (c, d)", []),
        ("ALTER TABLE ks.t ADD d int; ALTER TABLE ks.t DROP IF EXISTS c, d USING TIMESTAMP 5", []),
        ("ALTER TABLE ks.t ALTER c TYPE blob", ["c"]),
        ("ALTER TABLE ks.t ALTER c MASKED WITH DEFAULT", ["c"]),
    ],
)
def test_alter_table_changes_the_columns(alter: str, expected: list[str]) -> None:
    table = _table(f"{BASE} {alter};")
    assert [c.name for c in table.columns if not c.is_key] == expected


def test_renamed_key_columns_keep_their_place_and_order() -> None:
    assert _roles(_table(BASE + 'ALTER TABLE ks.t RENAME a TO "A" AND b TO bb;')) == [
        "A partition",
        "bb clustering desc",
        "c regular",
    ]


def test_a_timed_drop_is_recorded_and_outlives_an_added_column() -> None:
    """Rule W6: cells at or before the drop never show, even after the column is added again."""
    table = _table(f"{BASE} ALTER TABLE ks.t DROP c USING TIMESTAMP 1700000000000123; ALTER TABLE ks.t ADD c int;")
    assert table.dropped == (DroppedColumn("c", 1700000000000123, TEXT),)
    assert table.column("c").type == INT
    assert table.drop_time("c") == 1700000000000123


def test_an_untimed_drop_for_good_never_shows() -> None:
    assert _table(f"{BASE} ALTER TABLE ks.t DROP c;").dropped == (DroppedColumn("c", NEVER_SHOWS, TEXT),)


def test_a_column_added_again_without_a_drop_time_is_refused_with_advice() -> None:
    text = f"{BASE}\nALTER TABLE ks.t DROP c;\nALTER TABLE ks.t ADD c text;\nCREATE TABLE ks.u (a int PRIMARY KEY);"
    with pytest.raises(SchemaError, match=r"f\.cql:2:13: .*W6.*USING TIMESTAMP.*WITH INTERNALS"):
        _table(text)
    assert _table(text, "ks.u").full_name == "ks.u"


def test_internals_output_with_a_dropped_column_is_read() -> None:
    table = _table(
        """CREATE TABLE ks.t (
    a int PRIMARY KEY,
    b text,
    c frozen<tuple<int, text>>
) WITH ID = 74eb34f0-e597-11f1-bb77-574fd902ab3a
    AND comment = '';
ALTER TABLE ks.t DROP b USING TIMESTAMP 1700000000000001;
ALTER TABLE ks.t ADD b int;
ALTER TABLE ks.t DROP c USING TIMESTAMP 1700000000000002;
--
"""
    )
    assert [(c.name, str(c.type)) for c in table.columns] == [("a", "int"), ("b", "int")]
    assert [(d.name, d.dropped_at, str(d.type)) for d in table.dropped] == [
        ("b", 1700000000000001, "text"),
        ("c", 1700000000000002, "frozen<tuple<int, text>>"),
    ]


def test_a_dropped_column_of_a_dropped_type_has_no_type() -> None:
    text = "CREATE TYPE ks.u (x int); CREATE TABLE ks.t (a int PRIMARY KEY, v u); ALTER TABLE ks.t DROP v;DROP TYPE u;"
    assert _table(text).dropped == (DroppedColumn("v", NEVER_SHOWS, None),)


def test_drop_table_like_and_if_not_exists() -> None:
    catalog = read_cql(
        """CREATE TABLE a (k int PRIMARY KEY); DROP TABLE IF EXISTS a; CREATE TABLE a (k2 int PRIMARY KEY);
           CREATE TABLE IF NOT EXISTS a (k3 int PRIMARY KEY); CREATE TABLE b LIKE a WITH comment = 'x';"""
    )
    assert {name: table.columns[0].name for name, table in catalog.tables.items()} == {"a": "k2", "b": "k2"}


# --- refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("CREATE TABLE t (a int PRIMARY KEY\n b int);", "2:2", "expected ',', ')', STATIC or PRIMARY KEY"),
        ("CREATE TABLE t (a int PRIMARY KEY) CREATE TABLE u (a int);", "1:36", "expected ';'"),
        ("CREATE TABLE t (a int PRIMARY KEY) WITH comment = 'x' CREATE TABLE u (a int);", "1:55", "expected ';'"),
        ("CREATE TABLE t a int;", "1:16", "expected '('"),
        ("CREATE TABLE t (a int,\n\n  b list<int, PRIMARY KEY (a));", "3:23", "expected '>', found 'KEY'"),
        ("CREATE TABLE t (a 1);", "1:19", "expected a type, found '1'"),
        ("CREATE TABLE t (a int, PRIMARY KEY ());", "1:37", "expected a key column's name"),
        ("CREATE TABLE t (a int PRIMARY KEY) WITH comment;", "1:48", "expected '='"),
        ("CREATE TABLE t (a int PRIMARY KEY) WITH comment =;", "1:50", "expected the value of option 'comment'"),
        ("ALTER TABLE t DROP a USING TIMESTAMP 'x';", "1:38", "whole microseconds"),
        ("ALTER TABLE t FROB a;", "1:15", "expected ADD, DROP, RENAME, ALTER or WITH"),
        ("ALTER TYPE t FROB a;", "1:14", "expected ADD, RENAME or ALTER"),
        ("ALTER TYPE t ADD a int;", "1:12", "add its CREATE TYPE"),
        ("CREATE TABLE t (a int PRIMARY KEY);\n'open", "2:1", "string is not closed"),
        ('CREATE TABLE "t (a int);', "1:14", "quoted name is not closed"),
        ("CREATE TABLE t (a int); /* open", "1:25", "never closed"),
        ('CREATE TABLE "" (a int);', "1:14", "expected a table's name"),
    ],
)
def test_what_is_not_cql_is_refused_at_its_place(text: str, place: str, expected: str) -> None:
    with pytest.raises(SchemaError) as caught:
        read_cql(text, where="f.cql")
    assert expected in str(caught.value)
    assert str(caught.value).startswith(f"f.cql:{place}: ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE TABLE ks.t (a int);", "f.cql: ks.t has no key"),
        ("CREATE TABLE ks.t (a int, PRIMARY KEY (aa));", "the key names 'aa', which is no column"),
        ("CREATE TABLE ks.t (a int PRIMARY KEY, a text);", "column 'a' is there already"),
        ("CREATE TABLE ks.t (a list<int> PRIMARY KEY);", "must be frozen"),
        ("CREATE TABLE ks.t (a int PRIMARY KEY) WITH CLUSTERING ORDER BY (z DESC);", "no clustering column"),
        ("CREATE TABLE ks.t (a int PRIMARY KEY); CREATE TABLE ks.t (a int PRIMARY KEY);", "created a second time"),
        ("CREATE TABLE ks.t (a int PRIMARY KEY); ALTER TABLE ks.t DROP a;", "part of the key"),
        ("CREATE TABLE ks.t (a int PRIMARY KEY, abc int); ALTER TABLE ks.t DROP abd;", "did you mean 'abc'"),
        ("CREATE TABLE ks.t (a int PRIMARY KEY); ALTER TABLE ks.t RENAME b TO c;", "no column 'b'"),
        ("CREATE TABLE ks.t (a int PRIMARY KEY, b int); ALTER TABLE ks.t RENAME a TO b;", "name is taken"),
        ("ALTER TABLE ks.t ADD b int;", "altered but never created"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_when_asked_for(text: str, expected: str) -> None:
    catalog = read_cql(f"{text} CREATE TABLE ks.other (a int PRIMARY KEY);", where="f.cql")
    assert tuple(catalog.tables) == ("ks.other",)
    with pytest.raises(SchemaError) as caught:
        catalog.table("ks.t")
    assert expected in str(caught.value)


def test_a_counter_table_is_refused_by_name_and_others_stay() -> None:
    catalog = read_cql("CREATE TABLE ks.c (a int PRIMARY KEY, n counter); CREATE TABLE ks.t (a int PRIMARY KEY);")
    assert tuple(catalog.tables) == ("ks.t",)
    with pytest.raises(UnsupportedError, match="'n' is a counter"):
        catalog.table("ks.c")


# --- files captured from Cassandra ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "name"),
    [("exotic", "hid413.exotic"), ("names", "hid311.OrderItems"), ("types", "hid111.typed"), ("wide", "hid211.orders")],
)
def test_describe_with_and_without_internals_give_the_same_table(file: str, name: str) -> None:
    plain, internals = (
        read_cql((SCHEMAS / f"cassandra_{file}_{kind}.cql").read_text(encoding="utf-8")).table(name)
        for kind in ("schema", "internals")
    )
    assert plain == internals


def test_the_captured_table_with_hostile_names() -> None:
    table = read_cql((SCHEMAS / "cassandra_names_schema.cql").read_text(encoding="utf-8")).table("hid311.OrderItems")
    assert [c.name for c in table.columns] == ["user-id", "it's", "_op", "`tick`", "after", 'naïve "q"', "select"]


def test_the_captured_table_with_exotic_types() -> None:
    table = read_cql((SCHEMAS / "cassandra_exotic_schema.cql").read_text(encoding="utf-8")).table("hid413.exotic")
    assert _roles(table)[:7] == [
        "p partition",
        "q partition",
        "c1 clustering desc",
        "c2 clustering",
        "c3 clustering desc",
        "s1 static",
        "s2 static",
    ]
    assert {c.name: str(c.type) for c in table.regulars} == {
        "d": "double",
        "du": "duration",
        "f": "float",
        "fm": "frozen<map<int, text>>",
        "old": "text",
        "tu": "frozen<tuple<int, text>>",
        "v": "int",
        "ve": "vector<float, 3>",
        "lp": "list<frozen<person>>",
        "md": "map<double, text>",
        "mf": "map<frozen<list<int>>, int>",
        "mi": "map<int, text>",
        "pe": "person",
        "sd": "set<decimal>",
    }
    person = table.column("pe").type
    assert isinstance(person, Udt)
    assert person.field_type("home") == Udt("hid413", "Addr", (("Street", TEXT), ("zip", INT)))


def test_a_captured_file_of_several_tables() -> None:
    catalog = read_cql((SCHEMAS / "cassandra_fuzz14_internals.cql").read_text(encoding="utf-8"))
    assert catalog.names == ("ks.f13", "ks.f14", "ks.kv2")
    assert [c.name for c in catalog.table("ks.f14").of_role(Role.STATIC)] == ["st", "sm"]


def test_cassandras_decimal_takes_no_scale() -> None:
    refused = read_cql("CREATE TABLE k.t (id int PRIMARY KEY, a decimal(3,1));").refused
    assert "write `decimal`" in str(refused["k.t"])


def test_a_tables_comment_is_its_description() -> None:
    text = "CREATE TABLE ks.t (k int, c int, PRIMARY KEY (k, c)) WITH comment = 'It''s one' AND CLUSTERING ORDER BY (c DESC);"
    table = read_cql(text).table("ks.t")
    assert (table.description, table.column("c").descending) == ("It's one", True)
    assert read_cql(text + "ALTER TABLE ks.t WITH gc_grace_seconds = 1 AND comment = 'new';").table("ks.t").description == "new"
