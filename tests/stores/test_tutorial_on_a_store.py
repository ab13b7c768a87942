"""The tutorial, block by block, with its warehouse on a store and nothing else changed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.document_runs import run_document
from helpers.document_shell import Shell, environment
from services.stores import Store

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs" / "tutorials" / "cassandra.md").read_text(encoding="utf-8")
MADE = "project,table\ncdc_views.yml,shop.carts\n```\n"
"""The end of the block that makes the project."""
REMOVED = "$ rm warehouse/state/shop_carts/1/_part=rows/*.parquet\n"
REMOVE = "from cdc_views.storage.places import place_of; [file.unlink() for file in place_of('{}').rglob('*.parquet')]"


def replaced(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.mark.heavy
@pytest.mark.parametrize(
    "store", ["s3", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("azure", "gcs"))], indirect=True
)
def test_the_tutorial(tmp_path: Path, prefix: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in store.options().items():
        monkeypatch.setenv(name, value)
    remove = REMOVE.format(f"{prefix}/state/shop_carts/1/_part=rows")
    text = replaced(
        TUTORIAL,
        (MADE, f"{MADE}\n```sh\nsed -i 's|^warehouse: .*|warehouse: {prefix}|' cdc_views.yml\n```\n"),
        (REMOVED, f'$ python -c "{remove}"\n'),
    )
    text = re.sub(r"\| (passed|failed) \|", r"| \1  |", text)  # as wide as "skipped"
    # a client of DuckDB needs an extension to open a file of a store
    text, count = re.subn(r"```python\nimport duckdb\n.*?```\n\n```text\n.*?```\n", "", text, flags=re.DOTALL)
    assert count == 1
    assert run_document(text, Shell(tmp_path, environment(ROOT))) == ""
    assert not (tmp_path / "warehouse").exists()
