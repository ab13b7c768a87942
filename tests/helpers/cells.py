"""Hypothesis strategies of cells, markers and deletions; write times from a tiny range, or ties would never occur."""

from __future__ import annotations

from hypothesis import strategies as st

from cdc_views.model.types import Kind
from cdc_views.rules.cells import Cell, Deletion, Liveness
from cdc_views.rules.codec.serialized import serialize
from helpers.histories import MAX_SECONDS, MAX_TTL
from helpers.schemas import INT
from helpers.values import GREATEST, LEAST, SCALARS

write_times = st.one_of(st.integers(0, 3), st.sampled_from((LEAST, GREATEST)))
few_seconds = st.one_of(st.integers(10, 13), st.sampled_from((0, MAX_SECONDS)))
few_ttls = st.one_of(st.integers(1, 3), st.just(MAX_TTL))

all_seconds = st.integers(0, MAX_SECONDS)
all_ttls = st.integers(0, MAX_TTL)

int_values = st.sampled_from(SCALARS[Kind.INT])


@st.composite
def tombstones(draw: st.DrawFn) -> Cell:
    """Return cells set to null."""
    return Cell(draw(write_times), deleted_at=draw(few_seconds))


@st.composite
def valued(draw: st.DrawFn) -> Cell:
    """Return live and expiring cells of an int column."""
    value = draw(int_values)
    ttl, expires_at = draw(st.one_of(st.just((None, None)), st.tuples(few_ttls, few_seconds)))
    return Cell(draw(write_times), value, serialize(INT, value), ttl, expires_at)


cells = st.one_of(valued(), tombstones())
"""Cells of one place of an int column."""

livenesses = st.builds(
    lambda written, expiry: Liveness(written, *expiry),
    write_times,
    st.one_of(st.just((None, None)), st.tuples(few_ttls, few_seconds)),
)
deletions = st.builds(Deletion, write_times, few_seconds)
