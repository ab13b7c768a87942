"""Data contracts: what is written can be read back, differences are found, and rules become data tests or are listed."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
import pytest
import yaml
from helpers.contracts import Described, described
from helpers.projects import project_of
from helpers.schemas import SUBJECTS, Subject
from hypothesis import HealthCheck, given, settings

from cdc_views.api import Project, Table
from cdc_views.errors import ConfigError, UnsupportedError
from cdc_views.export.contracts import Contract, compare, contract_of, contract_yaml, read_contract, rules_for
from cdc_views.export.contracts import document as contract_documents
from cdc_views.export.contracts.comparing import ContractVerdict, Fit, fit_of, schema_of
from cdc_views.export.contracts.writing import span_of, span_parts
from cdc_views.formats.base import WriteOrder
from cdc_views.plan.build import Ask
from cdc_views.project.models import DataTest
from cdc_views.sql import rows_sql

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

CQL = """
CREATE TYPE shop.addr (street text, zip int);
CREATE TABLE shop.orders (
  tenant text, seq int, state text, note text, amount bigint, price decimal, s set<int>, a frozen<addr>, m map<text, int>,
  PRIMARY KEY (tenant, seq)
);
"""
TESTS: list[dict[str, Any]] = [
    {"column": "state", "not_null": True},
    {"column": "state", "one_of": ["open", "paid"]},
    {"name": "positive", "holds": "amount > 0", "severity": "warning"},
    {"fresh_within": "90m"},
    {"lag_within": "2h"},
]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    (tmp_path / "schema.cql").write_text(CQL)
    entry = {"name": "shop.orders", "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}, "tests": TESTS}
    project = {"name": "shop", "engine": "duckdb", "tables": [entry | {"columns": {"price": "decimal(18,2)"}}]}
    (tmp_path / "cdc_views.yml").write_text(yaml.safe_dump(project))
    return Project.load(tmp_path / "cdc_views.yml").table("shop.orders")


def read(folder: Path, document: dict[str, Any]) -> Contract:
    file = folder / "contract.yaml"
    file.write_text(contract_yaml(document), "utf-8")
    return read_contract(file)


def column(document: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(part for part in document["schema"][0]["properties"] if part["name"] == name)
    return found


SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.mark.heavy
@settings(max_examples=6, suppress_health_check=SLOW, deadline=None)
@given(case=described)
def test_what_is_written_is_read_back(case: Described, tmp_path: Path) -> None:
    """Schema and tests, whatever the names; the standard's schema takes it, and nothing differs from the table."""
    check_round_trip(case, tmp_path)


@pytest.mark.slow
@settings(max_examples=120, suppress_health_check=SLOW, deadline=None)
@given(case=described)
def test_what_is_written_is_read_back_of_many(case: Described, tmp_path: Path) -> None:
    check_round_trip(case, tmp_path)


