"""Which repository or bucket a text names, and where in it."""

from __future__ import annotations

import os
import re
from errno import EACCES
from typing import Literal, NamedTuple
from urllib.parse import quote

from toyspec.core.errors import PlaceError

Kind = Literal["model", "dataset", "space", "bucket"]

_PREFIXES: dict[str, Kind] = {"models": "model", "datasets": "dataset", "spaces": "space", "buckets": "bucket"}
_OF_KIND = {kind: f"{prefix}/" for prefix, kind in _PREFIXES.items()} | {"model": ""}
_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_SPECIAL = r"refs/(?:pr/[0-9]+|convert/[A-Za-z0-9._-]+)"
_LOCATION = re.compile(rf"(?P<name>{_PART}/{_PART})(?:@(?P<revision>{_SPECIAL}|[^/@]+))?(?:/(?P<path>.+))?")
_EXPECTED = "write hf://NAME/REPOSITORY, hf://datasets/NAME/REPOSITORY or hf://buckets/NAME/BUCKET, with /PATH after it"


class HubLocation(NamedTuple):
    """A folder of a repository or of a bucket."""

    kind: Kind
    name: str
    """Its owner and its name, with ``/`` between them."""
    revision: str | None
    """The branch, tag or commit; None for the main branch, and in a bucket."""
    path: str
    """The folder, without ``/`` around it; empty for all of it."""

    @property
    def root(self) -> str:
        """The address of all of it."""
        revision = "" if self.revision is None else f"@{self.revision}"
        return f"hf://{_OF_KIND[self.kind]}{self.name}{revision}"

    @property
    def address(self) -> str:
        """The address of the folder."""
        return f"{self.root}/{self.path}" if self.path else self.root

    @property
    def page(self) -> str:
        """The path of its page on the web, from the address of the hub on."""
        return quote(f"{_OF_KIND[self.kind]}{self.name}")


def location_of(text: str) -> HubLocation:
    """Return what *text* names, with or without ``hf://``; raise PlaceError where it names neither."""
    body = text.removeprefix("hf://").rstrip("/")
    first, _, rest = body.partition("/")
    kind = _PREFIXES.get(first, "model") if rest.count("/") else "model"
    found = _LOCATION.fullmatch(rest if kind != "model" or first == "models" else body)
    if found is None or os.path.isabs(text) or first in ("", ".", ".."):
        raise PlaceError(text, f"not a repository; {_EXPECTED}", number=EACCES)
    path = found["path"] or ""
    if any(part in ("", ".", "..") for part in path.split("/") if path):
        raise PlaceError(text, "a path in a repository has no empty part, . or ..", number=EACCES)
    if kind == "bucket" and found["revision"]:
        raise PlaceError(text, "a bucket has no revisions; leave out what is after the @", number=EACCES)
    return HubLocation(kind, found["name"], found["revision"], path)
