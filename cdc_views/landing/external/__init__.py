"""External tables: Delta tables of events that somebody else lands (`layout: as-found`), read as raw tables.

Reading one adapts it: its rows go through the raw format's adapter into a derived raw table under the warehouse, which
everything else reads. The external table is never written to.
"""

from __future__ import annotations

from cdc_views.landing.external.adaptation import Adaptation, adapt

__all__ = ["Adaptation", "adapt"]
