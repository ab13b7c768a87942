"""moto's server of S3, with the promise that it lacks: of several conditional puts of one key, one succeeds.

moto looks whether the key is there and then puts it, in threads, so two puts of a log entry may both succeed; S3's own don't.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from moto.s3.responses import S3Response
from moto.server import main

_ONE_AT_A_TIME = threading.Lock()
_put = S3Response.put_object


def _put_by_itself(self: S3Response) -> Any:
    with _ONE_AT_A_TIME:
        return _put(self)


if __name__ == "__main__":
    S3Response.put_object = _put_by_itself
    main(sys.argv[1:])
