"""Moves what the search of the site knows out of the file that the theme loads with every page.

Who only reads a page does not load it: the worker of the search (``reference/typescript/page/search.ts``) asks for it
with the first question. Added are the words of people who do not know those of the project: the description of each
page, the tasks, forms and synonyms of ``docs/search.toml``, and the messages of each rule.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

from codegen import sources

WORKER = "assets/checker/search.js"
TERMS = sources.ROOT / "docs/search.toml"

_VALUE = re.compile(r"\{[^}|]*(?:\|[^}|]*\|([^}|]*))?\}")
"""A value in a message: its name, or the name of a number and the words for one and for several."""


def move_pages(site: Path, terms: Path = TERMS) -> None:
    """Write ``search/pages.json`` of the built folder *site*, and leave no pages in ``search/search_index.json``.

    A site that was built without npm gets the theme's worker, which reads the file of the theme, with tasks as tags.

    Raises:
        SystemExit: A task of *terms* has an address that no page has.
    """
    index = site / "search" / "search_index.json"
    whole = json.loads(index.read_text(encoding="utf-8"))
    if not whole["docs"]:
        return
    known = tomllib.loads(terms.read_text(encoding="utf-8"))
    _add_tasks(whole["docs"], known["tasks"], terms)
    if not (site / WORKER).exists():
        shutil.copyfile(next((site / "assets/javascripts/workers").glob("search.*.js")), site / WORKER)
        for doc in whole["docs"]:
            doc["tags"] = doc.pop("tasks", [])
        index.write_text(json.dumps(whole), encoding="utf-8")
        return
    of_the_site = _description(site / "404.html")
    for doc in whole["docs"]:
        if "#" not in doc["location"] and (own := _description(site / doc["location"] / "index.html")) != of_the_site:
            doc["description"] = own
    moved = {"docs": whole["docs"], "forms": known["forms"], "synonyms": known["synonyms"]}
    (index.parent / "pages.json").write_text(json.dumps(moved, ensure_ascii=False), encoding="utf-8")
    index.write_text(json.dumps(whole | {"docs": []}), encoding="utf-8")


def _add_tasks(docs: list[dict[str, Any]], tasks: dict[str, list[str]], terms: Path) -> None:
    by_address = {doc["location"]: doc for doc in docs}
    if unknown := sorted(tasks.keys() - by_address.keys()):
        sys.exit(f"{terms}: no page of the site has {', '.join(unknown)}. Use the address of a page or section.")
    for address, phrases in (*tasks.items(), *_messages().items()):
        if address in by_address:
            by_address[address]["tasks"] = [*by_address[address].get("tasks", ()), *phrases]


def _messages() -> dict[str, list[str]]:
    """Return what is printed for each rule by the address of its page, without the values that differ."""
    texts = json.loads((sources.ROOT / "schemas/messages.json").read_text(encoding="utf-8"))["findings"]
    ids = sorted((str(rule["id"]) for rule in sources.rules()), key=len, reverse=True)
    found = {f"spec/rules/{rule['id']}/": [str(rule["summary"])] for rule in sources.rules()}
    for name, text in texts.items():
        if rule := next((one for one in ids if name.startswith(one)), None):
            found[f"spec/rules/{rule}/"].append(_VALUE.sub(lambda match: match[1] or "", text))
    return found


def _description(page: Path) -> str:
    found = re.search(r'<meta name="description" content="([^"]*)"', page.read_text(encoding="utf-8"))
    return html.unescape(found[1]) if found else ""


if __name__ == "__main__":
    move_pages(Path(sys.argv[1]))
