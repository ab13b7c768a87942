"""The README's picture of a terminal shows what the commands print now, and asks nobody for a font."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "generate"))

from of_terminal import IMAGE, terminal_picture


@pytest.mark.heavy
def test_the_picture_is_what_the_commands_print() -> None:
    drawn = IMAGE.read_text("utf-8")
    assert drawn == terminal_picture(), "run `make reference`"
    assert not re.search(r"url\(|@import|<image", drawn.replace("url(#", "#("))
