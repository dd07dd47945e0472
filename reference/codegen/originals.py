"""Makes the table of the page on the originals from the results of `nox -s originals`."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from codegen import sources

PAGE = "docs/parts/compared.md"
RESULTS = "reference/rust/originals/results.json"
_TABLE = re.compile(r"(<!-- generated:originals -->\n).*?(<!-- /generated -->)", re.DOTALL)
_HEAD = "| original | direction | compared | result |\n|---|---|---|---|\n"


def originals_page() -> dict[str, str]:
    """Return the page with the table of the results that are committed; nothing in a tree without them."""
    if not ((sources.ROOT / PAGE).exists() and (sources.ROOT / RESULTS).exists()):
        return {}
    results = json.loads((sources.ROOT / RESULTS).read_text(encoding="utf-8"))
    table = _HEAD + "".join(map(_row, _rows(results)))
    page = (sources.ROOT / PAGE).read_text(encoding="utf-8")
    return {PAGE: _TABLE.sub(lambda match: f"{match[1]}\n{table}\n{match[2]}", page)}


def publish(measured: list[dict[str, Any]]) -> None:
    """Put *measured*, the output of the programs that run originals, in place of the results of these originals."""
    file = sources.ROOT / RESULTS
    results = json.loads(file.read_text(encoding="utf-8"))
    results["run"] = measured
    file.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for path, text in originals_page().items():
        (sources.ROOT / path).write_text(text, encoding="utf-8")


def _rows(results: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    rows = [
        (f"{run['original']} {run['version']}", row["direction"], row["compared"], row["result"])
        for run in results["run"]
        for row in run["rows"]
    ]
    return rows + [(left["original"], "-", "-", f"not run: {left['reason']}") for left in results["not_run"]]


def _row(cells: tuple[str, str, str, str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n"


if __name__ == "__main__":
    publish([json.loads(line) for line in sys.stdin if line.strip()])
