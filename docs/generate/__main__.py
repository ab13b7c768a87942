"""`python docs/generate`: write docs/reference from the code."""

from __future__ import annotations

from pages import write

for name in write():
    print(f"docs/reference/{name}")
