"""External tables: Delta tables of events that somebody else lands (`layout: as-found`). They are only read.

Their rows go through the raw format's adapter into a derived raw table under the warehouse, which all other code reads.
"""

from __future__ import annotations

from cdc_views.landing.external.adaptation import Adaptation, adapt

__all__ = ["Adaptation", "adapt"]
