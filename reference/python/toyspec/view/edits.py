"""Annotations that the page of the viewer asks to write: the only thing that its server ever writes for a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.errors import StreamError
from toyspec.core.places.addresses import is_address
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toyspec.view.roots import Root

_MOST_TAGS = 1000


class RefusedError(Exception):
    """The request cannot be answered; *status* is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Edit(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One annotation, as the page sends it; a member that is absent changes nothing. See ``annotate``."""

    run: str
    """Id of the run."""
    name: str | None = None
    group: str | None = None
    notes: str | None = None
    add_tags: list[str] = []
    remove_tags: list[str] = []
    starred: bool | None = None
    hidden: bool | None = None


def edit_in(body: bytes) -> Edit:
    """Return the annotation that the *body* of a request asks for; raise RefusedError."""
    try:
        edit = msgspec.json.decode(body, type=Edit)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusedError(400, f"the request is not an annotation: {error}") from None
    if len(edit.add_tags) + len(edit.remove_tags) > _MOST_TAGS:
        raise RefusedError(400, f"more than {_MOST_TAGS:,} tags in one annotation; send fewer")
    return edit


def write_edit(edit: Edit, stream: str, *, by: str | None) -> None:
    """Add *edit* to the annotations of the run with *stream*, as said by the user *by*; raise RefusedError."""
    # Imported here: few servers write anything, and start-up time counts.
    from toyspec.core.writing.annotating import annotate

    said: dict[str, Any] = {name: each for name in edit.__struct_fields__ if (each := getattr(edit, name)) is not None}
    del said["run"]
    try:
        annotate(stream, **said, by=by)
    except StreamError as error:
        raise RefusedError(409, error.fact) from error
    except ValueError as error:
        raise RefusedError(400, str(error)) from error
    except OSError as error:
        raise RefusedError(409, f"the annotation cannot be written: {cause_of(error)}") from error


def writable_names(roots: Sequence[Root]) -> list[str]:
    """Return the names of those *roots* that are directories on this machine: annotations are written beside logs."""
    return [root.name for root in roots if not is_address(root.path)]
