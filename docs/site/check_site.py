"""`python docs/site/check_site.py FOLDER`: every link of a built site leads somewhere in it, and no page loads from elsewhere.

Links to other hosts are for people to click; they are not followed.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADING = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
"""Element → the attribute whose address a browser loads by itself."""

_LOADED_BY_CSS = re.compile(r"url\(\s*[\"']?((?:https?:)?//[^)\"']+)|@import\s+[\"']((?:https?:)?//[^\"']+)")


class Page(HTMLParser):
    """What a page links, loads and can be linked by."""

    def __init__(self, text: str) -> None:
        """Read the page."""
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)
        self.loads += [one or other for one, other in _LOADED_BY_CSS.findall(text)]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element's addresses and names."""
        found = {name: value for name, value in attrs if value}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif LOADING.get(tag) in found:
            self.loads.append(found[LOADING[tag]])


def problems(site: Path) -> list[str]:
    """Return each dead link and each thing loaded from elsewhere, as `page: what`; sorted."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = [f"{path.relative_to(site)}: {wrong}" for path, page in pages.items() for wrong in _problems(path, page, pages)]
    for sheet in sorted(site.rglob("*.css")):
        loads = [one or other for one, other in _LOADED_BY_CSS.findall(sheet.read_text(encoding="utf-8"))]
        found += [f"{sheet.relative_to(site)}: loads {address}" for address in loads]
    return sorted(found)


def _problems(path: Path, page: Page, pages: dict[Path, Page]) -> list[str]:
    found = [f"loads {address}" for address in page.loads if urlsplit(address).netloc]
    for address in [*page.links, *(address for address in page.loads if not urlsplit(address).netloc)]:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not target.exists():
            found.append(f"{address}: no such file")
        elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
            found.append(f"{address}: no such place")
    return found


def main(folder: str) -> int:
    """Print what is wrong; return 1 where something is, or where there is no site."""
    site = Path(folder).resolve()
    pages = len(list(site.rglob("*.html")))
    found = problems(site) if pages else [f"{folder}: no page"]
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{folder}: {pages} pages, {len(found)} problems", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
