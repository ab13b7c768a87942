"""The monthly cost of three ways to read a table: a view of raw, a state with its tail, a serving table.

The model is on-demand pricing: a query bills the bytes of the columns it reads, of every partition that it does not prune, at
least 10 MiB for each table. Raw grows by what lands, and has the price of its size in the middle of the month. A run of a state
reads the tail and the whole state, since updates touch all of its partitions; a run of a serving table reads that as well. Not
included: free tiers, capacity pricing, long-term storage, time travel, streaming.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdc_views.engines.warehouses import Cost, Load, Measured
from cdc_views.model.naming import physical_name
from cdc_views.storage.relation import Relation
from cdc_views_bigquery.config import BigQueryConfig
from cdc_views_bigquery.ddl import raw_fields
from cdc_views_bigquery.types import Field

DAYS = 30
TIB, GIB = 1024**4, 1024**3
LEAST_BILLED = 10 * 1024**2
"""A query bills at least 10 MB for each table it reads. Source: BigQuery pricing, On-demand compute."""
_WIDTHS = {"INT64": 8, "FLOAT64": 8, "BOOL": 1, "TIMESTAMP": 8, "BIGNUMERIC": 32}
"""Logical bytes of a value. Source: BigQuery pricing, Data size calculation."""


def price(reads: int, config: BigQueryConfig) -> float:
    """Return the on-demand price of a query that reads `reads` bytes of one table."""
    return max(reads, LEAST_BILLED) / TIB * config.price_per_tib if reads else 0.0


def costs(relation: Relation, config: BigQueryConfig, load: Load, measured: Measured | None) -> Sequence[Cost]:
    """Return the costs of `view`, `state` and `serving`, in that order."""
    fields = raw_fields(relation)
    # the mean bytes of a fact: as measured, or of a fact that sets every column
    fact = float(sum(_width(field, load.text_bytes) for field in fields))
    if measured is not None and measured.facts:
        fact = measured.bytes / measured.facts
    # the bytes of a row of plain columns, all of them set: of each cell only the value
    named = {physical_name(column.name) for column in relation.schema.columns}
    row = float(sum(_value_width(field, load.text_bytes) for field in fields if field.name in named))
    facts = load.facts if load.facts is not None else measured.facts if measured is not None else 0
    share = load.share * (measured.reads / measured.bytes if measured is not None and measured.bytes else 1.0)
    rows = load.rows if load.rows is not None else facts
    raw = (facts + load.facts_per_day * DAYS // 2) * fact
    tail = load.facts_per_day / max(load.runs_per_day, 1) * fact
    state, serving = rows * fact, rows * row
    queries, runs = load.queries_per_day * DAYS, load.runs_per_day * DAYS
    view = _cost("view", config, reads=(queries, [raw * share]), runs=(0, []), kept=raw)
    # on average, half of the facts between two runs are there at a read
    read = [state * share, tail / 2 * share]
    kept = _cost("state", config, reads=(queries, read), runs=(runs, [tail, state]), kept=raw + state)
    ran, whole = [tail, state, serving], raw + state + serving
    plain = _cost("serving", config, reads=(queries, [serving * load.share]), runs=(runs, ran), kept=whole)
    return view, kept, plain


def _cost(
    way: str, config: BigQueryConfig, *, reads: tuple[int, list[float]], runs: tuple[int, list[float]], kept: float
) -> Cost:
    # reading an empty table bills nothing
    queried, ran = (count * sum(max(round(size), LEAST_BILLED) for size in parts if size > 0) for count, parts in (reads, runs))
    paid, paid_runs = (size / TIB * config.price_per_tib for size in (queried, ran))
    stored = round(kept) / GIB * config.storage_price_per_gib
    return Cost(way, queried, ran, round(kept), paid, paid_runs, stored, config.currency)


def _width(field: Field, text: int) -> int:
    if field.fields:
        return sum(_width(part, text) for part in field.fields)
    return _WIDTHS.get(field.kind, 2 + text)


def _value_width(field: Field, text: int) -> int:
    values = [part for part in field.fields if part.name not in ("written", "rank", "bytes", "deletion", "key", "path_bytes")]
    return sum(_value_width(part, text) for part in values) if field.fields else _width(field, text)
