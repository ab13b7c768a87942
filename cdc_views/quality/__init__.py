"""Data tests: does the table show what production would, and can what is kept be trusted? (docs/validate.md)"""

import os

from cdc_views.model.severity import Severity
from cdc_views.quality.checks import Check, Report, Status

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # Great Expectations reads it when it is imported

__all__ = ["Check", "Report", "Severity", "Status"]
