"""Pictures, sounds, films, histograms, tables and files as values of ``run.log``: see spec/toy/v1/media.md.

Each takes what programs have: arrays of any library, Pillow's pictures, data frames, encoded bytes, or a path. Nothing
here raises for what it is given, since a picture must not stop a training: the value is left out, and the log says why.
An artifact is a file in the bundle, or outside, from where it is copied or only referred to.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import stat
import sys
import threading
import wave
from datetime import date, time, timedelta
from decimal import Decimal
from hashlib import file_digest, sha256
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

from toyspec.core.directories import Directory
from toyspec.core.errors import let_through
from toyspec.core.escaping import shortened
from toyspec.core.files import open_file
from toyspec.core.generated.media import EXTENSIONS
from toyspec.core.places.addresses import is_address, without_secrets
from toyspec.core.reading.run_files import MEDIA_FOLDER, media_file
from toyspec.core.writing.opening import free_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import SupportsFloat

    from toyspec.core.system_calls import SystemCalls


_BLOCK_BYTES: Final = 1 << 20
_MOST_PIXELS: Final = 1 << 28
_MOST_BINS: Final = 512
# What a file begins with says what it is; its name may be missing or wrong.
_BEGINNINGS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
)
_ENDINGS: Final = {f".{ending}": media_type for media_type, ending in EXTENSIONS.items()} | {
    ".jpeg": "image/jpeg", ".html": "text/html", ".pdf": "application/pdf", ".svg": "image/svg+xml",
}  # fmt: skip
_UNKNOWN: Final = "application/octet-stream"
_SOUND: Final = "a sound is one number a frame, or one for each channel: (frames,) or (frames, channels)"


class _UnfitError(ValueError):
    """What was given is not what it is to be; the message says what it must be."""


class Media:
    """A value that is a file of the bundle, or a record of a kind of its own. Use a subclass."""

    kind = "media"

    def __init__(self, *given: Any, caption: str | None = None) -> None:
        """Read what was *given*, and keep what is wrong with it."""
        self._caption = caption
        self._data = b""
        self._path: str | None = None
        self._members: dict[str, Any] = {}
        self._problem: str | None = None
        try:
            self._read(*given)
        except _UnfitError as error:
            self._problem = str(error)
        except Exception as error:  # noqa: BLE001 - an array or a picture may raise anything
            let_through(error)
            self._problem = f"it cannot be read: {type(error).__name__}: {shortened(str(error))}"

    _read: Callable[..., None]

    def placed(self, directory: str, calls: SystemCalls) -> dict[str, Any]:
        """Write the file into the bundle *directory*, if it is not there, and return the members of the record.

        Raises ValueError for what is not such a value, and OSError if the system fails.
        """
        if self._problem is not None:
            raise _UnfitError(self._problem)
        media_type = self._members["media_type"]
        folder = os.path.join(directory, MEDIA_FOLDER)
        if os.path.islink(folder):
            raise _UnfitError(f"{folder} is a link; media lie in a folder of the bundle: remove it")
        # The name of the file is known when it was read once, which a file that is still written may not be twice.
        temporary = f".{os.getpid()}-{threading.get_ident()}"
        found, size = sha256(), 0

        def hashed() -> Iterator[bytes]:
            nonlocal size
            for block in [self._data] if self._path is None else _blocks(self._path):
                found.update(block)
                size += len(block)
                yield block

        with Directory(directory, missing="make", calls=calls) as bundle, bundle.folder(MEDIA_FOLDER) as place:
            place.write(temporary, hashed())
            digest = found.hexdigest()
            name = os.path.basename(str(media_file(digest, media_type)))
            try:
                if not _is_there(os.path.join(folder, name), digest, size):
                    place.move(temporary, name)
            finally:
                place.delete(temporary)
        caption = {} if self._caption is None else {"caption": self._caption}
        return {**self._members, "sha256": digest, "size_bytes": size, **caption}

    def _file(self, given: Any) -> bool:
        """Take *given* if it is a path or encoded bytes."""
        if isinstance(given, bytes | bytearray | memoryview):
            self._data = bytes(given)
            head, name = self._data[:16], ""
        elif isinstance(given, str | os.PathLike):
            self._path = name = os.fspath(given)
            with open_file(name) as file:
                head = file.read(16)
        else:
            return False
        self._members["media_type"] = _type_of(head, name) or _UNKNOWN
        return True

    def _require(self, group: str) -> None:
        found = self._members["media_type"]
        if not found.startswith(f"{group}/"):
            raise _UnfitError(f"it is {found}, and not of type {group}; log it with toyspec.File")


class Image(Media):
    """A picture: an array (height, width), (height, width, 1, 3 or 4) or channels first, a Pillow picture, or a file.

    Integers are from 0 to 255, floats from 0 to 1, or from 0 to 255. Other floats, as of a normalised tensor, are
    scaled, which the caption says. Arrays, which need Pillow, and its pictures are kept as PNG, files unchanged.
    """

    def __init__(self, data: Any, *, caption: str | None = None) -> None:
        super().__init__(data, caption=caption)

    def _read(self, data: Any) -> None:
        if self._file(data):
            self._require("image")
        else:
            picture = data
            if not callable(getattr(data, "save", None)) or not hasattr(data, "mode"):
                picture, remark = _picture(data)
                self._caption = ": ".join(filter(None, [self._caption, remark])) or None
            if picture.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16"):
                picture = picture.convert("RGB")
            buffer = io.BytesIO()
            picture.save(buffer, "PNG")
            self._data, (width, height) = buffer.getvalue(), picture.size
            self._members |= {"media_type": "image/png", "width": width, "height": height}


class Audio(Media):
    """A sound: an array (frames,) or (frames, channels) with its *sample_rate*, or a file.

    Floats are from -1 to 1, integers of 16 bits. Arrays are kept as WAV of 16 bits, files unchanged.
    """

    def __init__(self, data: Any, sample_rate: int | None = None, *, caption: str | None = None) -> None:
        super().__init__(data, sample_rate, caption=caption)

    def _read(self, data: Any, sample_rate: int | None) -> None:
        if self._file(data):
            self._require("audio")
        elif sample_rate is None or sample_rate <= 0:
            raise _UnfitError("an array of samples needs its sample_rate in frames a second: Audio(samples, 16000)")
        else:
            import numpy as np

            samples = _array(data)
            if samples.ndim not in (1, 2) or not samples.size:
                raise _UnfitError(f"{_SOUND}; this has shape {samples.shape}")
            if samples.ndim == 2 and samples.shape[0] <= 8 < samples.shape[1]:
                samples = samples.T  # channels first
            if samples.dtype.kind == "f":
                _require_range(samples, -1.0, 1.0)
                samples = np.rint(samples * 32767.0)
            buffer = io.BytesIO()
            with wave.open(buffer, "wb") as file:
                file.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
                file.setsampwidth(2)
                file.setframerate(int(sample_rate))
                _require_range(samples, -32768, 32767)
                file.writeframes(np.ascontiguousarray(samples.astype("<i2")).tobytes())
            self._data = buffer.getvalue()
            self._members |= {"media_type": "audio/wav", "seconds": samples.shape[0] / sample_rate}


class Video(Media):
    """A film: a file, by its path or as bytes, kept unchanged; an animated GIF too."""

    def __init__(self, data: Any, *, caption: str | None = None) -> None:
        super().__init__(data, caption=caption)

    def _read(self, data: Any) -> None:
        if not self._file(data):
            raise _UnfitError("a film is a file, by its path or as bytes; make one of an array, for example by imageio")
        if self._members["media_type"] != "image/gif":
            self._require("video")


class Table(Media):
    """A table: rows with the names of *columns*, mappings by name, or a data frame of pandas or Polars; kept as CSV.

    A cell is a text, or what has one: a number, a date, an array, which becomes JSON. Log pictures beside the table.
    """

    def __init__(self, data: Any = (), columns: Sequence[str] | None = None, *, caption: str | None = None) -> None:
        super().__init__(data, columns, caption=caption)

    def _read(self, data: Any, columns: Sequence[str] | None) -> None:
        import csv

        buffer = io.StringIO(newline="")
        if callable(getattr(data, "to_csv", None)):
            for value in data.select_dtypes(object).to_numpy().flat if hasattr(data, "select_dtypes") else ():
                _cell(value)
            data.to_csv(buffer, index=False)
        elif callable(getattr(data, "write_csv", None)):
            buffer.write(data.write_csv())
        else:
            lines = list(data)
            if lines and all(hasattr(line, "keys") for line in lines):
                columns = columns or list(dict.fromkeys(name for line in lines for name in line))
                lines = [[line.get(name) for name in columns] for line in lines]
            wrong = next((line for line in lines if columns is not None and len(line) != len(columns)), None)
            if wrong is not None:
                raise _UnfitError(f"a row has {len(wrong)} cells and the table {len(columns or ())} columns")
            writer = csv.writer(buffer, lineterminator="\n")
            writer.writerows([*([columns] if columns is not None else []), *([*map(_cell, line)] for line in lines)])
        self._data = buffer.getvalue().encode("utf-8", "backslashreplace")
        self._members["media_type"] = "text/csv"


def _cell(value: Any) -> Any:
    """Return what CSV writes of *value* in full: what arrays and tensors print is rounded and cut."""
    if callable(getattr(value, "tolist", None)):
        found = value.tolist()
        # NumPy's scalars have their shortest text, and tensors none that is whole.
        value = str(value) if type(value).__module__ == "numpy" and not isinstance(found, list) else found
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, default=_cell)
    if isinstance(value, date | time | timedelta | Decimal | PurePath):
        return str(value)
    if value is None or isinstance(value, str | int | float):
        return value
    name = type(value).__name__
    raise _UnfitError(f"a cell is a text or a number, and not of type {name}; log it by a name of its own")


class File(Media):
    """Any file, by its path or as bytes; *media_type* is known by its first bytes or its name, if it is not given."""

    def __init__(self, data: Any, media_type: str | None = None, *, caption: str | None = None) -> None:
        super().__init__(data, media_type, caption=caption)

    def _read(self, data: Any, media_type: str | None) -> None:
        if not self._file(data):
            raise _UnfitError(f"a file is a path or bytes, and not of type {type(data).__name__}")
        if media_type is not None:
            self._members["media_type"] = media_type


class Histogram(Media):
    """How many of *values* are in each of *bins*, or known *edges* and *counts*; written as a record without a file."""

    kind = "histogram"

    def __init__(
        self,
        values: Any = None,
        bins: int = 64,
        *,
        edges: Sequence[SupportsFloat] | None = None,
        counts: Sequence[SupportsFloat] | None = None,
    ) -> None:
        self.not_finite = 0
        """Number of values that are not finite, which are in no bin."""
        super().__init__(values, bins, edges, counts)

    def _read(
        self,
        values: Any,
        bins: int,
        edges: Sequence[SupportsFloat] | None,
        counts: Sequence[SupportsFloat] | None,
    ) -> None:
        if edges is not None and counts is not None:
            known = [float(each) for each in edges], [float(each) for each in counts]
            if len(known[0]) != len(known[1]) + 1:
                raise _UnfitError(
                    f"{len(known[0])} edges have {len(known[0]) - 1} bins between them, got {len(known[1])}"
                )
        elif values is None:
            raise _UnfitError("give values, or edges and counts")
        else:
            import numpy as np

            array = _array(values).astype(np.float64).ravel()
            finite = array[np.isfinite(array)]
            self.not_finite = int(array.size - finite.size)
            if not finite.size:
                raise _UnfitError(f"none of its {array.size} values is finite")
            if not 1 <= bins <= _MOST_BINS:
                raise _UnfitError(f"bins is {bins}; it must be from 1 to {_MOST_BINS}")
            found, at = np.histogram(finite, bins=bins)
            known = [float(each) for each in at], [float(each) for each in found]
        self._members |= {"edges": known[0], "counts": known[1]}

    def placed(self, directory: str, calls: SystemCalls) -> dict[str, Any]:  # noqa: ARG002 - it has no file
        """See Media."""
        if self._problem is not None:
            raise _UnfitError(self._problem)
        return dict(self._members)


def media_of(value: Any) -> list[Media] | None:
    """Return the media that *value* is, one or several in a list; None for all else."""
    if isinstance(value, Media):
        return [value]
    if isinstance(value, list | tuple) and value and all(isinstance(each, Media) for each in value):
        return list(value)
    return None


def records_of(
    media: Mapping[str, list[Media]], directory: str, calls: SystemCalls
) -> Iterator[tuple[str, dict[str, Any] | str]]:
    """Yield for each of *media*, by name, the members of its record, or why it has none; raise nothing."""
    for name, several in media.items():
        for index, each in enumerate(several):
            at = {"index": index} if len(several) > 1 and each.kind == "media" else {}
            try:
                found: dict[str, Any] | str = {"kind": each.kind, "name": name, **each.placed(directory, calls), **at}
            except _UnfitError as error:
                found = str(error)
            except OSError as error:
                found = f"its file could not be written: {error.strerror or error}"
            yield name, found
            if isinstance(each, Histogram) and each.not_finite and not isinstance(found, str):
                yield name, f"{each.not_finite} of its values are not finite and in no bin"


def _is_there(path: str, digest: str, size: int) -> bool:
    """Return whether the file *path* has the content of its name: a crash may have left another one."""
    found = sha256()
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size != size:
            return False
        for block in _blocks(path):
            found.update(block)
    except OSError:
        return False
    return found.hexdigest() == digest


def _blocks(path: str) -> Iterator[bytes]:
    with open_file(path) as file:
        while block := file.read(_BLOCK_BYTES):
            yield block


def _type_of(head: bytes, name: str) -> str | None:
    known = next((media_type for beginning, media_type in _BEGINNINGS if head.startswith(beginning)), None)
    if head.startswith(b"RIFF"):
        known = {b"WAVE": "audio/wav", b"WEBP": "image/webp"}.get(head[8:12])
    if head[4:8] == b"ftyp":
        known = "video/mp4"
    return known or _ENDINGS.get(os.path.splitext(name)[1].lower())


def _array(value: Any) -> Any:
    """Return *value* as an array of NumPy: a tensor of PyTorch or JAX, also on a device, or nested lists."""
    try:
        import numpy as np
    except ImportError:
        raise _UnfitError("an array needs NumPy: python -m pip install numpy; or log a file") from None
    for step in ("detach", "cpu"):
        if callable(getattr(value, step, None)):
            value = getattr(value, step)()
    if "bfloat16" in str(getattr(value, "dtype", "")):
        value = value.float() if callable(getattr(value, "float", None)) else np.asarray(value, np.float32)
    found = np.asarray(value)
    if found.dtype.kind not in "biuf":
        raise _UnfitError(f"it must be an array of numbers, got {shortened(str(found.dtype))}")
    return found


def _picture(data: Any) -> tuple[Any, str]:
    """Return a picture of Pillow that shows an array, and what was done to its values, empty for nothing."""
    pixels, remark = _pixels(_array(data))
    try:
        from PIL import Image as Pictures
    except ImportError:
        raise _UnfitError("an array of pixels needs Pillow: python -m pip install pillow; or log a file") from None
    return Pictures.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels), remark


def _pixels(array: Any) -> tuple[Any, str]:
    """Return *array* as (height, width, channels) of bytes, and what was done to its values."""
    import numpy as np

    given = array.shape
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim == 3 and array.shape[2] not in (1, 3, 4) and array.shape[0] in (1, 3, 4):
        array = np.moveaxis(array, 0, 2)
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or not array.size:
        shape = "(height, width) or (height, width, 1, 3 or 4)"
        raise _UnfitError(f"a picture is an array {shape}, or channels first; this has shape {given}")
    if array.size > _MOST_PIXELS:
        raise _UnfitError(f"a picture has at most {_MOST_PIXELS:,} values, this has {array.size:,}; make it smaller")
    remark = ""
    if array.dtype.kind == "f":
        low, high = float(array.min()), float(array.max())
        if not np.isfinite([low, high]).all():
            raise _UnfitError("its floats must be finite")
        if low < 0.0 or high > 255.0:
            # As a normalised tensor.
            remark = f"scaled from {low:.6g} to {high:.6g}"
            array = (array - low) / max(high - low, sys.float_info.min)
        array = np.rint(array if low >= 0.0 and 1.0 < high <= 255.0 else array * 255.0)
    elif array.dtype.kind == "b":
        array = array * np.uint8(255)
    else:
        _require_range(array, 0, 255)
    return np.ascontiguousarray(array.astype(np.uint8)), remark


def _require_range(array: Any, lowest: float, highest: float) -> None:
    low, high = array.min(), array.max()
    if not (low >= lowest and high <= highest):
        kind = "floats" if array.dtype.kind == "f" and highest == 1.0 else "values"
        raise _UnfitError(f"its {kind} must be from {lowest} to {highest}, got {low:.6g} to {high:.6g}; scale them")


FOLDER: Final = "artifacts"
"""Folder of the bundle that files from outside are copied into."""

MOST_HASHED_BYTES: Final = 1 << 28
"""A larger file is not hashed while the training waits."""


def placed_file(directory: str, path: str | os.PathLike[str], *, copy: bool) -> tuple[str, dict[str, Any]]:
    """Return the kind and the members of the record that says where the file *path* is.

    A relative path is one in the bundle *directory*, else one in the working directory. With *copy*, a file from
    outside is copied into the bundle. Raise OSError where that fails.
    """
    given = os.fspath(path)
    if is_address(given):
        return "reference", {"uri": without_secrets(given)}
    root = os.path.realpath(directory)
    inside = os.path.join(root, given)
    found = inside if _is_in(inside, root) and (os.path.exists(inside) or not os.path.exists(given)) else given
    if not _is_in(found, root) and copy:
        found = _copied(found, root)
    if _is_in(found, root):
        relative = os.path.relpath(os.path.realpath(found), root)
        return "artifact", {"path": Path(relative).as_posix(), **_facts(found)}
    return "reference", {"uri": Path(os.path.abspath(found)).as_uri(), **_facts(found)}


def _is_in(path: str, root: str) -> bool:
    return os.path.realpath(path).startswith(os.path.join(root, ""))


def _copied(path: str, root: str) -> str:
    with Directory(root, missing="make") as bundle, bundle.folder(FOLDER) as folder:
        target = os.path.join(folder.path, os.path.basename(path))
        if os.path.lexists(target):
            target = next(free_names(target, first=2))
        folder.copy(path, os.path.basename(target))
    return target


def _facts(path: str) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    with contextlib.suppress(OSError):
        if os.path.isfile(path):
            facts["size_bytes"] = os.path.getsize(path)
            if facts["size_bytes"] <= MOST_HASHED_BYTES:
                with open_file(path) as file:
                    facts["sha256"] = file_digest(file, "sha256").hexdigest()
    return facts
