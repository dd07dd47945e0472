"""Makes what can be downloaded: schemas, tables, requirements and the corpus, each at its path in the tree."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from typing import TYPE_CHECKING, Any

from codegen import sources
from codegen.project import values
from conformance.corpus import version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PAGE = "docs/downloads.md"
SUMS = "docs/SHA256SUMS"
CORPUS = "docs/conformance/corpus.zip"

_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_CORPUS_PARTS = ("README.md", "PROTOCOL.md", "cases", "sessions", "schema")

_HEAD = """\
---
description: Schemas, test cases and other data of the specification as files, with their digests.
---
# Downloads

<!-- Made by `make docs`. -->

The data of the specification as files, for programs. Each has here the path that it has in the source tree, so an
address stays as long as the release that it belongs to: `schemas/toy/v1/step.json` below the address of this site,
for example. All digests are in [`SHA256SUMS`](SHA256SUMS), for `sha256sum --check`.

The `$id` of a schema is a URN, which never changes. A program that loads schemas by address takes the file of the same
name that ends in `.schema.json`: its `$id` is its own address, and its references lead to the addresses of others.

For language models and their readers there are [`llms.txt`](llms.txt), which lists the pages, and
[`llms-full.txt`](llms-full.txt), which has the whole specification as one text.

"""

_FOLDERS = {
    "schemas/": "Facts that hold for all profiles",
    "schemas/toy/v1/": "toy/v1",
    "schemas/metrics/v1/": "metrics/v1",
    "schemas/kaun/v1/": "kaun/v1",
    "schemas/shared/v1/": "What the schemas share",
    "schemas/annotations/v1/": "What people say about a run afterwards",
    "schemas/bundled/": "Whole profiles, for generators and for programs in other languages",
    "schemas/dialects/": "How the logs of other programs are read",
    "schemas/report/v1/": "The report of the checker, and alerts",
    "schemas/answers/v1/": "Answers for programs: what commands print with `--json`, and evidence",
    "schemas/health/": "Presets of health rules",
    "schemas/conversion/v1/": "The report of imports and exports",
    "schemas/meta/": "The forms of these files",
    "spec/": "The statements of the specification",
    "conformance/": "The corpus",
    "conformance/schema/": "The forms of cases and of the messages between runner and adapter",
}


def download_files() -> dict[str, bytes]:
    """Return the bytes of every download, and the page that lists them, by path from the root."""
    found = {f"docs/{path.relative_to(sources.ROOT).as_posix()}": path.read_bytes() for path in _paths()}
    found |= addressed_schemas(os.environ.get("SITE_URL") or values(sources.ROOT)["site"] + "latest/")
    found[CORPUS] = _corpus()
    sums = "".join(f"{_digest(data)}  {name.removeprefix('docs/')}\n" for name, data in sorted(found.items()))
    return found | {SUMS: sums.encode(), PAGE: (_HEAD + "\n".join(_sections(found))).encode()}


def addressed_schemas(site: str) -> dict[str, bytes]:
    """Return each schema with its address below *site* as its ``$id``, and those of others in its references."""
    schemas = {path: sources.load(path) for path in sorted(sources.SCHEMAS.rglob("*.json"))}
    schemas = {path: schema for path, schema in schemas.items() if str(schema.get("$id", "")).startswith("urn:")}
    names = {path: path.relative_to(sources.ROOT).with_suffix(".schema.json").as_posix() for path in schemas}
    # A bundle has everything in itself, and the URN of its profile belongs to it.
    addresses = {schema["$id"]: site + names[path] for path, schema in schemas.items()}
    return {f"docs/{names[path]}": _dumped(_addressed(schema, addresses)) for path, schema in schemas.items()}


def _addressed(node: Any, addresses: Mapping[str, str]) -> Any:
    if isinstance(node, list):
        return [_addressed(item, addresses) for item in node]
    if not isinstance(node, dict):
        return node
    changed = {key: _addressed(value, addresses) for key, value in node.items()}
    for key in ("$id", "$ref"):
        urn, hash_sign, place = str(node.get(key, "")).partition("#")
        if urn in addresses:
            changed[key] = addresses[urn] + hash_sign + place
    return changed


def _dumped(schema: Any) -> bytes:
    return (json.dumps(schema, indent=2, ensure_ascii=False) + "\n").encode()


def _paths() -> Iterator[Path]:
    yield from sorted(sources.SCHEMAS.rglob("*.json"))
    yield sources.ROOT / "spec/requirements.json"
    yield from sorted((sources.ROOT / "conformance/schema").glob("*.json"))


def _corpus() -> bytes:
    """Return the corpus as one archive; its bytes depend only on its files."""
    root = sources.ROOT / "conformance"
    paths = [path for part in _CORPUS_PARTS for path in (root / part, *(root / part).rglob("*")) if path.is_file()]
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted([*paths, sources.ROOT / "LICENSE"]):
            name = path.relative_to(root if root in path.parents else sources.ROOT).as_posix()
            entry = zipfile.ZipInfo(f"toyspec-corpus/{name}", _LONG_AGO)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            archive.writestr(entry, path.read_bytes())
    return target.getvalue()


def _sections(found: Mapping[str, bytes]) -> Iterator[str]:
    for folder, title in _FOLDERS.items():
        names = [name for name in sorted(found) if name.removeprefix("docs/").rpartition("/")[0] + "/" == folder]
        yield f"## {title}\n\n| file | bytes |\n|---|---|"
        for name in names:
            link = name.removeprefix("docs/")
            yield f"| [`{link}`]({link})<br>{_about(name)} | {len(found[name]):,} |"
        yield ""


def _about(name: str) -> str:
    """Return the file's own description."""
    if name == CORPUS:
        return f"All cases and sessions, the forms they have, and the protocol of adapters; version {version()}."
    if name.endswith(".schema.json"):
        return f"The same with addresses in place of URNs: {name.rpartition('/')[2].removesuffix('.schema.json')}."
    content = sources.load(sources.ROOT / name.removeprefix("docs/"))
    known = {
        "stream.json": f"The rules that relate the records of a stream of {content.get('profile')}.",
        "tables.json": "All kinds, rules and limits in one file, without references.",
        "requirements.json": "Every statement, with the roles that it applies to and how a case can show it.",
        "protocol_cases.json": "Messages on both sides of the schema of the protocol.",
    }
    last = name.rpartition("/")[2]
    if last in known and "$id" not in content:
        return known[last]
    said = content.get("description") or content.get("$comment") or content.get("title") or ""
    return str(said).replace("|", "\\|")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
