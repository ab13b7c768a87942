"""dbt over real events: `cdc-views dbt export`, the package, and what `dbt build` makes of them on DuckDB.

The rows of the models are the oracle's, and the oracle's are what Cassandra answered, at both instants.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from helpers.dbt_project import DbtProject
from helpers.dbt_views import BATCHES, MODELS, answered, check, land, landing, printed, real
from helpers.dialect_cases import REAL, real_table

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize(
    "names", [("types3", "names3"), pytest.param(("wide3", "exotic3"), marks=pytest.mark.slow)], ids="-".join
)
def test_models_built_from_late_data_show_what_cassandra_answered(
    cassandra_cases: Path, tmp_path: Path, names: tuple[str, ...]
) -> None:
    """Landed in random order, built after each batch: by the engine's clock, at both instants, and against a rebuild."""
    cases = {name: real_table(cassandra_cases, name) for name in names}
    answers = {(name, which): answered(cassandra_cases, name, which) for name in names for which in ("early", "late")}
    dbt = DbtProject.make(tmp_path, *(real(cassandra_cases, case) for case in names))
    for (name, which), (now, _) in answers.items():
        model = f"{{{{ cdc_views.as_of(ref('{MODELS[name]}__state'), '{REAL[name]}', {now}) }}}}"
        (dbt.folder / "models" / f"{name}_{which}.sql").write_text(model)
    for n in range(BATCHES):
        for case in names:
            land(dbt, case, landing(cassandra_cases, case)[n])
        dbt.build("--exclude", "test_name:replica_coverage")
    for name, case in cases.items():
        check(case, dbt.rows(f'SELECT * FROM main."{MODELS[name]}"'), now=int(time.time()))
    for (name, which), (now, rows) in answers.items():
        assert printed(cases[name], list(json.loads(rows[0])), now=now) == rows
        check(cases[name], dbt.rows(f'SELECT * FROM main."{name}_{which}"'), now=now)
    kept = {name: facts(dbt, name) for name in names}
    states = [f"{MODELS[name]}__state" for name in names]
    dbt.build("--select", *states, command="run")
    assert {name: facts(dbt, name) for name in names} == kept, "a run with nothing new changes nothing"
    dbt.build("--full-refresh", "--select", *states, command="run")
    assert {name: facts(dbt, name) for name in names} == kept


def facts(dbt: DbtProject, case: str) -> list[str]:
    """A state's facts, without when they landed."""
    found = dbt.rows(f'SELECT * EXCLUDE ("_landed_at") FROM main."{MODELS[case]}__state"')
    assert found.num_rows
    return sorted(map(repr, found.to_pylist()))
