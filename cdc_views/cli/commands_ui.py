"""`ui`: a local page of the project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from cdc_views.cli.log import log
from cdc_views.cli.shared import Request, shared
from cdc_views.model.extras import needs

_HostOption = Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen; others than this machine need a token.")]
_PortOption = Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="The port; 0: any free one.")]
_TokenOption = Annotated[
    str | None, typer.Option("--token-env", metavar="NAME", help="The variable with the token that readers must give.")
]
_CertificateOption = Annotated[
    Path | None, typer.Option("--tls-cert", "--tls-certificate", metavar="FILE", help="Serve https: the certificate (PEM).")
]
_KeyOption = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="The certificate's key (PEM).")]
_ActionsOption = Annotated[bool, typer.Option("--allow-actions", help="Let readers discard and replay quarantined events.")]


@shared("project")
def ui(
    asked: Request,
    *,
    host: _HostOption = "127.0.0.1",
    port: _PortOption = 8765,
    token_env: _TokenOption = None,
    certificate: _CertificateOption = None,
    key: _KeyOption = None,
    allow_actions: _ActionsOption = False,
) -> None:
    """Serve pages about the tables on this machine.

    Rows, why each cell has its value, instants, landings, quarantine, tests and proof. Read only; until interrupted.
    """
    with needs("`ui`", extra="ui"):
        from cdc_views.pages.server.options import is_loopback, ui_options
        from cdc_views.pages.server.serving import serve

    options = ui_options(
        host=host,
        port=port,
        token_env=token_env,
        certificate=certificate,
        key=key,
        allows_actions=allow_actions,
        environment=os.environ,
    )
    if not is_loopback(host) and options.certificate is None:
        log.warning("the token and all rows cross the network unencrypted; give --tls-certificate and --tls-key")
    file = asked.project_file
    _ = asked.project  # a mistake in it is told before anything listens
    log.is_timed = True
    serve(
        lambda: Request(file).project,
        file,
        options,
        log=log.error,
        listens=lambda address: log.info(f"open {address} (read only{', but for quarantine' if allow_actions else ''})"),
    )
