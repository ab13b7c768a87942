"""Runs the commands of a document: as processes, or those of cdc-views in this process, which is several times faster.

In this process only a command line of plain words and pipes whose first program is `cdc-views` is run, with the rest of its
pipe in bash; everything else is left to bash. `make docs` runs all of it in bash, as a reader does.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cdc_views.cli import main

_TIMEOUT_SECONDS = 180
_NOT_PLAIN = re.compile(r"[;&<>()`$~*?\[\]{}!#\n]")
"""What bash would read as something else than a word, outside quotes."""

_INTO_A_FILE = re.compile(r" > ([\w./-]+)$")


@dataclass(frozen=True, slots=True)
class Done:
    """What a command did: its exit code and what it printed."""

    code: int
    out: str
    err: str


@dataclass(slots=True)
class Shell:
    """Runs command lines in a folder; `$?` is the exit code of the one before."""

    folder: Path
    environment: Mapping[str, str]
    is_in_process: bool = True
    last: int = field(default=0, init=False)

    def run(self, command: str) -> Done:
        """Run one command line."""
        words = first_program(command) if self.is_in_process else None
        done = self._in_bash(command) if words is None else self._in_process(*words)
        self.last = done.code
        return done

    def run_python(self, program: str) -> Done:
        """Run a program with this interpreter."""
        done = self._spawn([sys.executable, "-c", program], b"")
        self.last = done.code
        return done

    def _in_process(self, words: list[str], rest: str) -> Done:
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            done = run_here(words[1:])
        finally:
            os.chdir(before)
        if not rest:
            return done
        piped = self._spawn(["bash", "-c", rest], done.out.encode())
        return Done(piped.code or done.code, piped.out, done.err + piped.err)

    def _in_bash(self, command: str) -> Done:
        text = f"set -o pipefail; before() {{ return {self.last}; }}; before; {command}"
        return self._spawn(["bash", "-c", text], b"")

    def _spawn(self, words: list[str], given: bytes) -> Done:
        with tempfile.TemporaryFile() as err:
            done = subprocess.run(
                words,
                cwd=self.folder,
                env=dict(self.environment),
                input=given,
                stdout=subprocess.PIPE,
                stderr=err,
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
            err.seek(0)
            return Done(done.returncode, as_shown(done.stdout), as_shown(err.read()))


def first_program(command: str) -> tuple[list[str], str] | None:
    """Return the words of `cdc-views …` and what its output is piped into, or None for what only bash can read.

    Quoted text is taken word for word, but not where double quotes hold what bash would replace.
    `> file` at the end is a pipe into it.
    """
    unquoted, rest = "", ""
    if into := _INTO_A_FILE.search(command):
        command = f"{command[: into.start()]} | cat > {into[1]}"
    position = 0
    for found in re.finditer(r"'[^']*'|\"[^\"]*\"|\|", command):
        unquoted += command[position : found.start()]
        position = found.end()
        if found.group() == "|":
            command, rest = command[: found.start()], command[found.end() :]
            break
        if found.group()[0] == '"' and re.search(r"[$`\\!]", found.group()):
            return None
    else:
        unquoted += command[position:]
    if _NOT_PLAIN.search(unquoted) or rest.startswith("|"):
        return None
    words = shlex.split(command)
    return (words, rest.strip()) if words[:1] == ["cdc-views"] else None


def run_here(arguments: list[str]) -> Done:
    """Run a command of cdc-views in this process, as its console script would."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    texts = []
    for stream in (out, err):
        stream.flush()
        assert isinstance(stream.buffer, io.BytesIO)
        texts.append(as_shown(stream.buffer.getvalue()))
    return Done(code, *texts)


def as_shown(printed: bytes) -> str:
    """Return what a terminal shows: CSV ends its lines with a carriage return, too."""
    return printed.decode().replace("\r\n", "\n")


def without_java(folder: Path, path: str) -> dict[str, str]:
    """Return the variables of a machine whose Java, in place of one on `path`, fails and leaves a file `java.started`."""
    java = folder / "no_java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ntouch {java}.started\nexit 1\n")
    java.chmod(0o755)
    return {"JAVA_HOME": str(java.parents[1]), "PATH": f"{java.parent}{os.pathsep}{path}"}


def environment(repository: Path) -> dict[str, str]:
    """Return the variables a reader has after the installation: `REPO`, and `cdc-views` and `python` on the path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    own = {"REPO": str(repository), "PATH": path, "LC_ALL": "C.UTF-8", "PYTHONWARNINGS": "ignore", "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **own}