def check_round_trip(case: Described, tmp_path: Path) -> None:
    table = case.table(tmp_path)
    contract = read(tmp_path, contract_of([table], version="1"))
    (part,) = contract.objects
    assert schema_of(contract, part) == case.schema
    rules = rules_for(contract, table)
    assert rules.unexpressed == []
    assert sorted(map(repr, rules.tests)) == sorted({repr(DataTest.model_validate(test)) for test in case.tests})
    assert compare(contract, [table], is_selection=True) == []


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_the_types_are_those_that_duckdb_shows(subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = project_of(subject.schema, "micros" if subject.order is WriteOrder.MICROS else "log_position")
    pq.write_table(table.relation.arrow_schema().empty_table(), "raw.parquet")
    ask = Ask(table.relation)
    sql = rows_sql(ask, dialect_name="duckdb", strategy="auto", table="read_parquet('raw.parquet')", clock="7")
    with duckdb.connect() as connection:
        shown = {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE {sql}").fetchall()}
        for part in contract_of([table], version="1")["schema"][0]["properties"]:
            promised = connection.execute(f"SELECT typeof(NULL::{part['physicalType']})").fetchone()
            assert promised == (shown[part["name"]],)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_the_types_are_those_that_spark_shows(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_engine: SparkEngine
) -> None:
    from pyspark.sql.types import DataType

    monkeypatch.chdir(tmp_path)
    table = project_of(subject.schema, "micros" if subject.order is WriteOrder.MICROS else "log_position")
    object.__setattr__(table.project, "config", table.project.config.model_copy(update={"engine": "spark"}))
    pq.write_table(table.relation.arrow_schema().empty_table(), tmp_path / "raw.parquet")
    source = f"parquet.`{tmp_path / 'raw.parquet'}`"
    sql = rows_sql(Ask(table.relation), dialect_name="spark", strategy="auto", table=source, clock="7")
    shown = {field.name: field.dataType.simpleString() for field in spark_engine.session.sql(sql).schema}
    parts = contract_of([table], version="1")["schema"][0]["properties"]
    assert {part["name"]: DataType.fromDDL(part["physicalType"]).simpleString() for part in parts} == shown


def test_what_views_of_bigquery_show_is_not_promised(table: Table) -> None:
    config = table.project.config.model_copy(update={"engine": "bigquery"})
    object.__setattr__(table.project, "config", config)
    with pytest.raises(UnsupportedError, match="the types of views are not known"):
        contract_of([table], version="1")


def test_a_contract_says_what_readers_get(table: Table) -> None:
    document = contract_of([table], version="2.1.0")
    assert (document["kind"], document["version"], document["servers"][0]["type"]) == ("DataContract", "2.1.0", "duckdb")
    keys = {part["name"]: part["primaryKeyPosition"] for part in document["schema"][0]["properties"] if part.get("primaryKey")}
    assert keys == {"tenant": 1, "seq": 2}
    assert column(document, "tenant")["partitionKeyPosition"] == 1
    assert [part["name"] for part in document["schema"][0]["properties"] if part.get("required")] == ["tenant", "seq", "state"]
    assert column(document, "price")["physicalType"] == "DECIMAL(18, 2)"
    levels = [tuple(one[part] for part in ("property", "value", "unit", "element")) for one in document["slaProperties"]]
    assert levels == [("freshness", 90, "minutes", "shop.orders"), ("latency", 2, "hours", "shop.orders")]


def test_an_address_carries_no_secret_into_a_contract(table: Table) -> None:
    warehouse = "s3://user:secret@bucket/lake?token=secret"
    config = table.project.config.model_copy(update={"warehouse": warehouse})
    object.__setattr__(table.project, "config", config)
    text = contract_yaml(contract_of([table], version="1"))
    assert "s3://bucket/lake" in text
    assert "secret" not in text


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "element", "what"),
    [
        (lambda d: d["schema"][0]["properties"].append({"name": "gone", "logicalType": "string"}), "gone", "missing"),
        (lambda d: column(d, "amount").update(physicalType="INTEGER"), "amount", "narrower in the contract"),
        (lambda d: column(d, "price").update(physicalType="DECIMAL(10, 2)"), "price", "narrower in the contract"),
        (lambda d: column(d, "note").update(physicalType="VARCHAR(20)"), "note", "narrower in the contract"),
        (lambda d: column(d, "state").update(logicalType="boolean"), "state", "of another type"),
        (lambda d: column(d, "a")["properties"][1].update(physicalType="SMALLINT"), "a.zip", "narrower in the contract"),
        (lambda d: column(d, "s")["items"].update(logicalType="string", logicalTypeOptions={}), "s.items", "of another type"),
        (lambda d: column(d, "m")["map"]["value"].update(physicalType="TINYINT"), "m.value", "narrower in the contract"),
        (lambda d: column(d, "seq").update(primaryKey=False), "", "key differs"),
        (lambda d: column(d, "tenant").update(primaryKeyPosition=3), "", "key differs"),
        (lambda d: column(d, "seq").update(partitioned=True, partitionKeyPosition=2), "", "partition key differs"),
        (lambda d: column(d, "note").update(required=True), "note", "required without a test"),
        (lambda d: d["schema"].append({"name": "shop.lines"}), "", "no such table"),
        (
            lambda d: d["schema"][0]["customProperties"][0]["value"]["columns"].update(note="varint"),
            "note",
            "of another type or role in the source",
        ),
        (
            lambda d: d["schema"][0]["customProperties"][0]["value"]["columns"].update(note={"type": "text", "role": "static"}),
            "note",
            "of another type or role in the source",
        ),
    ],
)
def test_each_difference_is_found_and_named(table: Table, tmp_path: Path, change: Change, element: str, what: str) -> None:
    document = contract_of([table], version="1")
    change(document)
    found = compare(read(tmp_path, document), [table], is_selection=False)
    assert [(d.element, d.what, d.verdict) for d in found] == [(element, what, ContractVerdict.DIFFERS)]
    assert re.fullmatch(r".*contract\.yaml:\d+", found[0].where)


