"""Writes every generated file: ``python -m codegen`` in ``reference/``; ``--check`` writes nothing."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from codegen import sources
from codegen.bundling import bundle_name, bundle_text
from codegen.c_tables import c_header, c_tables
from codegen.docs_stubs import navigation
from codegen.event_methods import event_methods_module
from codegen.go_tables import go_tables
from codegen.lock import lock_text
from codegen.messages import python_messages, rust_messages, typescript_messages
from codegen.neutral import tables_text
from codegen.ocaml_tables import ocaml_tables
from codegen.originals import originals_page
from codegen.project import project_files
from codegen.python_types import strict_module, types_module
from codegen.records import records_module, viewer_records
from codegen.reference_pages import reference_pages
from codegen.ruby_tables import ruby_tables
from codegen.rule_texts import rule_texts_module
from codegen.runs import facts_schema, runs_module, viewer_runs
from codegen.rust_tables import rust_tables
from codegen.spec_tables import spec_pages
from codegen.tables import (
    dialects_module,
    fields_module,
    limits_module,
    looks_module,
    media_module,
    redaction_module,
    rules_module,
    streams_module,
    viewer_media,
)
from codegen.typescript_tables import typescript_tables
from codegen.viewer_dialects import viewer_dialects

if TYPE_CHECKING:
    from collections.abc import Callable

_PACKAGE = "reference/python/toyspec/core/generated"
_MODULES: dict[str, Callable[[], str]] = {
    "limits": limits_module,
    "redaction": redaction_module,
    "messages": python_messages,
    "looks": looks_module,
    "media": media_module,
    "dialects": dialects_module,
    "rules": rules_module,
    "streams": streams_module,
    "fields": fields_module,
    "event_methods": event_methods_module,
    "records": records_module,
    "runs": runs_module,
}
_TYPES = {"": types_module, "strict_": strict_module}


def outputs() -> dict[str, str]:
    """Return the text of every generated file by its path from the root."""
    made: dict[str, str] = {}
    for name, make in _MODULES.items():
        made[f"{_PACKAGE}/{name}.py"] = make()
    for profile in sources.PROFILES:
        module = profile.replace("/", "_")
        made[f"schemas/bundled/{bundle_name(profile)}"] = bundle_text(profile)
        for family, make_types in _TYPES.items():
            made[f"{_PACKAGE}/{family}{module}.py"] = make_types(profile)
    made["schemas/bundled/tables.json"] = tables_text()
    made["schemas/answers/v1/facts.json"] = facts_schema()
    made["reference/go/tables_gen.go"] = go_tables()
    made["reference/c/toyspec_tables.h"] = c_tables()
    made["reference/rust/src/tables.rs"] = rust_tables()
    made["reference/rust/src/messages.rs"] = rust_messages()
    made["reference/ruby/lib/toyspec/tables.rb"] = ruby_tables()
    made["reference/ocaml/lib/tables.ml"] = ocaml_tables()
    made["reference/typescript/src/tables.ts"] = typescript_tables()
    made["reference/typescript/src/messages.ts"] = typescript_messages()
    made["reference/viewer/src/dialects/tables.ts"] = viewer_dialects()
    made["reference/viewer/src/generated/media.ts"] = viewer_media()
    made["reference/viewer/src/generated/records.ts"] = viewer_records()
    made["reference/viewer/src/generated/runs.ts"] = viewer_runs()
    made |= spec_pages() | c_header()
    made[f"{_PACKAGE}/rule_texts.py"] = rule_texts_module(made)
    return made | project_files(sources.ROOT) | navigation(sources.ROOT) | reference_pages() | originals_page()


def pages() -> dict[str, str]:
    """Return the reference pages and diagrams of the site, made from the current package."""
    from codegen import api_page, cli_page, formats_page
    from codegen.diagrams import diagrams

    return {
        api_page.PAGE: api_page.api_page(),
        formats_page.PAGE: formats_page.formats_page(),
        **cli_page.cli_pages(),
    } | diagrams()


def stale(made: dict[str, str]) -> list[str]:
    """Return the paths of the files that differ from *made*."""
    return [path for path, text in made.items() if _content(path) != text]


def main(arguments: list[str] | None = None) -> int:
    """Write what differs and name it; with ``--check`` only name it, and return 1 if there is any.

    A file in ``schemas/`` that lacks a field is named, and 2 is returned.
    """
    parser = argparse.ArgumentParser(prog="codegen", description="Make code, tables and pages from schemas/.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a generated file is stale")
    parser.add_argument("--lock", action="store_true", help="write schemas/lock.json too (once for each release)")
    options = parser.parse_args(arguments)
    try:
        return _made(options)
    except sources.FactMissingError as error:
        print(f"codegen: {error}", file=sys.stderr)
        return 2


def _made(options: argparse.Namespace) -> int:
    made = outputs() | ({"schemas/lock.json": lock_text()} if options.lock else {})
    differing = _settled(made, options.check)
    # The package uses files that were written just now, so its pages come last.
    differing += _settled(pages(), options.check)
    return 1 if options.check and differing else 0


def _settled(made: dict[str, str], only_check: bool) -> list[str]:
    """Name the paths that differ from *made*, write them unless they are only to be checked, and return them."""
    differing = stale(made)
    for path in differing:
        print(f"stale: {path}" if only_check else f"wrote {path}")
        if not only_check:
            _write(path, made[path])
    return differing


def _content(path: str) -> str | None:
    file = sources.ROOT / path
    return file.read_bytes().decode() if file.exists() else None


def _write(path: str, text: str) -> None:
    file = sources.ROOT / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())


if __name__ == "__main__":
    sys.exit(main())
