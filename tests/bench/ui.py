"""`python tests/bench/ui.py`: `cdc-views ui` in Chromium, for large projects beside an empty one, in one run and in turns.

For each page: milliseconds from the click to the first paint, and from a key to the next frame once the page is there; the
largest memory of each server. Writes a JSON. Options: `--rounds N`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.chromium_driving import Page, browsing
from helpers.chromium_fetching import chromium
from helpers.ui_served import serving_ui
from ui_projects import PROJECTS
from watching import memory_mib

OUT = Path(__file__).parent / "out"
CACHE = Path(os.environ.get("CDC_VIEWS_CACHE") or Path(__file__).parents[2] / ".cache")
_PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
_NEXT_FRAME = """new Promise(done => {
  const begun = performance.now();
  document.addEventListener('keydown', () => requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun))),
    {once: true});
  document.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown', bubbles: true}));
})"""


def measured(page: Page, address: str) -> tuple[float, float]:
    """Milliseconds to the first paint of a page, and from a key to the next frame."""
    page.visit(address)
    page.wait_for(f"({_PAINTED}) !== null")
    assert page.complaints() == [], (address, page.complaints())
    return page.evaluate(_PAINTED), page.evaluate(_NEXT_FRAME)


def main() -> int:
    """Run, print and write a JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    folder = OUT / "ui_run"
    shutil.rmtree(folder, ignore_errors=True)
    result: dict[str, Any] = {}
    with ExitStack() as stack:
        browser = stack.enter_context(browsing(chromium(CACHE)))
        shown = {name: make(folder / name.replace(" ", "_").replace(",", "")) for name, make in PROJECTS.items()}
        served = {name: stack.enter_context(serving_ui(one.project)) for name, one in shown.items()}
        page = stack.enter_context(browser.page())
        places = [(name, title, path) for name, one in shown.items() for title, path in one.pages.items()]
        found: dict[tuple[str, str], list[tuple[float, float]]] = {place[:2]: [] for place in places}
        for number in range(1 + options.rounds):
            for name, title, path in places:
                print(f"\r{name}: {title}".ljust(60), end="", file=sys.stderr, flush=True)
                took = measured(page, served[name].address.rstrip("/") + path)
                if number:  # the first opens files for the first time
                    found[name, title].append(took)
        print(f"{'project':<18} {'page':<10} {'paint ms':>9} {'key ms':>7}")
        for (name, title), each in found.items():
            paint, key = (statistics.median(one) for one in zip(*each, strict=True))
            result.setdefault(name, {"pages": {}})["pages"][title] = {"paint_ms": paint, "key_ms": key}
            print(f"{name:<18} {title:<10} {paint:>9.0f} {key:>7.1f}")
        for name, server in served.items():
            result[name]["peak_mib"] = memory_mib(server.process.pid, "VmHWM")
            print(f"{name}: server's memory at most {result[name]['peak_mib']} MiB")
    written = OUT / "ui.json"
    written.write_text(json.dumps(result, indent=1))
    print(f"written: {written}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