def test_a_contract_as_it_was_written_agrees(table: Table, tmp_path: Path) -> None:
    assert compare(read(tmp_path, contract_of([table], version="1")), [table], is_selection=False) == []


def test_what_a_contract_leaves_out_breaks_no_promise(table: Table, tmp_path: Path) -> None:
    document = contract_of([table], version="1")
    document["schema"][0]["properties"] = [part for part in document["schema"][0]["properties"] if part["name"] != "note"]
    column(document, "seq")["physicalType"] = "BIGINT"
    column(document, "amount")["physicalType"] = "no type ("
    found = compare(read(tmp_path, document), [table], is_selection=True)
    assert sorted((d.element, d.what, d.verdict) for d in found) == [
        ("amount", "not compared", ContractVerdict.NOTE),
        ("note", "not in the contract", ContractVerdict.NOTE),
        ("seq", "wider in the contract", ContractVerdict.NOTE),
    ]


def test_a_table_that_was_asked_for_must_be_in_the_contract(table: Table, tmp_path: Path) -> None:
    document = contract_of([table], version="1")
    document["schema"][0] |= {"name": "shop.lines", "physicalName": "lines"}
    found = compare(read(tmp_path, document), [table], is_selection=True)
    assert [(d.table, d.what, d.verdict) for d in found] == [("shop.orders", "is not in the contract", ContractVerdict.DIFFERS)]


def test_a_contract_of_nothing_is_not_taken_for_agreement(table: Table, tmp_path: Path) -> None:
    document = contract_of([table], version="1")
    document["schema"] = []
    with pytest.raises(ConfigError, match="describes no table"):
        compare(read(tmp_path, document), [table], is_selection=False)


Rule = dict[str, Any]
LIBRARY: list[tuple[Rule, Rule | None]] = [
    ({"metric": "nullValues", "mustBe": 0}, {"column": "note", "not_null": True}),
    ({"metric": "nullValues", "mustBeLessThan": 1}, {"column": "note", "not_null": True}),
    ({"metric": "nullValues", "mustBeLessThan": 1, "unit": "percent"}, None),
    (
        {"metric": "invalidValues", "mustBe": 0, "arguments": {"validValues": ["a", 1]}, "severity": "info", "name": "n"},
        {"column": "note", "one_of": ["a", 1], "severity": "warning", "name": "n"},
    ),
    ({"metric": "invalidValues", "mustBe": 0, "arguments": {"validValues": [1.5]}}, None),
    ({"metric": "invalidValues", "mustBe": 0, "arguments": {"pattern": "^a"}}, None),
    (
        {"metric": "missingValues", "mustBe": 0, "arguments": {"missingValues": [None, "", "N/A"]}},
        {
            "name": "missing.note",
            "holds": """NOT ("note" IS NOT NULL AND ("note" IN ('', 'N/A') OR "note" IS NULL)) AND "note" IS NOT NULL""",
        },
    ),
    ({"metric": "duplicateValues", "mustBe": 0}, None),
    (
        {"type": "sql", "query": "SELECT COUNT(*) FROM {object} WHERE {property} = ''", "mustBe": 0},
        {"name": "sql.note", "holds": "NOT (\"note\" = '')"},
    ),
    ({"type": "sql", "query": "SELECT COUNT(*) FROM {object} WHERE {property} = ''", "mustBeLessThan": 9}, None),
    ({"type": "sql", "query": "SELECT COUNT(*) FROM {object} WHERE `note` = ''", "mustBe": 0}, None),
    ({"type": "sql", "query": "SELECT COUNT(*) FROM other WHERE {property} = ''", "mustBe": 0}, None),
    ({"type": "sql", "query": "SELECT COUNT(DISTINCT note) FROM shop.orders WHERE note = ''", "mustBe": 0}, None),
    ({"type": "sql", "query": "SELECT COUNT(*) FROM shop.orders WHERE getenv('HOME') = ''", "mustBe": 0}, None),
    ({"type": "sql", "query": "SELECT COUNT(*) FROM shop.orders WHERE nope = ''", "mustBe": 0}, None),
    ({"type": "sql", "query": "SELECT COUNT(*) FROM shop.orders JOIN b USING (x) WHERE note = ''", "mustBe": 0}, None),
    ({"type": "custom", "engine": "soda", "implementation": "x"}, None),
    ({"type": "text", "description": "nice"}, None),
]


