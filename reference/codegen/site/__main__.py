"""Writes the parts of the site that are not committed: ``python -m codegen.site`` in ``reference/``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from codegen import sources

# The corpus is beside the folder in which this program is started.
sys.path.append(str(sources.ROOT))

from codegen.docs_stubs import stubs
from codegen.reference_pages import rules_page
from codegen.site.downloads import PAGE, download_files
from codegen.site.earlier_revisions import earlier_pages
from codegen.site.llms import llms_texts
from codegen.site.requirement_pages import FOLDER, requirement_pages
from codegen.site.terms import terms_file

if TYPE_CHECKING:
    from pathlib import Path

GENERATED_FOLDERS = (FOLDER, "docs/conformance", "docs/implementations", "docs/schemas", "docs/spec")
"""These contain only generated files: the page of a removed statement is removed too."""


def site_files() -> dict[str, bytes]:
    """Return every file by its path from the root."""
    files = download_files()
    pages = requirement_pages() | stubs(sources.ROOT) | rules_page() | terms_file() | {PAGE: files[PAGE].decode()}
    texts = pages | llms_texts(pages) | earlier_pages()
    return files | {name: text.encode() for name, text in texts.items()}


def main() -> int:
    """Write files that differ, remove files that no longer exist, and print the number of files."""
    made = site_files()
    for name, data in made.items():
        path = sources.ROOT / name
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    kept = {sources.ROOT / name for name in made}
    for folder in GENERATED_FOLDERS:
        for path in _files(sources.ROOT / folder):
            if path not in kept:
                path.unlink()
    print(f"{len(made)} files for the site")
    return 0


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


if __name__ == "__main__":
    sys.exit(main())
