"""Data tests: does the table show what production would, and can what is kept be trusted? (docs/validate.md)"""

from cdc_views.quality.checks import Check, Report, Status
from cdc_views.severity import Severity

__all__ = ["Check", "Report", "Severity", "Status"]
