"""Makes media and histograms of the objects in a W&B history, whose files lie beside the run file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toyspec.convert.incoming_files import MISSING_FILE, file_below
from toyspec.convert.losses import NO_PLACE, PART_DROPPED
from toyspec.convert.shown_tables import table_of_file
from toyspec.core.writing.media import File, Histogram, Media

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.intake import Intake

_TYPE = "_type"
_FILE = ("path", "sha256", "size", "format", "width", "height", "caption", "artifact_path", "_latest_artifact_path")
_SEVERAL = ("count", "filenames", "captions", "all_captions")
_FRAMING = frozenset([_TYPE, *_FILE, *_SEVERAL, "ncols", "nrows", "log_mode"])


def taken_objects(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Remove the members of objects with a type from *found*, a row, and return them by the name of the object."""
    names = [name.removesuffix(f".{_TYPE}") for name in found if name.endswith(f".{_TYPE}")]
    objects = {name: value for name, value in found.items() if isinstance(value, dict) and _TYPE in value}
    for name in objects:
        del found[name]
    for name in names:
        own = [key for key in found if key.startswith(f"{name}.")]
        objects[name] = {key.removeprefix(f"{name}."): found.pop(key) for key in own}
    return {name: members for name, members in objects.items() if members}


def lines_of(
    members: dict[str, Any], name: str, at: dict[str, Any], source: tuple[str, str], intake: Intake
) -> Iterator[bytes]:
    """Yield the lines of the object *name*, with the time and step *at*; one that has no place is dropped.

    *source* is the directory of its files, which are never looked for outside of it, and its place for reports.
    """
    ledger, kind, (files, place) = intake.ledger, members.get(_TYPE), source
    bins = _bins_of(members) if kind == "histogram" else None
    several = [] if bins is not None else _several(members)
    contents: list[tuple[Media, dict[str, Any]]] = [] if bins is None else [(bins, {})]
    left = sorted(members.keys() - _FRAMING) if len(several) == 1 and several[0] is members else []
    for index, each in enumerate(several):
        path = file_below(files, each.get("path"))
        if path is None:
            ledger.lose(MISSING_FILE, place, each.get("path"), name=name)
        else:
            order = {"index": index} if len(several) > 1 else {}
            contents.append((_content(path, each), order | _sizes(each)))
    if bins is None and not several:
        ledger.lose(NO_PLACE, place, f"an object of type {kind}", name=name)
    if left and contents:
        ledger.changed(PART_DROPPED, place, ", ".join(left))
    yield from intake.media(at, name, contents, place)


def _several(members: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the members of each file of an object."""
    if isinstance(members.get("path"), str):
        return [members]
    names, captions = members.get("filenames"), members.get("captions")
    if isinstance(names, list):
        said = captions if isinstance(captions, list) and len(captions) == len(names) else [None] * len(names)
        sizes = {key: members.get(key) for key in ("width", "height")}
        return [{"path": name, "caption": caption, **sizes} for name, caption in zip(names, said, strict=True)]
    lists = [value for value in members.values() if isinstance(value, list)]
    return next((each for each in lists if each and all(isinstance(one, dict) and "path" in one for one in each)), [])


def _content(path: str, members: dict[str, Any]) -> Media:
    caption = members.get("caption")
    caption = caption if isinstance(caption, str) and caption else None
    return table_of_file(path, "data", caption=caption) if path.endswith(".table.json") else File(path, caption=caption)


def _sizes(members: dict[str, Any]) -> dict[str, int]:
    sizes = {key: members.get(key) for key in ("width", "height")}
    return {key: size for key, size in sizes.items() if type(size) is int and size >= 0}


def _bins_of(members: dict[str, Any]) -> Histogram | None:
    counts, edges = members.get("values"), members.get("bins")
    least, width, count = (members.get(f"packedBins.{key}") for key in ("min", "size", "count"))
    if edges is None and isinstance(count, int) and isinstance(least, int | float) and isinstance(width, int | float):
        edges = [least + width * at for at in range(min(count, 1 << 16) + 1)]
    is_whole = (
        isinstance(counts, list)
        and isinstance(edges, list)
        and all(type(each) in (int, float) for each in (*edges, *counts))
    )
    return Histogram(edges=edges, counts=counts) if is_whole else None