@pytest.mark.parametrize(("rule", "test"), LIBRARY)
def test_a_rule_becomes_a_test_or_is_listed(table: Table, tmp_path: Path, rule: Rule, test: Rule | None) -> None:
    document = contract_of([table], version="1")
    document["schema"][0]["quality"], document["slaProperties"] = [], []
    for part in document["schema"][0]["properties"]:
        part.pop("quality", None)
        part.pop("required", None)
    column(document, "note")["quality"] = [rule]
    rules = rules_for(read(tmp_path, document), table)
    assert rules.tests == ([] if test is None else [DataTest.model_validate(test)])
    assert len(rules.unexpressed) == (test is None)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda d: d["slaProperties"].append({"property": "retention", "value": 3, "unit": "y"}), "'retention'"),
        (lambda d: d["slaProperties"].append({"property": "latency", "value": 3, "unit": "m"}), "may be months"),
        (lambda d: d["slaProperties"].append({"property": "latency", "value": "soon", "unit": "h"}), "no span"),
        (lambda d: column(d, "note").update(unique=True), "only a key is known to be unique"),
        (lambda d: column(d, "note").update(logicalTypeOptions={"pattern": "^a"}), "'pattern' is not tested"),
        (lambda d: column(d, "a")["properties"][0].update(required=True), "what is said of a.street|nested ones"),
        (lambda d: d["schema"][0]["quality"].append({"metric": "rowCount", "mustBeGreaterThan": 5}), "'rowCount' is not counted"),
        (
            lambda d: d["schema"][0]["quality"][0]["arguments"].update(properties=["tenant", "note"]),
            "only the key .seq, tenant. is known",
        ),
        (lambda d: d["schema"][0]["quality"][-1].update(implementation={"check": "nope"}), "there is no check 'nope'"),
        (lambda d: column(d, "note").update(relationships=[{"to": "users.id"}]), "not compared with each other"),
    ],
)
def test_nothing_is_left_out_in_silence(table: Table, tmp_path: Path, change: Change, told: str) -> None:
    document = contract_of([table], version="1")
    change(document)
    (found,) = rules_for(read(tmp_path, document), table).unexpressed
    assert re.search(told, str(found))


