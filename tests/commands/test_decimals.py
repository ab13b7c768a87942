"""Money is a number: decimals of a declared size in views, serving tables, conditions and data tests; never rounded."""

from __future__ import annotations

import json
import re
from decimal import Context, Decimal
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree as ET

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from helpers.command_line import CommandLine, table, write_project
from sqlglot import exp

from cdc_views import Project
from cdc_views.errors import ConfigError
from cdc_views.model.types import Kind, Scalar
from cdc_views.sql.dialects import dialect
from cdc_views.sql.dialects.decimals import fitting

NAME = "public.t"
DDL = (
    "create table public.t "
    "(id numeric(10) primary key, price numeric(12,2), free numeric, tiny numeric(12,9), many numeric(6,2)[]);"
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A project of one table of decimals, with two rows."""
    monkeypatch.chdir(tmp_path)
    Path("t.sql").write_text(DDL)
    project()
    run = CommandLine(capsys)
    assert run.land(NAME, event(1), event(2, price="-0.50", free="7", tiny="0.000000001", many=None)).code == 0
    return run


def project(*tests: dict[str, Any], **more: Any) -> None:
    write_project(table(NAME, "t.sql", tests=list(tests), **more))


def event(number: int, **row: object) -> str:
    source = {"connector": "postgresql", "db": "l", "schema": "public", "table": "t", "lsn": number}
    after = {"id": str(number), "price": "12.50", "free": "1.5", "tiny": None, "many": ["1.50", None], **row}
    return json.dumps({"op": "c", "source": source, "before": None, "after": after})


def shown(sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect("warehouse/views.duckdb", read_only=True) as connection:
        return connection.sql(sql).fetchall()


@pytest.mark.parametrize("is_materialized", [False, True])
def test_decimals_of_a_declared_size_are_numbers(run: CommandLine, *, is_materialized: bool) -> None:
    assert not is_materialized or run("materialize").code == 0
    assert run("apply").code == 0
    kinds = dict(row[:2] for row in shown("DESCRIBE public.t"))
    assert kinds == {
        "id": "DECIMAL(10,0)",
        "price": "DECIMAL(12,2)",
        "free": "VARCHAR",
        "tiny": "DECIMAL(12,9)",
        "many": "DECIMAL(6,2)[]",
    }
    assert shown("SELECT sum(price), max(tiny), max(many) FROM public.t WHERE id < 3") == [
        (Decimal("12.00"), Decimal("1E-9"), [Decimal("1.50"), None])
    ]
    arrow = Project.load("cdc_views.yml").table(NAME).query().to_arrow()
    assert [str(kind) for kind in arrow.schema.types[:3]] == ["decimal128(10, 0)", "decimal128(12, 2)", "string"]
    asked = Project.load("cdc_views.yml").sql(f"FROM {NAME}").to_arrow()
    assert [str(kind) for kind in asked.schema.types[:3]] == ["decimal128(10, 0)", "decimal128(12, 2)", "string"]
    assert arrow.column("price").to_pylist() == [Decimal("12.50"), Decimal("-0.50")]
    assert [row["tiny"] for row in run.query(NAME)] == [None, Decimal("1E-9")], "what `query` prints is what it was"


@pytest.mark.parametrize(("style", "said"), [("plain", "decimal(12, 2) of price: "), ("macros", "decimal(12, 2): ")])
def test_an_error_names_the_column_unless_views_share_functions(run: CommandLine, style: str, said: str) -> None:
    assert run.land(NAME, event(3, price="3.456"), file="3.jsonl").code == 0
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA public; " + run("generate", "--style", style).out)
        with pytest.raises(duckdb.Error, match=re.escape(f"3.456 does not fit {said}update the schema file")):
            connection.sql("FROM public.t").fetchall()


@pytest.mark.heavy
def test_a_serving_table_has_numbers_and_one_of_texts_is_made_anew(run: CommandLine) -> None:
    project(columns={"price": "text"}, materialize={"serving": True})
    assert run("materialize").code == 0
    place = next(path.parent for path in Path("warehouse").glob("**/_delta_log") if "serving" in str(path))
    assert pa.schema(DeltaTable(place).schema().to_arrow()).field("price").type in (pa.string(), pa.string_view())
    project(materialize={"serving": True})
    answer = run("materialize")
    assert (answer.code, "what columns are shown as, changed" in answer.err) == (0, True), answer.err
    with duckdb.connect() as connection:
        files = ", ".join(f"'{file}'" for file in DeltaTable(place).file_uris())
        found = connection.sql(f"SELECT id, price FROM read_parquet([{files}]) ORDER BY id")
        assert [str(kind) for kind in found.types] == ["DECIMAL(10,0)", "DECIMAL(12,2)"]
        assert found.fetchall() == [(1, Decimal("12.50")), (2, Decimal("-0.50"))]


@pytest.mark.parametrize("where", ["price > 12.49", "price >= 12.5 AND price BETWEEN 12 AND 13", "id = 1", "price = '12.50'"])
def test_conditions_compare_numbers(run: CommandLine, where: str) -> None:
    assert [row["id"] for row in run.query(NAME, "--where", where)] == [1]


@pytest.mark.parametrize(
    "where", ["free > 6", "6 < free", "free + 1 > 7", "free IN (7, 8)", "free BETWEEN 6 AND 8", "-free < -6", "FREE > price"]
)
def test_a_number_shown_as_text_says_how_it_is_compared(run: CommandLine, where: str) -> None:
    answer = run("query", NAME, "--where", where)
    assert answer.code == 2
    advised = re.search(r"free is shown as text, .*write (CAST\(free AS DECIMAL\(38, 9\)\))", answer.err, re.IGNORECASE)
    assert advised is not None, answer.err
    followed = re.sub("free", advised[1], where, flags=re.IGNORECASE)
    assert [row["id"] for row in run.query(NAME, "--where", followed)] == [2]


def test_texts_compare_with_texts_and_what_columns_make_a_number_with_numbers(run: CommandLine) -> None:
    assert [row["id"] for row in run.query(NAME, "--where", "free = '7'")] == [2]
    project(columns={"free": "decimal(12,4)"})
    assert [row["id"] for row in run.query(NAME, "--where", "free > 6")] == [2]
    assert run("materialize").code == 0
    assert [row["id"] for row in run.query(NAME, "--where", "free > 6")] == [2]


@pytest.mark.parametrize("price", ["3.456", "12345678901.00"])
def test_a_value_that_does_not_fit_is_never_rounded(run: CommandLine, price: str) -> None:
    assert run.land(NAME, event(3, price=price), file="more.jsonl").code == 0
    assert run("apply").code == 0
    with pytest.raises(duckdb.ConversionException, match=re.escape(price)):
        shown("SELECT price FROM public.t")
    assert shown("SELECT count(*) FROM public.t") == [(3,)], "other columns read on"
    assert [row["price"] for row in run.query(NAME)][-1] == Decimal(price), "what landed is not lost"
    with pytest.raises(ConfigError, match=f"{price} does not fit"):
        Project.load("cdc_views.yml").table(NAME).query().to_arrow()
    compared = run("query", NAME, "--where", "price > 1")
    assert (compared.code, f"{price} does not fit" in compared.err) == (2, True), compared.err
    for remedy in ({"columns": {"price": "decimal(20,4)"}}, {"columns": {"price": "text"}}):
        project(**remedy)
        assert run("apply").code == 0
        assert shown("SELECT price FROM public.t WHERE id = 3") in ([(Decimal(price),)], [(price,)])
    project()
    Path("t.sql").write_text(DDL.replace("price numeric(12,2)", "price numeric(20,4)"))
    assert run("apply").code == 0
    assert shown("SELECT price FROM public.t WHERE id = 3") == [(Decimal(price),)]


def test_a_value_that_no_row_shows_is_not_cast(run: CommandLine) -> None:
    """DuckDB computes on a file's dictionary, in which values of older events stand, too."""
    prices = ("99999999999999", "3.456", "7.00")
    events = [event(100 + n, id=str(50 + n // 3), price=prices[n % 3]) for n in range(900)]
    assert run.land(NAME, *events, file="older.jsonl").code == 0
    answer = run("query", "SELECT id, price FROM t WHERE id >= 50", "--format", "csv")
    assert answer.code == 0, answer.err
    assert {line.split(",")[1] for line in answer.out.splitlines()[1:]} == {"7.00"}


def test_columns_do_not_round_either(run: CommandLine) -> None:
    project(columns={"free": "decimal(6,0)"})
    assert run("apply").code == 0
    with pytest.raises(duckdb.ConversionException, match=re.escape("1.5 does not fit decimal(6, 0) of free")):
        shown("SELECT free FROM public.t")


def test_one_test_that_cannot_be_evaluated_fails_alone(run: CommandLine) -> None:
    good = [{"name": "sold", "holds": "price > -1"}, {"name": "cast", "holds": "CAST(free AS DECIMAL(38, 9)) > 0"}]
    failing = {"name": "dear", "holds": "price > 0"}
    project(*good, {"name": "text", "holds": "free > 0"}, {"name": "odd", "holds": "CAST(free AS DATE) > '1'"}, failing)
    answer = run("validate", "--no-docs", "--junit", "tests.xml", "--json", "tests.json", "--format", "jsonl")
    assert answer.code == 1, answer.err
    ended = {row["check"]: row for row in answer.rows}
    assert {name: ended[name]["status"] for name in ("sold", "cast", "text", "odd", "dear")} == {
        "sold": "passed", "cast": "passed", "text": "error", "odd": "error", "dear": "failed",
    }  # fmt: skip
    assert "write CAST(free AS DECIMAL(38, 9))" in ended["text"]["result"]
    assert "cannot be evaluated: free: DuckDB" in ended["odd"]["result"]
    assert '"7"' not in answer.out + answer.err, "results name keys, and no other values"
    assert ended["one_row_per_key"]["status"] == "passed", "the others ran"
    assert f"{NAME}: text (" in answer.err
    suite = ET.parse("tests.xml").getroot()[0]
    assert (suite.get("errors"), suite.get("failures")) == ("2", "1")
    assert [case.get("name") for case in suite if case.find("error") is not None] == ["odd", "text"]
    told = {record["check"]: record["status"] for record in json.loads(Path("tests.json").read_text("utf-8"))}
    assert (told["odd"], told["text"]) == ("error", "error")


def test_an_error_fails_validate_however_little_the_test_matters(run: CommandLine) -> None:
    project({"name": "odd", "holds": "CAST(free AS DATE) > '1'", "severity": "warning"})
    assert run("validate", "--no-docs").code == 1
    report = run("report", "--out", "pages")
    assert report.code == 0, report.err
    assert "cannot be evaluated" in "".join(page.read_text("utf-8") for page in Path("pages").glob("*.html"))


def _evaluated(connection: duckdb.DuckDBPyConnection, sql: str, text: str) -> Decimal | None:
    """The number that a text is, or None where the query fails."""
    try:
        ((number,),) = connection.execute(f"SELECT {sql} FROM (SELECT CAST(? AS VARCHAR) AS x)", [text]).fetchall()
    except duckdb.ConversionException:
        return None
    assert isinstance(number, Decimal)
    return number


def test_sql_takes_the_texts_that_fit_and_no_others() -> None:
    """Each value as a raw table has it, by DuckDB and by the expression that all dialects use."""
    random, refused = Random(1), 0
    with duckdb.connect() as connection:
        for precision, scale in ((12, 2), (5, 0), (5, 5), (12, 9), (38, 10), (38, 37)):
            values = [
                Decimal(random.randrange(-(10 ** random.randint(1, 14)), 10**14)).scaleb(-random.randint(-3, 16))
                for _ in range(50)
            ]
            values += [Decimal(text) for text in ("0", "0.00", "0E-10", "-0.0", "1E+3", "1E-7", "1.0E-8", "999.995", "99999")]
            values += [Decimal(f"{sign}{digit}E+{n}") for sign in ("", "-") for digit in ("0", "1", "9.9") for n in range(1, 45)]
            sql = dialect("duckdb").friendly(exp.column("x"), Scalar(Kind.DECIMAL, scale, precision)).sql(dialect="duckdb")
            for value in values:
                number = _evaluated(connection, sql, str(value))
                cut = value.quantize(Decimal(1).scaleb(-scale), context=Context(prec=100))
                fits = value == cut and abs(value) < 10 ** (precision - scale)
                assert (number == value) if fits or number is not None else not fits, (value, precision, scale)
                text = str(value)
                assert bool(re.search(fitting(precision, scale), text)) == fits, (value, precision, scale)
                refused += not fits
    assert refused > 100
