"""`python docs/generate`: write docs/reference from the code, and the picture of a terminal from what commands print."""

from __future__ import annotations

from of_terminal import IMAGE, terminal_picture
from pages import write

for name in write():
    print(f"docs/reference/{name}")
IMAGE.write_text(terminal_picture(), encoding="utf-8")
