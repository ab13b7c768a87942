"""The options of `cdc-views produce mysql`."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_producers.binlog.options import BinlogOptions


@dataclass(frozen=True, slots=True)
class MySqlOptions(BinlogOptions):
    """The options of one MySQL source."""
