"""A condition computes on the values of a row and does nothing else, in whichever dialect it is printed."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot

from cdc_views.engines.duckdb.connections import connect_locked
from cdc_views.errors import UsageError
from cdc_views.model.conditions import Condition
from cdc_views.plan.where import parse_where
from cdc_views.project.models import DataTest
from cdc_views.quality.conditions import condition_of
from cdc_views.schemas.cql.reader import read_cql

SOURCE = Path(__file__).parents[2]
FOUND = "('pw','VARCHAR','hunter2','hunter2',1,null,null,null,null,null,1,null)"

ATTACKS = {
    "a file is summarized": [
        f"({FOUND} in (summarize 'f.csv')) is null",
        f"{FOUND} < any (summarize 'f.csv')",
        "(summarize 'f.csv') is not null",
        "(summarize 'http://127.0.0.1:9999/x.csv') is not null",
        "a = 1 and (SUMMARIZE t) is not null",
        "case when (summarize 'f') is null then true end",
        "list_contains([(summarize 'f')], a)",
        "list_filter(l, x -> x in (summarize 'f')) = l",
        "a in (1, (summarize 'f'))",
        "a between 1 and (summarize 'f')",
        "l[(summarize 'f')] = 1",
        "{'k': (summarize 'f')} is null",
        "a = (/* x */ summarize /* y */ 'f')",
        "cast((summarize 'f') as text) = 'x'",
    ],
    "other statements": [
        "(describe 'f.csv') is null", "(describe select 1) is null", "(describe t) = 1", "(desc 'f') is null",
        "(show tables) = 1", "(pivot 'f' on x) is null", "(unpivot 'f' on x) is null", "(call pragma_version()) = 1",
        "(pragma x) = 1", "(explain select 1) = 1", "(values (1)) = 1", "(table t) = 1", "(from 'f') = 1",
        "exists (from 'f')", "exists (table t)", "a in (table t)", "a in (values (1))", "a = all (select 1)",
        "(with t as (select 1) from t) = 1", "(select 1 union select 2) = 1", "(copy t to 'f') = 1", "(attach 'f') = 1",
        "(set threads = 1) = 1", "(install httpfs) = 1", "1 = 1; attach 'f'", "1 = 1) union (select 1", "(delete from t) = 1",
        "(create table t (a int)) = 1", "(drop table t) = 1", "(insert into t values (1)) = 1",
    ],
    "columns and rows that were not named": [
        "columns(*) = 1", "columns('.*') = 1", "coalesce(*columns(*)) = 1", "t.* = 1", "* = 1", "count(*) = 1",
        "unpack(columns(*)) = 1", "#1 = 1", "a = ?", "a = $1", "a = :x", "unnest(l) = 1", "row_number() over () = 1",
        "sum(a) > 1", "sum(a) filter (where a > 1) > 1", "list(a) = [1]", "a in (select 1)", "[x for x in l if x > 1] = l",
    ],
    "functions that are not listed": [
        "read_text('f') = 'x'", "read_csv('f') = 'x'", "\"read_text\"('f') = 'x'", "main.read_text('f') = 'x'",
        "'HOME'.getenv() = 'x'", "(getenv('HOME')) = 'x'", "list_filter(['HOME'], x -> getenv(x) = 'x') = []",
        "list_transform(['HOME'], x -> x.getenv()) = []", "current_setting('x') = 1", "current_user = 'x'", "session_user = 'x'",
        "current_schema() = 'x'", "version() = 'x'", "nextval('s') = 1", "query('select 1') = 1", "query_table('t') = 1",
        "reflect('java.lang.System', 'exit', 0) = 1", "java_method('java.lang.System', 'getenv', 'HOME') = 'x'",
        "try_reflect('java.lang.System', 'exit', 0) = 1", "xpath('<a/>', 'a') = []", "input_file_name() = 'x'",
        "external_query('c', 'select 1') = 1", "net.host('x') = 'x'", "ml.predict('x') = 1", "ai_query('m', 'p') = 'x'",
        "session_user() = 'x'", "error('x') = 1", "sleep(10) = 1", "random() < 1", "uuid() = 'x'", "pg_read_file('f') = 'x'",
        "load_extension('x') = 1", "getvariable('x') = 1", "macro_of_somebody(a) = 1", "aes_decrypt(t, 'k') = 'x'",
    ],
    "calls that name where the function stands": [
        "some_dataset.lower(t) = 'x'", "project.some_dataset.lower(t) = 'x'", "t.lower() = 'x'", "\"p\".\"d\".\"length\"(t) = 1",
    ],
    "casts to what a catalogue would be asked for": [
        "'x'::regclass = 1", "cast('x' as some_table) = 1", "a::geometry is null", "try_cast(a as main.mood) is null",
        "[a]::some_type[] is null", "a::struct(x some_table) is null", "cast(a as inet) is null", "null::oid = 1",
    ],
    "what takes the memory of the machine": [
        "lpad('x', 2000000000, 'y') = t", "rpad('x', 2e9, 'y') = t", "lpad('x', 9999 * 9999, 'y') = t", "lpad('x', a, 'y') = t",
        "repeat('x', 2000000000) = t", "range(2000000000) = l", "generate_series(1, 2000000000) = l", "array_fill(1, 9) = l",
        "null::int[100000] is null", "a::int[1][99999999] is null", "factorial(10000000) = 1", "space(2000000000) = t",
    ],
    "texts that another dialect would read otherwise": [
        "E'\\'' = t", "$$x$$ = t", "$tag$x$tag$ = t", "X'00' = t", "t = {% x %}", "a @> {d '2020-01-01'}",
        "interval 1 \"day) or (1\" = t", "extract(\"year from 'x') or (1\" from d) = 1",
    ],
}  # fmt: skip


@pytest.mark.parametrize("text", [pytest.param(text, id=f"{kind}: {text}") for kind, texts in ATTACKS.items() for text in texts])
def test_what_is_not_listed_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_where(_SCHEMA, Condition(text))
    assert "<class" not in str(refused.value)
    assert "Token" not in str(refused.value)


_SCHEMA = read_cql('CREATE TABLE k.t (a int PRIMARY KEY, t text, l list<int>, d date, "b\'c" text);').table("k.t")


@pytest.mark.parametrize(
    "text",
    [
        "a = 1 and t <> 'x' or not (d is null)", "t is distinct from 'x'", "a // 2 = 1 and a % 2 = 0 and -a < 1 and a ** 2 > 1",
        "t like 'x%' escape '!'", "t ilike 'x'", "t glob 'x*'", "t similar to 'x'", "t ~ 'x'", "t collate nocase = 'x'",
        "a in (1, 2)", "a = any([1, 2])", "(a, t) = (1, 'x')", "l[1] = 1", "l[1:2] = [1]", "list_filter(l, x -> x > 1) = l",
        "{'k': 1}.k = 1", "map {'k': 1}['k'] = 1", "struct_pack(k := a).k = 1", "case a when 1 then true else false end",
        "d > date '2020-01-01' - interval 1 day", "extract(year from d) = 2020", "d at time zone 'UTC' is null",
        "try_cast(t as decimal(18, 2)) = 1.50", "t::json ->> '$.a[0].b' = 'x'", "json_extract(t, '$.a') is null",
        "cast(t as struct(a int, b text[])) is null", "lpad(t, 10, '0') = 'x'", "substring(t from 1 for 2) = 'x'",
        "position('x' in t) > 0", "trim(both from t) = 'x'", "a & 1 = 1 and a | 2 = 3 and a << 1 = 2", "t || 'x' = 'yx'",
        "1e3 = a", "now() > d", "coalesce(t, 'it''s') = 'it''s'", "a = 1 -- said in passing",
    ],
)  # fmt: skip
def test_conditions_on_the_values_of_a_row_pass_and_duckdb_takes_them(text: str) -> None:
    condition = Condition(text).sql()
    columns = "a INT, t VARCHAR, l INT[], d DATE"
    duckdb.sql(f"SELECT * FROM (SELECT unnest(NULL::STRUCT({columns})[], recursive := true)) AS t({_NAMES}) WHERE {condition}")


_NAMES = "a, t, l, d"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t =", "is not a SQL expression: something is missing at its end"),
        ("a = 1 and", "something is missing at its end"),
        ("not", "something is missing at its end"),
        ("cast(a as", "something is missing at its end"),
        ("a between 1", "something is missing at its end"),
        ("a == = 2", "it cannot be read at '=' (column 6)"),
        ("a = 1 b c", "it cannot be read at 'c' (column 9)"),
        ("a = 1 or\n  t = 'x' b c", "it cannot be read at 'c' (line 2, column 13)"),
        ("t = 'x", "a quote or a comment is not closed"),
        ("t = 1 /* x", "a quote or a comment is not closed"),
    ],
)
def test_a_condition_that_is_no_sql_is_told_in_its_own_words(text: str, expected: str) -> None:
    with pytest.raises(UsageError) as refused:
        Condition(text)
    assert expected in str(refused.value)
    assert "<class" not in str(refused.value)


@pytest.mark.parametrize("dialect", ["duckdb", "spark", "bigquery"])
@pytest.mark.parametrize(
    "value", ["\\", "\\' or 1 = 1 or t = '", "it's", "'", "a\\'b", "*/ or 1 = 1 /*", "-- x", "\n", "{{ x }}", "\\\\"]
)
def test_a_text_is_the_same_text_in_each_dialect(dialect: str, value: str) -> None:
    quoted = value.replace("'", "''")
    printed = Condition(f"t = '{quoted}' -- */ or 1 = 1").tree.sql(dialect=dialect)
    (literal,) = sqlglot.parse_one(printed, read=dialect).find_all(sqlglot.exp.Literal)
    assert literal.name == value


def test_comments_are_not_printed() -> None:
    assert "passing" not in Condition("a = 1 /* passing */ -- passing").tree.sql(dialect="spark")


def test_a_data_test_is_checked_as_where_is_and_named() -> None:
    with pytest.raises(UsageError, match=r"data test 'mine'.* holds a summarize"):
        condition_of(DataTest(name="mine", holds="(summarize 'f') is not null"))


def test_no_other_code_parses_a_condition() -> None:
    """An expression of a user's is made of a checked condition, since nobody else reads or makes one."""
    sources = {path.relative_to(SOURCE).as_posix(): path.read_text() for path in (SOURCE / "cdc_views").rglob("*.py")}
    assert {path for path, text in sources.items() if "UserSql(" in text} == {"cdc_views/plan/where.py", "cdc_views/plan/expr.py"}
    assert {path for path, text in sources.items() if "SELECT 1 WHERE" in text} == {"cdc_views/model/conditions.py"}


