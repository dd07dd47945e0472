"""Moves what the search of the site knows out of the file that the theme loads with every page.

Who only reads a page does not load it: the worker of the search (``reference/typescript/page/search.ts``) asks for it
with the first question. The description of each page is added, since it says what the page is for.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import sys
from pathlib import Path

WORKER = "assets/checker/search.js"


def move_pages(site: Path) -> None:
    """Write ``search/pages.json`` of the built folder *site*, and leave no pages in ``search/search_index.json``.

    A site that was built without npm gets the theme's worker, which reads the file of the theme.
    """
    if not (site / WORKER).exists():
        shutil.copyfile(next((site / "assets/javascripts/workers").glob("search.*.js")), site / WORKER)
        return
    index = site / "search" / "search_index.json"
    whole = json.loads(index.read_text(encoding="utf-8"))
    if not whole["docs"]:
        return
    of_the_site = _description(site / "404.html")
    for doc in whole["docs"]:
        if "#" not in doc["location"] and (own := _description(site / doc["location"] / "index.html")) != of_the_site:
            doc["description"] = own
    (index.parent / "pages.json").write_text(json.dumps({"docs": whole["docs"]}, ensure_ascii=False), encoding="utf-8")
    index.write_text(json.dumps(whole | {"docs": []}), encoding="utf-8")


def _description(page: Path) -> str:
    found = re.search(r'<meta name="description" content="([^"]*)"', page.read_text(encoding="utf-8"))
    return html.unescape(found[1]) if found else ""


if __name__ == "__main__":
    move_pages(Path(sys.argv[1]))
