"""The HTTP receiver: events that Debezium Server, or any client, posts; answered once they have landed.

====================  =============================================================================
module                does
====================  =============================================================================
`command`             reads the options, opens the tables, runs the server
`app`                 the routes: who may post, what is posted, what is answered
`routing`             which table an event belongs to
`intake`              holds requests until their events have landed: group commit, back-pressure
`writing`             lands a batch into one table
`dead_letters`        keeps events that belong to no table
`tokens`, `limits`    JWT as Debezium Server's client asks for it; rates
====================  =============================================================================
"""

from __future__ import annotations

from cdc_views.landing.targets import ProducerOrder
from cdc_views.model.extras import needs


def produce(order: ProducerOrder) -> None:
    """Receive events until told to stop; see `cdc_producers.http.command.produce`."""
    with needs("`produce http`", extra="producers"):
        from cdc_producers.http.command import produce as receive
    receive(order)
