"""Processes of the Cassandra agent."""

from __future__ import annotations

from pathlib import Path

from helpers.producing import Producer


def reader_of(agent: Producer) -> int:
    """The process id of an agent's Java part."""
    assert agent.running is not None
    children = Path(f"/proc/{agent.running.pid}/task/{agent.running.pid}/children").read_text().split()
    tasks = Path(f"/proc/{agent.running.pid}/task").iterdir()
    children += [child for task in tasks for child in (task / "children").read_text().split()]
    return int(next(child for child in children if "java" in Path(f"/proc/{child}/cmdline").read_text()))
