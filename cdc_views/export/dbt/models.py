"""The generated models of a table: one that keeps its state, and one of its latest rows over that."""

from __future__ import annotations

from hashlib import sha256

from cdc_views.export.dbt.jinja import value
from cdc_views.export.dbt.macros import MARK
from cdc_views.export.dbt.naming import dbt_name, state_name

SOURCE = "cdc_views_raw"
"""The dbt source of raw tables."""

_STATE = """\
{{#- {title}: the facts that still matter; {mark}, do not edit; plan {plan} -#}}
{{{{ config(**cdc_views.state_config()) }}}}
{{{{ cdc_views.state(source({source}, {model}), {table}) }}}}
"""
_ROWS = """\
{{#- {title}: the latest row of every key; {mark}, do not edit; plan {plan} -#}}
{{{{ cdc_views.latest_row(ref({state}), {table}) }}}}
"""


def models_of(table: str, *, macros: str) -> dict[str, str]:
    """Return the text of each model by its name; `macros` is the text they come down to.

    Its digest is in them: dbt does not see which generated macro a model calls, so `state:modified` goes by the text.
    """
    plan = sha256(macros.encode()).hexdigest()[:12]
    places = {
        "title": " ".join(table.split()).replace("#}", "# }"),
        "mark": MARK,
        "plan": plan,
        "source": value(SOURCE),
        "model": value(dbt_name(table)),
        "state": value(state_name(table)),
        "table": value(table),
    }
    return {state_name(table): _STATE.format(**places), dbt_name(table): _ROWS.format(**places)}
