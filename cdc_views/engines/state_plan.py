"""The plans of a commit of a state, and the places of its rows, for every engine."""

from __future__ import annotations

import hashlib

from cdc_views.engines.base import Sources, StateWrite
from cdc_views.plan import names
from cdc_views.plan.compact import PART, Step, compact, replaced_rows
from cdc_views.plan.nodes import Node, UnionAll
from cdc_views.plan.parts import Source
from cdc_views.plan.purge import Purge, facts_in_time
from cdc_views.plan.rewrites import lowered
from cdc_views.storage.data_files import DataFile
from cdc_views.storage.relation import Relation


def plan_of(write: StateWrite) -> UnionAll:
    """Return the lowered plan: one step per kind of fact, after the steps of rows that stay as they are."""
    sources = write.sources
    purge = Purge(write.horizon, remembers=sources.parts.has(Source.PURGED)) if write.purges else None
    relation, split, late = sources.raw.relation, sources.split(), sources.late_by
    # every bucket reads the facts about the whole table, and one writes them
    with_table = digest().startswith(sources.bucket)
    facts = compact(relation, digits=write.digits, step=write.step, split=split, purge=purge, late=late, with_table=with_table)
    plan = lowered(facts)
    assert isinstance(plan, UnionAll), "a state's plan is a union of kinds of facts"
    return plan


def replaced_by(write: StateWrite) -> Node | None:
    """Return the lowered plan of file and position of the rows that a merge replaces; None for other commits."""
    split = write.sources.split()
    if write.step is not Step.MERGE or split is None:
        return None
    return lowered(replaced_rows(write.sources.raw.relation, split))


def in_time(sources: Sources, *, drops_empty: bool = False) -> Node | None:
    """Return the plan of the facts of `Source.TAIL` that are in time; None if all are (rule M2)."""
    if sources.late_by is None:
        return None
    return lowered(facts_in_time(sources.raw.relation, sources.late_by, drops_empty=drops_empty))


def order_of(relation: Relation) -> tuple[str, ...]:
    """Return the sort columns of a state's rows, which keep a partition's rows together."""
    return (PART, names.KIND, *(names.identity(column) for column in relation.schema.row_key))


def hidden_rows(sources: Sources) -> dict[str, DataFile]:
    """Return path → file, for each file of the state of which a deletion vector hides rows; paths are as in `FileSet`."""
    return {file.at(sources.state): file for file in sources.hidden}


def digest(*texts: str) -> str:
    """Return the binary digest of a partition key whose columns have these texts, as `plan.expr.Bucket` computes it.

    >>> digest("3", "x")[:4]
    '1100'
    """
    return hashlib.md5("|".join(texts).encode(), usedforsecurity=False).hexdigest().translate(_PARITY)


_PARITY = str.maketrans("0123456789abcdef", "01" * 8)  # each hex digit's last bit


def part_in(path: str) -> str:
    """Return the `_part` of a state's file.

    >>> part_in("state/_part=rows0110/part-1.parquet")
    'rows0110'
    """
    return path.rsplit("/", 2)[-2].removeprefix(f"{PART}=")


def digits_in(part: str) -> str:
    """Return the digits at the end of a `_part`.

    >>> digits_in("rows0110")
    '0110'
    """
    return part[len(part.rstrip("01")) :]
