"""Landing: appends event files to raw Delta tables, each event exactly once; bad events go to quarantine.

`land` and `replay` are the entry points; both can be run again after a crash at any step.
"""

from __future__ import annotations

from cdc_views.landing.blocks import EventBlock, Position, StreamBatch, StreamEvent
from cdc_views.landing.files import land
from cdc_views.landing.raw_table import create_raw, exists, gone, open_raw, quarantine_location, raw_log
from cdc_views.landing.replay import replay
from cdc_views.landing.report import FileReport, LandingReport, Progress, Rejection, ReplayReport
from cdc_views.landing.streams import BatchReport, StreamLander

__all__ = [
    "BatchReport",
    "EventBlock",
    "FileReport",
    "LandingReport",
    "Position",
    "Progress",
    "Rejection",
    "ReplayReport",
    "StreamBatch",
    "StreamEvent",
    "StreamLander",
    "create_raw",
    "exists",
    "gone",
    "land",
    "open_raw",
    "quarantine_location",
    "raw_log",
    "replay",
]
