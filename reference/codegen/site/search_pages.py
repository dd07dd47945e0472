"""Moves what the search of the site knows out of the file that the theme loads with every page.

Who only reads a page does not load it: the worker of the search asks for it with the first question
(docs/assets/search.js).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def move_pages(site: Path) -> None:
    """Write ``search/pages.json`` of the built folder *site*, and leave no pages in ``search/search_index.json``."""
    index = site / "search" / "search_index.json"
    whole = json.loads(index.read_text(encoding="utf-8"))
    if not whole["docs"]:
        return
    (index.parent / "pages.json").write_text(json.dumps({"docs": whole["docs"]}, ensure_ascii=False), encoding="utf-8")
    index.write_text(json.dumps(whole | {"docs": []}), encoding="utf-8")


if __name__ == "__main__":
    move_pages(Path(sys.argv[1]))
