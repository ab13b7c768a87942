"""Data tests: does the table show what production would, and can what is kept be trusted? (docs/how-to/validate.md)"""

from cdc_views.model.severity import Severity
from cdc_views.quality.checks import Check, Report, Status

__all__ = ["Check", "Report", "Severity", "Status"]
