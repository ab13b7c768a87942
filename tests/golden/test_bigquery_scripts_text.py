"""Scripts that keep a state in BigQuery, as text: names, types, limits, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlglot
from cdc_views_bigquery.limits import QUERY_BYTES
from cdc_views_bigquery.merging import Merging, facts_view, run_script, serving_columns, setup_script
from helpers.golden_cases import CASES, HOSTILE, key, relation
from helpers.schemas import INT, TEXT, WIDE, Subject, table
from sqlglot import exp

from cdc_views.errors import ConfigError, UnsupportedError
from cdc_views.formats.base import WriteOrder
from cdc_views.model.schema import Column
from cdc_views.model.types import ListOf, Udt
from cdc_views.storage.relation import Relation

if TYPE_CHECKING:
    from helpers.bigquery_values import Evaluator

pytestmark = pytest.mark.heavy

MERGING = Merging("`p.raw.t`", "p.shop", "t", serving="t", lateness=60)


def hostile() -> Relation:
    """A table whose every column, and field of a user type, is called something that hurts."""
    home = Udt("k", "u", tuple((name, TEXT) for name in HOSTILE), frozen=False)
    columns = [Column(name, INT if n % 2 else TEXT) for n, name in enumerate(HOSTILE)]
    return relation(key('k e`y"', INT), *columns, Column("home", home), Column("_op", INT), Column("_Op", INT))


def wide(columns: int, *, order: WriteOrder = WriteOrder.MICROS) -> Relation:
    """A table of many columns."""
    regulars = {f"column_{n}": TEXT if n % 2 else INT for n in range(columns)}
    return Subject(table("wide", partition={"id": INT}, regulars=regulars), order).relation


def test_names_of_serving_columns_are_the_users_or_encoded_and_never_twice() -> None:
    names = [column.name for column in serving_columns(hostile())]
    assert len({name.casefold() for name in names}) == len(names)
    assert "_op" not in names
    assert [c.name for c in serving_columns(relation(key("Order-Id", INT), Column("état", TEXT)))][:2] == ["Order-Id", "état"]


@pytest.mark.parametrize(
    "made",
    [CASES["fields"], *(pytest.param(made, marks=pytest.mark.slow) for made in (hostile(), WIDE.relation))],
    ids=["fields", "hostile", "wide"],
)
def test_one_script_is_the_statements_it_should_be(made: Relation) -> None:
    setup = sqlglot.parse(setup_script(made, MERGING), read="bigquery")
    kinds = [type(statement) for statement in setup if statement is not None]
    assert kinds == [exp.Create] * 6
    from helpers.bigquery_scripts import statements

    run = statements(run_script(made, MERGING, settles=True))
    assert [text.split()[0] for text in run].count("MERGE") == 2
    assert [text for text in run if "TRANSACTION" in text[:20]] == ["BEGIN TRANSACTION", "COMMIT TRANSACTION"]


@pytest.mark.slow
@pytest.mark.parametrize("settles", [False, True])
@pytest.mark.parametrize("made", [hostile(), WIDE.relation], ids=["hostile", "wide"])
def test_googlesql_takes_every_statement(made: Relation, settles: bool) -> None:
    from helpers.bigquery_scripts import Bench
    from helpers.bigquery_values import Evaluator, table_of

    engine: Evaluator = Evaluator()
    bench = Bench(engine)
    bench.tables["p.raw.t"] = table_of(made.rows([], landed_at=0))
    bench.run(setup_script(made, MERGING))
    answer = bench.run(run_script(made, MERGING, settles=settles))
    assert answer is not None
    assert [record["facts_read"] for record in answer.records()] == [0]
    assert [record["runs"] for record in bench.tables["p.shop.t__watermark"].records()] == [1]


@pytest.mark.slow
def test_a_script_too_long_is_made_dense_and_then_refused() -> None:
    short, made = Merging("`p.raw.t`", "p.shop", "t", serving="t"), wide(400)
    dense = run_script(made, short, settles=True)
    assert len(dense.encode()) <= QUERY_BYTES
    assert "/* one row per" not in dense
    with pytest.raises(UnsupportedError, match=r"wide takes [\d,]+ bytes, and BigQuery takes statements of at most 1,048,576"):
        run_script(wide(1000), short)


def test_a_view_too_long_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="BigQuery keeps views of at most 262,144"):
        facts_view(wide(1000), MERGING)


def test_what_cannot_be_stored_is_refused() -> None:
    made = relation(key("id", INT), Column("grid", ListOf(ListOf(INT))))
    with pytest.raises(UnsupportedError, match="'grid' holds lists within lists"):
        setup_script(made, MERGING)


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({"dataset": "shop`; DROP"}, ConfigError, "a dataset was expected"),
        ({"name": "a`b"}, UnsupportedError, "no tables called"),
        ({"serving": "a.b"}, UnsupportedError, "no tables called"),
        ({"buckets": 0}, ConfigError, "1 to 4000 were expected"),
        ({"buckets": 4001}, ConfigError, "1 to 4000 were expected"),
        ({"overlap": -1}, ConfigError, "none was expected to be below 0"),
    ],
)
def test_bad_settings_are_refused(changed: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        Merging(**({"raw": "`t`", "dataset": "d", "name": "n"} | changed))


def test_the_same_text_every_time() -> None:
    made = CASES["clustered"]
    assert run_script(made, MERGING) == run_script(made, MERGING)
