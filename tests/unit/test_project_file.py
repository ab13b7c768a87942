"""The project file: every key of the interface, and every mistake with its line and what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from cdc_views.engines.base import Strategy
from cdc_views.errors import ConfigError
from cdc_views.formats.debezium.format import Debezium
from cdc_views.formats.registry import raw_format
from cdc_views.operations.starting import new_project
from cdc_views.project import load_project, project_json_schema, split_name
from cdc_views.project.dbt_options import DbtMaterialization
from cdc_views.project.paths import slug_of

FULL = """\
name: shop
engine: spark                     # spark | duckdb | bigquery
warehouse: ./warehouse
tables:
  - name: shop.orders
    schema: schema/shop.cql
    raw:
      format: cassandra-mutation
      layout: canonical
      table: raw/shop_orders
    replication_factor: 3
    view: {name: orders, strategy: auto}
    materialize: {schedule: "*/15 * * * *", lateness: 10d}
    tests: [{column: state, not_null: true}]
    columns: {amount: "decimal(18,2)"}
    fidelity: {waive: {note: we never read it}}
    dbt: {materialized: table, tags: [daily], group: sales, description: Orders., columns: {note: A note.}}
"""


def load(folder: Path, text: str, **environment: str) -> object:
    file = folder / "cdc_views.yml"
    file.write_text(text)
    return load_project(file, environment=environment)


def mistake(folder: Path, text: str, **environment: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, text, **environment)
    return str(caught.value)


def test_a_misspelt_key_is_one_mistake(tmp_path: Path) -> None:
    wanted = f"{tmp_path}/cdc_views.yml:5: unknown key 'nam' in tables[0]; did you mean 'name'?"
    assert mistake(tmp_path, FULL.replace("  - name: shop.orders", "  - nam: shop.orders")) == wanted
    both = mistake(tmp_path, "nam: a\nengine: duckdb\ntables: [{schema: a, raw: {format: debezium, fromat: b}}]\n").splitlines()
    assert ["unknown key 'nam';" in both[0], "key 'name' is missing in tables[0]" in both[1], "'fromat'" in both[2]] == [True] * 3


def test_every_key_of_the_interface_is_read(tmp_path: Path) -> None:
    (tmp_path / "cdc_views.yml").write_text(FULL)
    project = load_project(tmp_path / "cdc_views.yml")
    table = project.tables[0]
    assert (project.name, project.engine, project.warehouse) == ("shop", "spark", "./warehouse")
    assert (table.name, table.keyspace, table.table, table.schema_) == ("shop.orders", "shop", "orders", "schema/shop.cql")
    assert (table.raw.format, table.raw.table, table.replication_factor) == ("cassandra-mutation", "raw/shop_orders", 3)
    assert (table.view_name, table.view.strategy) == ("orders", Strategy.AUTO)
    assert (table.materialize.schedule, table.materialize.lateness) == ("*/15 * * * *", "10d")
    assert table.types == {"amount": "decimal(18,2)"}
    assert table.fidelity.waive == {"note": "we never read it"}
    assert (table.dbt.materialized, table.dbt.tags, table.dbt.group) == (DbtMaterialization.TABLE, ("daily",), "sales")
    assert (table.dbt.description, table.dbt.columns) == ("Orders.", {"note": "A note."})


def test_defaults(tmp_path: Path) -> None:
    text = "name: a\nengine: duckdb\ntables:\n  - {name: ks.T, schema: s.cql, raw: {format: debezium}}\n"
    (tmp_path / "cdc_views.yml").write_text(text)
    table = load_project(tmp_path / "cdc_views.yml").tables[0]
    assert (table.raw.table, table.slug, table.view_name, table.materialize.lateness) == (None, "ks_-54", "T", None)


_FORMAT = "format: cassandra-mutation"
_OPTIONS = "format: debezium\n      options: "


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ("engine: spark ", "engine: sprak ", 2, "did you mean 'spark'?"),
        ("warehouse:", "warehose:", 3, "unknown key 'warehose'; did you mean 'warehouse'?"),
        ("      layout: canonical", "      layot: canonical", 9, "unknown key 'layot' in tables[0].raw; did you mean 'layout'?"),
        ("format: cassandra-mutation", "format: cassandra", 8, "tables[0].raw.format is 'cassandra', which there is not"),
        ("replication_factor: 3", "replication_factor: three", 11, "tables[0].replication_factor is 'three'"),
        ("replication_factor: 3", "replication_factor: 0", 11, "greater than or equal to 1"),
        ("strategy: auto", "strategy: windw", 12, "did you mean 'window'?"),
        ("lateness: 10d", "lateness: 10 days", 13, "as in 10d"),
        ('"*/15 * * * *"', "hourly", 13, "a cron expression of five fields was expected"),
        ('"*/15 * * * *"', '"*/15 25 * * *"', 13, "tables[0].materialize.schedule is '*/15 25 * * *'; bad hour; a cron"),
        ('"*/15 * * * *"', '"0 0 30 2 *"', 13, "bad day-of-month"),
        ("    schema: schema/shop.cql\n", "", 5, "key 'schema' is missing in tables[0]"),
        ("  - name: shop.orders", "  - name: 3", 5, "tables[0].name is 3"),
        ("name: shop\n", "name: shop\nname: shop\n", 2, "key 'name' occurs twice"),
        ("name: shop\n", "name: [\n", 3, "is not YAML"),
        ("    raw:\n", "\traw:\n", 7, "spaces, not tabs"),
        (_FORMAT, _OPTIONS + "{scales: {n: 4.5}}", 9, "tables[0].raw.options.scales.n is 4.5; a whole number was expected"),
        (_FORMAT, _OPTIONS + "{scale: {n: 4}}", 9, "unknown key 'scale' in tables[0].raw.options; did you mean 'scales'?"),
        (
            _FORMAT,
            _OPTIONS + "{units: {t: milis}}",
            9,
            "tables[0].raw.options.units.t is 'milis', which there is not; did you mean",
        ),
        (_FORMAT, _OPTIONS + "{binary: hx}", 9, "tables[0].raw.options.binary is 'hx', which there is not; did you mean 'hex'?"),
        (_FORMAT, _FORMAT + "\n      options: {binary: hex}", 9, "format cassandra-mutation takes no options"),
        ("  - name: shop.orders", "  - 5\n  - name: shop.orders", 5, "tables[0] is 5; keys and values were expected"),
    ],
)
def test_a_mistake_names_its_line_and_a_remedy(tmp_path: Path, old: str, new: str, line: int, expected: str) -> None:
    assert old in FULL
    message = mistake(tmp_path, FULL.replace(old, new, 1))
    assert f"cdc_views.yml:{line}: " in message
    assert expected in message


def test_all_mistakes_are_told_at_once_in_the_file_s_order(tmp_path: Path) -> None:
    message = mistake(tmp_path, FULL.replace("replication_factor: 3", "replication_factor: 0").replace("spark ", "sprak "))
    assert [line.split(":")[1] for line in message.splitlines()] == ["2", "11"]


def test_an_empty_file_a_list_and_a_missing_file_are_explained(tmp_path: Path) -> None:
    assert "is no project file" in mistake(tmp_path, "")
    assert "is no project file" in mistake(tmp_path, "- a\n")
    with pytest.raises(ConfigError, match="cdc-views init --from"):
        load_project(tmp_path / "missing.yml")


def test_environment_variables_are_filled_in_and_must_be_set(tmp_path: Path) -> None:
    text = FULL.replace("./warehouse", "${ROOT}/wh-${STAGE}")
    assert load(tmp_path, text, ROOT="/data", STAGE="test").warehouse == "/data/wh-test"  # type: ignore[attr-defined]
    message = mistake(tmp_path, text, ROOT="/data")
    assert ":3: " in message
    assert "set STAGE" in message
    assert "is no reference" in mistake(tmp_path, FULL.replace("./warehouse", "${a b}"))


_SECRETS = ["hunter2secret", 'it\'s \\ "hunter2"', "Hunter2/Secret/", "a.hunter2.b", " hunter2 "]
_TWO = "  - {name: 'a.${PW}', schema: s, raw: {format: debezium}}\n"


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("engine: spark ", "engine: ${PW}", 2),
        ("engine: spark ", "engine: s${PW}park", 2),
        ("engine: spark ", "engine: [spark, ['${PW}']]", 2),
        ("format: cassandra-mutation", "format: ${PW}", 8),
        ("layout: canonical", "layout: ${PW}", 9),
        ("replication_factor: 3", "replication_factor: ${PW}", 11),
        ("view: {name: orders, strategy: auto}", "view: ${PW}", 12),
        ("strategy: auto", "strategy: '${PW}'", 12),
        ("lateness: 10d", "lateness: '${PW}'", 13),
        ("lateness: 10d", "serving: {name: '-${PW}'}", 13),
        ('"*/15 * * * *"', "'${PW}'", 13),
        ('"*/15 * * * *"', '"${PW} * * * *"', 13),
        ('"decimal(18,2)"', "'${PW}'", 15),
        ('"decimal(18,2)"', '"decimal(${PW},2)"', 15),
        ("not_null: true", "not_null: '${PW}'", 14),
        ("not_null: true", "holds: '${PW}'", 14),
        ("not_null: true", "fresh_within: '${PW}'", 14),
        ("not_null: true", "one_of: [{a: '${PW}'}]", 14),
        ("{waive: {note: we never read it}}", "'${PW}'", 16),
        ("{waive: {note: we never read it}}", "{waive: {note: [{k: '${PW}'}]}}", 16),
        ("tables:\n", "bigquery: {dataset_raw: '${PW}'}\ntables:\n", 4),
        ("tables:\n", "tables:\n  - ${PW}\n", 5),
        ("tables:\n", f"tables:\n{_TWO}{_TWO}", 1),
    ],
)
def test_no_message_shows_what_a_reference_stands_for(tmp_path: Path, old: str, new: str, line: int) -> None:
    assert old in FULL
    for secret in _SECRETS:
        message = mistake(tmp_path, FULL.replace(old, new, 1), PW=secret)
        assert f"cdc_views.yml:{line}: " in message
        assert "hunter2" not in message.casefold()


def test_a_reference_is_shown_as_it_is_written(tmp_path: Path) -> None:
    message = mistake(tmp_path, FULL.replace("engine: spark ", "engine: x-${PW}"), PW="hunter2")
    assert "engine is 'x-${PW}', which there is not" in message
    assert "${PW}" not in mistake(tmp_path, FULL.replace("engine: spark ", "engine: x"), PW="x")


def test_a_short_secret_does_not_garble_the_message(tmp_path: Path) -> None:
    message = mistake(tmp_path, FULL.replace("engine: spark ", "engine: ${PW}"), PW="e")
    assert "engine is '${PW}', which there is not; " in message


def test_two_tables_may_share_neither_name_raw_table_nor_view(tmp_path: Path) -> None:
    again = FULL[FULL.index("  - name") :]
    assert "table 'shop.orders' occurs twice" in mistake(tmp_path, FULL + again)
    assert "raw table 'raw/shop_orders' occurs twice" in mistake(tmp_path, FULL + again.replace("shop.orders", "shop.o2"))


def test_slugs_never_clash() -> None:
    names = [
        "a.b",
        "a_b",
        "A.b",
        "a.B",
        "a_.b",
        "a._b",
        "a__b",
        "a.b.c",
        "a.b_c",
        "a b",
        "a-b",
        "a%20b",
        "ä.b",
        "a.x",
        "a._",
        "_a.b",
        ".a",
        "a.",
    ]
    slugs = [slug_of(name) for name in names]
    assert len({slug.casefold() for slug in slugs}) == len(names)
    assert all(set(slug) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-") for slug in slugs)


def test_a_name_is_split_at_its_first_dot() -> None:
    assert split_name("hid301.OrderItems") == ("hid301", "OrderItems")
    assert split_name("db.public.orders") == ("db", "public.orders")
    assert split_name("orders") == ("", "orders")


def test_a_new_project_reads_back_whatever_the_names(tmp_path: Path) -> None:
    tables = ["shop.orders", 'hid."x', "ks.no", "1.0", "a: b.c#d", "ks.Übung", "a.${HOME}"[:3] + "null"]
    text = new_project("yes", schema="dir with space/schema.cql", tables=tables, raw_format="debezium")
    (tmp_path / "cdc_views.yml").write_text(text)
    project = load_project(tmp_path / "cdc_views.yml", environment={})
    assert project.name == "yes"
    assert [table.name for table in project.tables] == tables
    assert yaml.safe_load(text)["engine"] == "duckdb"


def test_the_json_schema_has_every_key() -> None:
    schema = project_json_schema()
    assert {"name", "engine", "warehouse", "tables"} <= schema["properties"].keys()
    assert "schema" in schema["$defs"]["TableConfig"]["properties"]
    assert schema["additionalProperties"] is False
    json.dumps(schema)


def test_options_of_a_connector_reach_the_format(tmp_path: Path) -> None:
    options = _OPTIONS + "{scales: {n: 4}, units: {tm: millis}, binary: base64-url-safe, decimals: precise}"
    found = load(tmp_path, FULL.replace(_FORMAT, options)).tables[0].raw.options  # type: ignore[attr-defined]
    given = found.model_dump(mode="json", exclude_unset=True)
    assert given == {"scales": {"n": 4}, "units": {"tm": "millis"}, "binary": "base64-url-safe", "decimals": "precise"}
    assert isinstance(raw_format("debezium", found), Debezium)
    with pytest.raises(ConfigError, match="takes no options"):
        raw_format("key-value", found)


@pytest.mark.heavy
def test_yaml_that_would_grow_without_end(tmp_path: Path) -> None:
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 20)}]\n" for n in range(1, 9))
    assert "holds more than" in mistake(tmp_path, bomb)


def test_yaml_that_would_not_end_and_letters_past_the_basic_plane(tmp_path: Path) -> None:
    assert "an alias stands inside" in mistake(tmp_path, "a: &a [*a]\n")
    assert "is not YAML" in mistake(tmp_path, "name: s\x00")
    file = tmp_path / "cdc_views.yml"
    file.write_text(
        json.dumps(
            {"name": "s", "engine": "duckdb", "tables": [{"name": "k.\U0001f600", "schema": "s", "raw": {"format": "debezium"}}]}
        )
    )
    assert load_project(file).tables[0].table == "\U0001f600"
