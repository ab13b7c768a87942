"""Policies of columns come before everything else: events are decoded in few places, which redact them first."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("cdc_views", "spark", "bigquery", "producers")
DECODES = {
    "cdc_views/landing/decoding.py",  # `Decoder.facts`
    "cdc_views/landing/formed.py",  # learns forms of what `Batch` redacted
    "cdc_views/formats/debezium/format.py",  # its own form, likewise
    "producers/cdc_producers/live_rows.py",  # rows of the source, which verify only compares; tables with policies are refused
    "producers/cdc_producers/kafka/rows.py",  # what `TopicLander` redacted
}
"""Modules that decode an event's text."""
READS_FACTS = {"cdc_views/landing/pipeline.py", "cdc_views/landing/decoding.py"}
"""Modules that take facts of redacted text; others take `Decoder.facts_as_written`."""


def decoders(text: str) -> tuple[bool, bool]:
    """Whether a module decodes an event, and whether it asks a decoder for the facts of redacted text."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    named = [(node.func.attr, node, ast.unparse(node.func.value)) for node in calls if isinstance(node.func, ast.Attribute)]
    decodes = any(name == "decode" and len(node.args) == 2 and "schema" in ast.unparse(node.args[1]) for name, node, _ in named)
    return decodes, any(name == "facts" and owner.endswith(("decoder", "self")) and node.keywords for name, node, owner in named)


def test_events_are_decoded_where_they_were_redacted() -> None:
    modules = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    found = [(path.relative_to(ROOT).as_posix(), decoders(path.read_text())) for path in modules]
    assert {path for path, (decodes, _) in found if decodes} == DECODES
    assert {path for path, (_, reads) in found if reads and "landing" in path} == READS_FACTS


def test_the_check_finds_both() -> None:
    assert decoders("format.decode(SourceLine(text), schema)") == (True, False)
    assert decoders("self.decoder.facts(content, line=1, offset=0)") == (False, True)
    assert decoders("content.decode('utf-8', 'replace')") == (False, False)