def test_bounds_and_enumerations_become_tests(table: Table, tmp_path: Path) -> None:
    document = contract_of([table], version="1")
    column(document, "amount")["logicalTypeOptions"] |= {"minimum": 1, "exclusiveMaximum": 9, "maximum": 8, "exclusiveMinimum": 0}
    column(document, "note").update(enum=[{"value": "a"}, {"value": "b"}], logicalTypeOptions={"minLength": 2, "maxLength": 5})
    rules = rules_for(read(tmp_path, document), table)
    known = [DataTest.model_validate(test) for test in TESTS]
    said = [test.holds or test.one_of for test in rules.tests if test not in known]
    bounds = ['"amount" >= 1', '"amount" < 9', '"amount" <= 8', '"amount" > 0', 'length("note") >= 2', 'length("note") <= 5']
    assert sorted(map(str, said)) == sorted([*bounds, "('a', 'b')"])
    assert rules.unexpressed == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda d: d.update(apiVersion="v2.2.2"), r"yaml:2: apiVersion is 'v2.2.2', which cannot be read.*v3"),
        (lambda d: d.update(kind="DataProduct"), r"yaml:3: kind is 'DataProduct', which cannot be read.*DataContract"),
        (lambda d: d.pop("kind"), r"yaml:1: key 'kind' is missing"),
        (lambda d: d.pop("id"), r"yaml:\d+: the contract: key 'id' is missing"),
        (lambda d: column(d, "note").update(logicalType="text"), r"logicalType: 'text' was not expected"),
        (lambda d: column(d, "note").update(nmae="x"), r"schema\[0\].properties\[3\]: unknown keys.*nmae"),
        (lambda d: column(d, "note").update(required="yes"), r"required: boolean was expected"),
        (
            lambda d: column(d, "note").update(quality=[{"metric": "nullValues", "mustBe": 0, "mustBeLessThan": 5}]),
            r"quality\[0\]: is of none of the forms",
        ),
    ],
)
def test_a_broken_contract_is_one_error_with_its_place(table: Table, tmp_path: Path, change: Change, told: str) -> None:
    document = contract_of([table], version="1")
    change(document)
    with pytest.raises(ConfigError, match=told) as caught:
        read(tmp_path, document)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [", r"c.yaml:1: is not YAML"),
        ("- x", r"c.yaml:1: is no data contract"),
        ("", r"c.yaml:1: is no data contract"),
        ("kind: a\nkind: b", r"c.yaml:2: key 'kind' occurs twice"),
    ],
)
def test_what_is_no_contract_is_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ConfigError, match=told):
        read_contract(tmp_path / "c.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_contract(tmp_path / "nope.yaml")


def test_without_the_packages_an_error_says_what_to_do(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "open_data_contract_standard", None)
    contract_documents._validator.cache_clear()
    with pytest.raises(UnsupportedError, match=r"pip install 'cdc-views\[contracts\]'"):
        read(tmp_path, contract_of([table], version="1"))


def test_references_and_dates_stay_texts(table: Table, tmp_path: Path) -> None:
    """The standard's variables are not ours to fill in, and its own examples have dates without quotes."""
    file = tmp_path / "contract.yaml"
    text = contract_yaml(contract_of([table], version="1")).replace("status: active", "status: ${STATUS}")
    file.write_text(text + "- {property: generalAvailability, value: 2022-05-12T09:30:10-08:00}\n")
    assert read_contract(file).root.value["status"] == "${STATUS}"


@pytest.mark.parametrize("span", ["30s", "30m", "2h", "10d"])
def test_spans_are_the_same_in_both_words(span: str) -> None:
    assert span_of(span_parts(span)) == span


@pytest.mark.parametrize(
    ("said", "found", "fit"),
    [
        ("BIGINT", "int8", Fit.SAME),
        ("VARCHAR", "TEXT", Fit.SAME),
        ("SMALLINT", "BIGINT", Fit.NARROWER),
        ("DOUBLE", "FLOAT", Fit.WIDER),
        ("DECIMAL(20, 4)", "DECIMAL(18, 2)", Fit.WIDER),
        ("DECIMAL(18, 4)", "DECIMAL(18, 2)", Fit.NARROWER),
        ("DATE", "VARCHAR", Fit.OTHER),
        ("no type (", "VARCHAR", Fit.UNKNOWN),
    ],
)
def test_how_physical_types_fit(said: str, found: str, fit: Fit) -> None:
    assert fit_of(said, found, key="physicalType", dialect="duckdb") is fit
