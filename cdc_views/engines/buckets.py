"""The facts of some partitions, by the digest of their keys: files of a state are named by its first digits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cdc_views.engines.base import Sources
from cdc_views.engines.state_plan import digest, digits_in, part_in
from cdc_views.plan.compact import part_of
from cdc_views.plan.expr import cols, either, equal
from cdc_views.plan.nodes import Scan
from cdc_views.plan.parts import Source
from cdc_views.plan.reduce import is_of
from cdc_views.rules.facts import FactKind


def in_buckets(sources: Sources, wanted: Iterable[str]) -> Sources:
    """Return `sources` with only the state's files for digests that begin with one of `wanted`, or for table facts (S6)."""
    has_whole = sources.raw.relation.is_whole_row
    begins = {*wanted, digest()} if has_whole else set(wanted)
    shorter, sizes = {text[:size] for text in begins for size in range(len(text) + 1)}, {*map(len, begins)}

    def may_hold(path: str) -> bool:
        digits = digits_in(part_in(path))
        return digits in shorter or any(digits[:size] in begins for size in sizes if size < len(digits))

    return replace(sources, parts=sources.parts.only(may_hold))


def digits_of_base(sources: Sources) -> int:
    """Return the number of digits by which every file of the base is told from others; 0 without a base."""
    return min((len(digits_in(part_in(path))) for path in sources.paths(Source.BASE)), default=0)


def by_bucket(sources: Sources, digits: int) -> list[Sources]:
    """Return `sources` as so many as there are texts of `digits` binary digits. Each has the facts of other partitions.

    A row depends on the facts of its partition and of the whole table alone. So the rows of all are the rows of `sources`.
    """
    if digits == 0 or sources.is_raw:  # raw's files are read whole, by no bucket
        return [sources]
    buckets = (f"{number:0{digits}b}" for number in range(1 << digits))
    return [replace(in_buckets(sources, [bucket]), bucket=bucket) for bucket in buckets]


def is_within(sources: Sources, path: str) -> bool:
    """Return whether every fact of a file counts in the bucket of `sources`."""
    return not sources.bucket or (sources.is_of_state(path) and digits_in(part_in(path)).startswith(sources.bucket))


def facts_within(sources: Sources) -> Scan:
    """Return the plan of those facts of a file that count in the bucket of `sources`."""
    relation, bucket = sources.raw.relation, sources.bucket
    mine = equal(part_of(relation, prefix="", digits=len(bucket)), bucket)
    # S6: a truncate is about every row
    where = either(is_of(FactKind.TABLE), mine) if relation.is_whole_row else mine
    return Scan("facts_within", "fact", cols(relation.arrow_schema().names), where)