@pytest.fixture
def locked(tmp_path: Path) -> duckdb.DuckDBPyConnection:
    """The connection that evaluates conditions, with a secret beside the only file that it may read."""
    pq.write_table(pa.table({"x": [1]}), tmp_path / "mine.parquet")
    pq.write_table(pa.table({"x": ["hunter2"]}), tmp_path / "theirs.parquet")
    (tmp_path / "theirs.csv").write_text("pw\nhunter2\n")
    return connect_locked([str(tmp_path / "mine.parquet")])


def test_the_connection_for_conditions_reads_its_files(locked: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    assert locked.sql(f"SELECT x FROM read_parquet(['{tmp_path}/mine.parquet'])").fetchall() == [(1,)]
    locked.register("told", pa.table({"y": [2]}))
    assert locked.sql("SELECT y FROM told").fetchall() == [(2,)]


@pytest.mark.parametrize(
    "sql",
    [
        "SUMMARIZE '{}/theirs.csv'", "DESCRIBE '{}/theirs.csv'", "FROM '{}/theirs.parquet'",
        "SELECT * FROM read_text('{}/theirs.csv')",
        "SELECT * FROM glob('{}/*')", "SELECT * FROM read_parquet('{}/../*/theirs.parquet')", "SELECT getenv('HOME')",
        "FROM 'http://127.0.0.1:9/x.csv'", "FROM 's3://b/x.parquet'", "INSTALL httpfs", "LOAD httpfs", "ATTACH '{}/new.db'",
        "COPY (SELECT 1) TO '{}/new.csv'", "EXPORT DATABASE '{}/new'", "SET threads = 1", "SET enable_external_access = true",
        "SET allowed_paths = ['/']", "RESET lock_configuration", "SELECT * FROM secret_of_python",
    ],
)  # fmt: skip
def test_the_connection_for_conditions_reads_nothing_else(locked: duckdb.DuckDBPyConnection, tmp_path: Path, sql: str) -> None:
    secret_of_python = pa.table({"x": ["hunter2"]})
    with pytest.raises(duckdb.Error):
        locked.execute(sql.format(tmp_path)).fetchall()
    assert len(secret_of_python) == 1
    assert not [*tmp_path.glob("new*")]
