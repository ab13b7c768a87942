"""A process in which no optional package can be imported: each line on standard input is a command line, in JSON.

Run in a project's folder. Writes a JSON line `[exit code, standard error]` for each; `["python", code]` runs Python instead.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import NoReturn

from cdc_views.model.extras import EXTRA_OF

_ROOTS = {name.partition(".")[0] for name in EXTRA_OF}


class _Missing(MetaPathFinder):
    """Finds optional packages first, to say that they are not there."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return _refuse(fullname) if fullname.partition(".")[0] in _ROOTS else None


def _refuse(name: str) -> NoReturn:
    raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _answer(arguments: list[str]) -> tuple[int, str]:
    from cdc_views.cli import main
    from cdc_views.errors import CdcViewsError

    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        if arguments[0] != "python":
            return main(arguments), said.getvalue()
        try:
            exec(arguments[1], {})
        except CdcViewsError as error:
            return error.exit_code, str(error)
    return 0, said.getvalue()


sys.meta_path.insert(0, _Missing())
for line in sys.stdin:
    print(json.dumps(_answer(json.loads(line))), flush=True)
