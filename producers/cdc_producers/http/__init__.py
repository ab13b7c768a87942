"""The HTTP receiver: takes events that Debezium Server or any client posts, and answers once they have landed.

====================  =============================================================================
module                does
====================  =============================================================================
`server`              opens the tables, runs the server
`app`                 the routes: who may post, what is posted, what is answered
`routing`             which table an event belongs to
`table_queue`         holds requests until their events have landed in one table: group commit, back-pressure
`dead_letters`        keeps events that belong to no table
`tokens`, `limits`    JWT as Debezium Server's client asks for it; rates, and requests at once
====================  =============================================================================
"""

from __future__ import annotations

from cdc_producers.http.options import HttpOptions
from cdc_views.landing.producers import Producer
from cdc_views.landing.targets import ProducerOrder
from cdc_views.model.extras import needs


def _run(order: ProducerOrder, options: HttpOptions) -> None:
    with needs("`produce http`", extra="producers"):
        from cdc_producers.http.server import receive
    receive(order, options)


PRODUCER = Producer(
    _run,
    HttpOptions,
    """Events by HTTP, as Debezium Server posts them: answered once they have landed.

    Clients of Memphis' REST gateway may post, too. CDC_VIEWS_HTTP_USER, CDC_VIEWS_HTTP_PASSWORD and CDC_VIEWS_HTTP_SECRET
    (32 bytes or more) come from the environment.
    """,
    raw_format=None,
    serves=True,
)
