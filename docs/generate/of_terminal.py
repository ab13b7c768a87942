"""The picture of a terminal in the README: what the commands print there, drawn by Rich as SVG without a font of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import tempfile
import termios
from html import escape
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

_KEY = '{"id": 2}'
_PREPARED = (
    ("demo",),
    ("init", "--from", "schema.sql", "--name", "shop"),
    ("land", "debezium", "customers.jsonl", "--table", "customers"),
)
_SHOWN = (
    ("query", "customers", "--columns", "name,email"),
    ("explain", "customers", "--key", _KEY, "--columns", "email,notes", "--as-of", "2026-06-01"),
)
_COLUMNS, _LINES = 104, 50
IMAGE = Path(__file__).parents[1] / "images" / "explain.svg"


def terminal_picture() -> str:
    """Run the commands on the example of the package, and return the picture."""
    with tempfile.TemporaryDirectory() as folder:
        for command in _PREPARED:
            _printed(command, folder)
        texts = [f"\x1b[1m$ {_typed(command)}\x1b[0m\n{_printed(command, folder)}" for command in _SHOWN]
    console = Console(record=True, width=_COLUMNS, file=StringIO(), color_system="truecolor", force_terminal=True)
    for text in texts:
        console.print(_coloured(text))
    drawn = console.export_svg(title="cdc-views", theme=MONOKAI, unique_id="terminal")
    told = f"<title>cdc-views in a terminal</title>\n<desc>{escape(' and '.join(map(_typed, _SHOWN)), quote=False)}</desc>\n"
    drawn = drawn.replace("<style>", f"{told}<style>", 1)
    # no request for a font
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL).replace("Fira Code", "ui-monospace, Menlo, Consolas")


def _typed(command: tuple[str, ...]) -> str:
    return " ".join(["cdc-views", *(f"'{word}'" if word == _KEY else word for word in command)])


def _printed(command: tuple[str, ...], folder: str) -> str:
    """Return what a command prints on a terminal."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.environ.update(COLUMNS=str(_COLUMNS), LINES=str(_LINES), TERM="xterm-256color")
        os.execv(sys.executable, [sys.executable, "-m", "cdc_views", *command])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, _COLUMNS, 0, 0))
    found = bytearray()
    try:
        while more := os.read(terminal, 4096):
            found += more
    except OSError:  # how Linux tells that the command has ended
        pass
    finally:
        os.close(terminal)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise RuntimeError(found.decode())
    return found.decode().replace("\r\n", "\n")


def _coloured(text: str) -> Text:
    found = Text.from_ansi(text)
    found.highlight_regex(r"(?<= )shown(?= )", "bold green")
    found.highlight_regex(r"(?<= )lost(?= )", "rgb(150,150,150)")
    return found
