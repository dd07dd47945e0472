"""Pictures, sounds, films, histograms, tables and files as values of run.log: what is in the bundle, what is not."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import toyspec
from toyspec.core.reading.run_files import media_file
from toyspec.core.system_calls import SYSTEM_CALLS
from toyspec.core.writing import media as media_module
from toyspec.integrations import wandb
from toyspec.integrations.summary_writer import SummaryWriter

if TYPE_CHECKING:
    from collections.abc import Callable

np = pytest.importorskip("numpy")
Pictures = pytest.importorskip("PIL.Image")
RNG = np.random.default_rng(7)


class TensorLike:
    """What a tensor on a device is like: it has to be detached and copied before it is an array."""

    def __init__(self, array: Any) -> None:
        self.array, self.dtype = array, array.dtype

    def detach(self) -> TensorLike:
        """Return the same without gradient."""
        return self

    def cpu(self) -> Any:
        """Return the array."""
        return self.array


def logged(root: Path, values: dict[str, Any], step: int | None = 3) -> list[dict[str, Any]]:
    """Return the records of a run that logs *values*, whose files are those that its records name."""
    with toyspec.start_run(root, run_id="r") as run:
        run.log(values, step=step)
    return records_of(root / "r")


def records_of(bundle: Path) -> list[dict[str, Any]]:
    """Return the records of a bundle; each media record must have its file, and each file a record."""
    records = [json.loads(line) for line in (bundle / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    named = set()
    for record in records:
        if record["kind"] == "media":
            path = bundle / str(media_file(record["sha256"], record["media_type"]))
            data = path.read_bytes()
            assert (record["sha256"], record["size_bytes"]) == (hashlib.sha256(data).hexdigest(), len(data))
            named.add(path)
    assert named == set((bundle / "media").glob("*"))
    rules = {finding.rule for finding in toyspec.check(bundle).files[0].findings}
    assert rules <= {"values-left-out"}
    return records


def media(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records of pictures and the like."""
    return [record for record in records if record["kind"] in ("media", "histogram")]


def content(root: Path, record: dict[str, Any]) -> bytes:
    """Return the file of a record of the run below *root*."""
    return (root / "r" / str(media_file(record["sha256"], record["media_type"]))).read_bytes()


PIXELS = RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8)
PICTURES = {
    "bytes": PIXELS,
    "floats": PIXELS / 255.0,
    "half precision": (PIXELS / 255.0).astype(np.float32),
    "channels first": np.moveaxis(PIXELS, 2, 0),
    "a tensor": TensorLike(np.moveaxis(PIXELS, 2, 0) / 255.0),
    "long integers": PIXELS.astype(np.int64),
    "nested lists": PIXELS.tolist(),
    "a picture of Pillow": Pictures.fromarray(PIXELS),
}


@pytest.mark.parametrize("name", PICTURES)
def test_picture_is_kept_exactly(tmp_path: Path, name: str) -> None:
    """Whatever holds the pixels, another program reads the same ones from the file."""
    (record,) = media(logged(tmp_path, {"pred": toyspec.Image(PICTURES[name], caption="best")}))
    assert ("pred", "image/png", 7, 5, "best", 3) == tuple(
        record[key] for key in ("name", "media_type", "width", "height", "caption", "step")
    )
    assert PIXELS.tolist() == np.asarray(Pictures.open(io.BytesIO(content(tmp_path, record)))).tolist()


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (3, "RGB"), (4, "RGBA")])
def test_channels_of_a_picture(tmp_path: Path, channels: int, mode: str) -> None:
    """Grey, coloured and transparent pictures stay what they are; so does a mask of booleans."""
    pixels = RNG.integers(0, 256, (4, 6, channels), dtype=np.uint8)
    (record,) = media(logged(tmp_path, {"a": toyspec.Image(pixels)}))
    found = Pictures.open(io.BytesIO(content(tmp_path, record)))
    assert (mode, pixels.squeeze().tolist()) == (found.mode, np.asarray(found).tolist())


def test_numbers_texts_and_media_of_one_call(tmp_path: Path) -> None:
    """One call writes them at one step, nested names joined; a content that comes again has one file."""
    same = np.zeros((2, 2), bool)
    values = {
        "acc": 0.5,
        "word": "x",
        "val": {"pred": [toyspec.Image(same), toyspec.Image(~same), toyspec.Image(same)]},
    }
    records = logged(tmp_path, values)
    (scalars,) = [record for record in records if record["kind"] == "scalars"]
    assert ({"acc": 0.5}, {"word": "x"}, 3) == (scalars["values"], scalars["texts"], scalars["step"])
    found = media(records)
    assert [("val/pred", 0, 3), ("val/pred", 1, 3), ("val/pred", 2, 3)] == [
        (record["name"], record["index"], record["step"]) for record in found
    ]
    assert 2 == len(list((tmp_path / "r" / "media").iterdir()))


def test_files_are_kept_unchanged(tmp_path: Path) -> None:
    """A path or bytes that are encoded already are copied unchanged, with the type that they begin with."""
    buffer = io.BytesIO()
    Pictures.fromarray(PIXELS).save(buffer, "JPEG")
    (tmp_path / "wrong-name.png").write_bytes(buffer.getvalue())
    (tmp_path / "notes.txt").write_text("hello", encoding="utf-8")
    values = {
        "jpeg": toyspec.Image(tmp_path / "wrong-name.png"),
        "text": toyspec.File(str(tmp_path / "notes.txt")),
        "own": toyspec.File(b"\0\1", "application/x-mine"),
        "page": toyspec.File(b"<script>", "text/html"),
    }
    found = {record["name"]: record for record in media(logged(tmp_path, values))}
    assert ["image/jpeg", "text/plain", "application/x-mine", "text/html"] == [
        found[name]["media_type"] for name in ("jpeg", "text", "own", "page")
    ]
    assert (buffer.getvalue(), b"hello") == tuple(content(tmp_path, found[name]) for name in ("jpeg", "text"))
    assert ".bin" == Path(str(media_file(found["page"]["sha256"], "text/html"))).suffix


@pytest.mark.parametrize(
    ("head", "name", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n", "a.txt", "image/png"),
        (b"\xff\xd8\xff\xe0", "a", "image/jpeg"),
        (b"GIF89a", "a", "image/gif"),
        (b"RIFF\0\0\0\0WAVEfmt ", "a", "audio/wav"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "a", "image/webp"),
        (b"RIFF\0\0\0\0AVI ", "a", "application/octet-stream"),
        (b"OggS", "a", "audio/ogg"),
        (b"fLaC", "a", "audio/flac"),
        (b"ID3", "a", "audio/mpeg"),
        (b"\xff\xfb", "a", "audio/mpeg"),
        (b"\x1aE\xdf\xa3", "a", "video/webm"),
        (b"\0\0\0\x20ftypisom", "a", "video/mp4"),
        (b"text", "a.b/c.CSV", "text/csv"),
        (b"text", "a.txt", "text/plain"),
        (b"{}", "a.json", "application/json"),
        (b"<html>", "a.html", "text/html"),
        (b"<svg>", "a.svg", "image/svg+xml"),
        (b"%PDF", "a.pdf", "application/pdf"),
        (b"", "a.jpg", "image/jpeg"),
        (b"", "a.jpeg", "image/jpeg"),
        (b"", "a.mp3", "audio/mpeg"),
        (b"", "a.mp4", "video/mp4"),
        (b"", "a.webm", "video/webm"),
        (b"", "a.wav", "audio/wav"),
        (b"", "a.unknown", "application/octet-stream"),
    ],
)
def test_type_of_a_file_is_known_by_its_beginning_or_its_name(
    tmp_path: Path, head: bytes, name: str, media_type: str
) -> None:
    """The first bytes decide; where they say nothing, the ending does. A given type is taken unchanged."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(head)
    values = {"found": toyspec.File(path), "given": toyspec.File(path, "x/own"), "of bytes": toyspec.File(head)}
    found, given, of_bytes = media(logged(tmp_path / "runs", values))
    assert (media_type, "x/own") == (found["media_type"], given["media_type"])
    assert of_bytes["media_type"] in (media_type, "application/octet-stream")


def test_arrays_of_pixels_without_pillow_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log says what is missing, and the other values are written."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    note = logged(tmp_path, {"a": toyspec.Image(PIXELS), "acc": 0.5})[-2]
    assert {"a": 1} == note["left_out"]
    assert "an array of pixels needs Pillow: python -m pip install pillow; or log a file" in note["text"]


@pytest.mark.parametrize("film", [b"GIF89a", b"\0\0\0\x20ftypisom", b"\x1aE\xdf\xa3"])
def test_film_may_be_a_file(tmp_path: Path, film: bytes) -> None:
    """A film or an animation is kept unchanged."""
    (record,) = media(logged(tmp_path, {"a": toyspec.Video(film, caption="it moves")}))
    assert (film, "it moves") == (content(tmp_path, record), record["caption"])


@pytest.mark.parametrize("way", ["to_csv", "write_csv"])
def test_data_frame_writes_itself(tmp_path: Path, way: str) -> None:
    """A frame of pandas is asked for its rows without their numbers, one of Polars for its text."""

    class Frame:
        def __getattr__(self, name: str) -> Any:
            if name != way:
                raise AttributeError(name)
            return (lambda: "a\n1\n") if name == "write_csv" else self.fill

        @staticmethod
        def fill(buffer: io.StringIO, *, index: bool) -> None:
            buffer.write("index,a\n0,1\n" if index else "a\n1\n")

    (record,) = media(logged(tmp_path, {"a": toyspec.Table(Frame())}))
    assert (b"a\n1\n", "text/csv") == (content(tmp_path, record), record["media_type"])


def test_half_precision_of_16_bits_is_a_picture(tmp_path: Path) -> None:
    """What NumPy does not have, as PyTorch's bfloat16, is made to floats first."""

    class Tensor:
        dtype = "torch.bfloat16"

        @staticmethod
        def float() -> Any:
            return PIXELS / 255.0

    (record,) = media(logged(tmp_path, {"a": toyspec.Image(Tensor())}))
    assert PIXELS.tolist() == np.asarray(Pictures.open(io.BytesIO(content(tmp_path, record)))).tolist()


def test_file_that_changes_while_it_is_copied_has_the_digest_of_its_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is read once, and what was read is what its record names."""
    path = tmp_path / "a.txt"
    path.write_text("first")
    blocks = media_module._blocks

    def changing(name: str) -> Any:
        yield from blocks(name)
        path.write_text("second")

    monkeypatch.setattr(media_module, "_blocks", changing)
    (record,) = media(logged(tmp_path, {"a": toyspec.File(path)}))
    assert b"first" == content(tmp_path, record)


def test_content_that_is_logged_again_stays(tmp_path: Path) -> None:
    """Its file is the one of before, and nothing else is left in the folder."""
    values = {"a": toyspec.File(b"whole", "text/plain")}
    (record,) = media(logged(tmp_path, values))
    path = tmp_path / "r" / str(media_file(record["sha256"], "text/plain"))
    before = path.stat()
    logged(tmp_path, values)
    assert (before.st_ino, before.st_mtime_ns) == (path.stat().st_ino, path.stat().st_mtime_ns)
    assert [path] == list(path.parent.iterdir())


def test_file_that_was_cut_short_is_written_again(tmp_path: Path) -> None:
    """A file of the right name and other content is what a crash has left; one of a link is replaced, not followed."""
    values = {"a": toyspec.File(b"whole", "text/plain")}
    (record,) = media(logged(tmp_path, values))
    path = tmp_path / "r" / str(media_file(record["sha256"], "text/plain"))
    for left in (b"who", b"\0\0\0\0\0"):
        path.write_bytes(left)
        logged(tmp_path, values)
        assert b"whole" == path.read_bytes()
    path.unlink()
    (tmp_path / "other").write_bytes(b"other")
    path.symlink_to(tmp_path / "other")
    logged(tmp_path, values)
    assert (b"whole", b"other", False) == (path.read_bytes(), (tmp_path / "other").read_bytes(), path.is_symlink())


class Tensor:
    """A number whose text is rounded, as PyTorch has them."""

    def __init__(self, value: float) -> None:
        self.value = value

    def tolist(self) -> float:
        """Return the number."""
        return self.value

    def __repr__(self) -> str:
        return f"tensor({self.value:.4f})"


def test_tables(tmp_path: Path) -> None:
    """Rows, mappings and data frames are CSV that another program reads back."""
    values = {
        "rows": toyspec.Table([[1, "a,b"], [2, 'say "x"\n']], ["n", "text"]),
        "mappings": toyspec.Table([{"n": 1}, {"m": 2}]),
        "arrays": toyspec.Table([[np.float32(0.1), Tensor(1 / 3), np.arange(2000)]], ["x", "y", "z"]),
    }
    found = [
        list(csv.reader(io.StringIO(content(tmp_path, record).decode(), newline="")))
        for record in media(logged(tmp_path, values))
    ]
    numbers = ["0.1", str(1 / 3), json.dumps(list(range(2000)))]
    assert [
        [["n", "text"], ["1", "a,b"], ["2", 'say "x"\n']],
        [["n", "m"], ["1", ""], ["", "2"]],
        [["x", "y", "z"], numbers],
    ] == found


def test_table_of_a_run_is_not_a_log(tmp_path: Path) -> None:
    """A table with steps and losses in the folder media is not listed as a run of its own."""
    rows = [{"step": step, "loss": 1 / step} for step in range(1, 9)]
    logged(tmp_path, {"a": toyspec.Table(rows)})
    assert ["r"] == [run.facts.run for run in toyspec.list_runs(tmp_path)]
    assert 1 == len(toyspec.check(tmp_path).files)


def test_histograms(tmp_path: Path) -> None:
    """Counts are those of NumPy; what is not finite is in no bin, and the log counts that."""
    values = np.append(RNG.normal(size=200), [np.nan, np.inf])
    records = logged(tmp_path, {"a": toyspec.Histogram(values, 8), "b": toyspec.Histogram(edges=[0, 1], counts=[5])})
    first, second = media(records)
    counts, edges = np.histogram(values[:200], 8)
    assert (edges.tolist(), counts.tolist()) == (first["edges"], first["counts"])
    assert ([0.0, 1.0], [5.0]) == (second["edges"], second["counts"])
    assert [{"a": 1}] == [record["left_out"] for record in records if "left_out" in record]


_SHAPES = "a picture is an array (height, width) or (height, width, 1, 3 or 4), or channels first; this has shape"
_SOUND = "a sound is one number a frame, or one for each channel: (frames,) or (frames, channels); this has shape"
_RATE = "an array of samples needs its sample_rate in frames a second: Audio(samples, 16000)"
_BOTH = "give values, or edges and counts"
_FLOATS = "its floats must be from 0.0 to 1.0, got"
WRONG: list[tuple[str, Callable[[], Any]]] = [
    (f"{_FLOATS} 2 to 2; scale them", lambda: toyspec.Image(np.full((2, 2), 2.0))),
    (f"{_FLOATS} -0.5 to 1; scale them", lambda: toyspec.Image(np.array([[-0.5, 1.0]]))),
    (f"{_FLOATS} nan to nan; scale them", lambda: toyspec.Image(np.full((2, 2), np.nan))),
    ("its values must be from 0 to 255, got 256 to 256; scale them", lambda: toyspec.Image(np.full((2, 2), 256))),
    ("its values must be from 0 to 255, got -1 to 0; scale them", lambda: toyspec.Image(np.array([[-1, 0]]))),
    (f"{_SHAPES} (2, 2, 7)", lambda: toyspec.Image(np.zeros((2, 2, 7)))),
    (f"{_SHAPES} (0, 0)", lambda: toyspec.Image(np.zeros((0, 0)))),
    (f"{_SHAPES} (3,)", lambda: toyspec.Image(np.zeros(3))),
    (f"{_SHAPES} (1, 1, 1, 1)", lambda: toyspec.Image(np.zeros((1, 1, 1, 1)))),
    ("it must be an array of numbers, got object", lambda: toyspec.Image(object())),
    ("it must be an array of numbers, got complex128", lambda: toyspec.Image(np.ones((2, 2), complex))),
    (
        "it is application/octet-stream, and not of type image; log it with toyspec.File",
        lambda: toyspec.Image(b"text"),
    ),
    (
        "it cannot be read: FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/a.png'",
        lambda: toyspec.Image("/nowhere/a.png"),
    ),
    (_RATE, lambda: toyspec.Audio(np.zeros(4))),
    (_RATE, lambda: toyspec.Audio(np.zeros(4), 0)),
    (_RATE, lambda: toyspec.Audio(np.zeros(4), -8)),
    ("its floats must be from -1.0 to 1.0, got 3 to 3; scale them", lambda: toyspec.Audio(np.full(4, 3.0), 8)),
    (f"{_SOUND} (2, 2, 2)", lambda: toyspec.Audio(np.zeros((2, 2, 2)), 8)),
    (f"{_SOUND} (0,)", lambda: toyspec.Audio(np.zeros(0), 8)),
    (
        "its values must be from -32768 to 32767, got 40000 to 40000; scale them",
        lambda: toyspec.Audio(np.full(4, 40000), 8),
    ),
    ("its values must be from -32768 to 32767, got -32769 to 0; scale them", lambda: toyspec.Audio([-32769, 0], 8)),
    ("it is image/gif, and not of type audio; log it with toyspec.File", lambda: toyspec.Audio(b"GIF89a")),
    (
        "a film is a file, by its path or as bytes; make one of an array, for example by imageio",
        lambda: toyspec.Video(np.zeros((2, 2, 2, 3))),
    ),
    (
        "it is application/octet-stream, and not of type video; log it with toyspec.File",
        lambda: toyspec.Video(b"text"),
    ),
    (
        "a picture has at most 268,435,456 values, this has 1,073,741,824; make it smaller",
        lambda: toyspec.Image(np.broadcast_to(np.uint8(0), (1 << 15, 1 << 15))),
    ),
    ("none of its 1 values is finite", lambda: toyspec.Histogram([float("nan")])),
    ("bins is 0; it must be from 1 to 512", lambda: toyspec.Histogram([1.0], 0)),
    ("bins is 513; it must be from 1 to 512", lambda: toyspec.Histogram([1.0], 513)),
    ("3 edges have 2 bins between them, got 1", lambda: toyspec.Histogram(edges=[0, 1, 2], counts=[1])),
    (_BOTH, toyspec.Histogram),
    (_BOTH, lambda: toyspec.Histogram(edges=[0, 1, 2])),
    (_BOTH, lambda: toyspec.Histogram(counts=[1, 2])),
    ("a row has 1 cells and the table 2 columns", lambda: toyspec.Table([[1, 2], [1]], ["a", "b"])),
    ("a file is a path or bytes, and not of type int", lambda: toyspec.File(5)),
]


@pytest.mark.parametrize(("fact", "make"), WRONG, ids=range(len(WRONG)))
def test_what_is_not_a_picture_takes_nothing_along(
    tmp_path: Path, fact: str, make: Callable[[], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is raised into the training; the other values are written, and the log counts what it lacks and why."""
    records = logged(tmp_path, {"bad": make(), "acc": 1.0})
    assert [{"acc": 1.0}] == [record["values"] for record in records if record["kind"] == "scalars"]
    (note,) = [record for record in records if record["kind"] == "note"]
    assert ({"bad": 1}, f"left out: bad ({fact})") == (note["left_out"], note["text"])
    assert f"bad is left out: {fact} (reported once)" in capsys.readouterr().err
    with toyspec.start_run(tmp_path, run_id="strict", on_error="raise") as run, pytest.raises(ValueError, match="bad"):
        run.log({"bad": make()})


def _frames(*shape: int) -> Any:
    """Return integers of 16 bits, each another one."""
    return np.arange(np.prod(shape)).reshape(shape)


def _wave(channels: int, rate: int, samples: list[int]) -> bytes:
    """Return a sound as a file, its *samples* channel by channel in each frame."""
    data = b"".join(each.to_bytes(2, "little", signed=True) for each in samples)
    facts = (16, 1, channels, rate, rate * channels * 2, channels * 2, 16)
    sizes = (4, 2, 2, 4, 4, 2, 2)
    form = b"".join(fact.to_bytes(size, "little") for fact, size in zip(facts, sizes, strict=True))
    body = b"WAVEfmt " + form + b"data" + len(data).to_bytes(4, "little") + data
    return b"RIFF" + len(body).to_bytes(4, "little") + body


# A value, the members of its record, and the file; without one, None.
WHOLE: dict[str, tuple[Callable[[], Any], dict[str, Any], bytes | None]] = {
    "sound of floats": (
        lambda: toyspec.Audio([0.0, 1.0, -1.0, 0.5], 8, caption="hm"),
        {"media_type": "audio/wav", "seconds": 0.5, "caption": "hm"},
        _wave(1, 8, [0, 32767, -32767, 16384]),
    ),
    "sound at the bounds": (
        lambda: toyspec.Audio(np.array([-32768, 32767]), 1),
        {"media_type": "audio/wav", "seconds": 2.0},
        _wave(1, 1, [-32768, 32767]),
    ),
    "sound with eight channels first": (
        lambda: toyspec.Audio(_frames(8, 9), 9),
        {"media_type": "audio/wav", "seconds": 1.0},
        _wave(8, 9, [channel * 9 + at for at in range(9) for channel in range(8)]),
    ),
    "sound with eight channels last": (
        lambda: toyspec.Audio(_frames(8, 8), 4),
        {"media_type": "audio/wav", "seconds": 2.0},
        _wave(8, 4, list(range(64))),
    ),
    "sound with nine channels": (
        lambda: toyspec.Audio(_frames(9, 10), 3),
        {"media_type": "audio/wav", "seconds": 3.0},
        _wave(10, 3, list(range(90))),
    ),
    "rows": (
        lambda: toyspec.Table([[1, "a,b"], [None, 'c"']], ["n", "t"]),
        {"media_type": "text/csv"},
        b'n,t\n1,"a,b"\n,"c"""\n',
    ),
    "rows without names": (lambda: toyspec.Table([[1, 2], [3]]), {"media_type": "text/csv"}, b"1,2\n3\n"),
    "mappings": (
        lambda: toyspec.Table([{"a": 1}, {"b": "\ud800", "a": 2}]),
        {"media_type": "text/csv"},
        b"a,b\n1,\n2,\\ud800\n",
    ),
    "some names of mappings": (
        lambda: toyspec.Table([{"a": 1, "b": 2}], ["b"]),
        {"media_type": "text/csv"},
        b"b\n2\n",
    ),
    "a table of nothing": (lambda: toyspec.Table(columns=["a"]), {"media_type": "text/csv"}, b"a\n"),
    "a file": (lambda: toyspec.File(b"x", "a/b"), {"media_type": "a/b"}, b"x"),
    "a buffer": (lambda: toyspec.File(bytearray(b"x")), {"media_type": "application/octet-stream"}, b"x"),
    "a picture as a file": (lambda: toyspec.Image(b"GIF89a"), {"media_type": "image/gif"}, b"GIF89a"),
    "a film as a picture": (lambda: toyspec.Video(b"GIF89a"), {"media_type": "image/gif"}, b"GIF89a"),
    "a histogram": (
        lambda: toyspec.Histogram([0, 1, 1, 4, np.inf], 2),
        {"edges": [0.0, 2.0, 4.0], "counts": [3.0, 1.0]},
        None,
    ),
    "a known histogram": (
        lambda: toyspec.Histogram(edges=[0, 1], counts=[np.float32(2)]),
        {"edges": [0.0, 1.0], "counts": [2.0]},
        None,
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_media_are_these_members_and_bytes(tmp_path: Path, name: str) -> None:
    """The record has these members, beside digest and size, and the file these bytes."""
    make, members, data = WHOLE[name]
    placed = make().placed(str(tmp_path), SYSTEM_CALLS)
    files = [path.read_bytes() for path in tmp_path.glob("media/*")]
    facts = {} if data is None else {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
    assert (members | facts, [] if data is None else [data]) == (placed, files)


@pytest.mark.parametrize(
    ("picture", "mode", "pixels"),
    [
        (np.array([[0, 255], [1, 128]], np.uint8), "L", [[0, 255], [1, 128]]),
        (np.array([[0.0, 1.0, 0.5]]), "L", [[0, 255, 128]]),
        (np.array([[True, False]]), "L", [[255, 0]]),
        (np.arange(12).reshape(4, 1, 3), "RGB", np.arange(12).reshape(4, 1, 3).tolist()),
        (np.arange(3).reshape(1, 1, 3), "RGB", [[[0, 1, 2]]]),
        (np.arange(10).reshape(1, 2, 5), "L", np.arange(10).reshape(2, 5).tolist()),
        (Pictures.new("CMYK", (1, 1)), "RGB", [[[255, 255, 255]]]),
        (Pictures.new("LA", (1, 1), (7, 9)), "LA", [[[7, 9]]]),
    ],
    ids=range(8),
)
def test_pixels_stay_what_they_are(tmp_path: Path, picture: Any, mode: str, pixels: Any) -> None:
    """Each layout is the picture that its shape says, to the last digit."""
    placed = toyspec.Image(picture).placed(str(tmp_path), SYSTEM_CALLS)
    (path,) = tmp_path.glob("media/*.png")
    found = Pictures.open(io.BytesIO(path.read_bytes()))
    assert (mode, pixels) == (found.mode, np.asarray(found).tolist())
    assert ("image/png", *found.size) == tuple(placed[key] for key in ("media_type", "width", "height"))


def test_full_disk_costs_the_picture_alone(tmp_path: Path) -> None:
    """A file that cannot be written has no record, and nothing of it stays."""
    with toyspec.start_run(tmp_path, run_id="r") as run:
        (tmp_path / "r" / "media").write_text("", encoding="utf-8")
        run.log({"a": toyspec.Image(PIXELS), "acc": 1.0}, step=1)
    records = [json.loads(line) for line in (tmp_path / "r" / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    assert ["run_start", "scalars", "note", "run_end"] == [record["kind"] for record in records]


def test_summary_writer_and_wandb_write_media(tmp_path: Path) -> None:
    """Scripts of both move with one import: pictures in their layouts, histograms, sounds and tables."""
    with SummaryWriter(str(tmp_path / "tb"), run_id="r") as writer:
        writer.add_image("a", np.moveaxis(PIXELS, 2, 0), 1)
        writer.add_images("b", np.moveaxis(PIXELS, 2, 0)[None].repeat(2, 0), 1)
        writer.add_image("c", PIXELS, 1, dataformats="HWC")
        writer.add_histogram("h", RNG.normal(size=9), 1)
        writer.add_audio("s", np.zeros((1, 30)), 1, sample_rate=10)
    assert ["a", "b", "b", "c", "h", "s"] == [each["name"] for each in media(records_of(tmp_path / "tb" / "r"))]
    run = wandb.init(dir=str(tmp_path / "wb"), id="r")
    table = wandb.Table(columns=["n"])
    table.add_data(5)
    pictures = {"a": wandb.Image(PIXELS, caption="x"), "h": wandb.Histogram(np_histogram=np.histogram([1.0, 2.0]))}
    run.log({**pictures, "t": table, "s": wandb.Audio(np.zeros(8), sample_rate=8), "loss": 1.0})
    run.finish()
    (bundle,) = (path.parent for path in (tmp_path / "wb").rglob("events.jsonl"))
    assert ["a", "h", "t", "s"] == [each["name"] for each in media(records_of(bundle))]


def test_file_of_a_media_event(tmp_path: Path) -> None:
    """``run.media`` with a content writes the file first; another digest is refused alone."""
    digest = hashlib.sha256(b"notes").hexdigest()
    with toyspec.RunWriter(tmp_path / "r", run_id="r", on_error="raise") as run:
        run.run_start()
        run.media("a", media_type="Text/Plain; charset=utf-8", content=b"notes", step=1)
        with pytest.raises(ValueError, match="its sha256 is"):
            run.media("b", media_type="text/plain", content=b"other", sha256=digest, step=1)
        run.step(1, loss=0.5)
    assert {"step", "media"} < {record["kind"] for record in records_of(tmp_path / "r")}
    assert [f"{digest}.txt"] == [path.name for path in (tmp_path / "r" / "media").iterdir()]


def test_folder_of_media_that_is_a_link(tmp_path: Path) -> None:
    """Nothing is written through a link that leads out of the bundle, and the training goes on."""
    (tmp_path / "elsewhere").mkdir()
    with toyspec.start_run(tmp_path, run_id="r") as run:
        (tmp_path / "r" / "media").symlink_to(tmp_path / "elsewhere")
        run.log({"note": toyspec.File(b"notes"), "loss": 0.5}, step=1)
    assert [] == list((tmp_path / "elsewhere").iterdir())
    assert "scalars" in (tmp_path / "r" / "events.jsonl").read_text(encoding="utf-8")


def test_artifact_outside(tmp_path: Path) -> None:
    """A path that leaves the bundle is refused, and nothing else with it."""
    with toyspec.RunWriter(tmp_path / "r", run_id="r", on_error="raise") as run:
        run.run_start()
        for path in ("../x", "/etc/passwd", "C:x", "a/../../x", "\\\\host\\x"):
            with pytest.raises(ValueError, match="leaves the bundle"):
                run.write({"kind": "artifact", "path": path})
        run.write({"kind": "artifact", "path": "a..b/x"})
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "r" / "events.jsonl").read_bytes().splitlines()]
    assert ["run_start", "artifact", "run_end"] == kinds


def test_show_names_what_is_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``toyspec show`` names media, tables, histograms, samples, alerts, files and the parent."""
    from toyspec.core.command_line.main import main

    with toyspec.start_run(tmp_path, run_id="r", parent={"run_id": "llama-020", "step": 4}, git=None) as run:
        for step in (1, 2, 3):
            run.log({"pred": toyspec.File(b"%d" % step, media_type="image/png"), "loss": 1 / step}, step=step)
            run.log({"w": toyspec.Histogram(edges=[0, 1, 2], counts=[3, 4])}, step=step)
            run.sample("q", "a", step=step, reward=0.5 * step)
        run.log({"scores": toyspec.File(b"a,b\n1,2\n", media_type="text/csv")}, step=3)
        run.alert("loss is \x1b[31mNaN", rule="nan", level="error", step=3)
        run.write({"kind": "reference", "uri": "s3://bucket/data", "role": "data"})
    capsys.readouterr()
    assert 0 == main(["show", "--color", "never", str(tmp_path / "r")])
    shown = " ".join(capsys.readouterr().out.split())
    for fact in (
        "fork of llama-020 at step 4",
        "media pred 3 image/png",
        "media scores text/csv",
        "histogram w 3",
        "sample 3",
        "alert nan loss is",
        "reference s3://bucket/data data",
    ):
        assert fact in shown, fact
    assert "\x1b" not in shown


def test_show_of_many_names_is_bounded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of very many names, a dozen are shown and the others counted."""
    from toyspec.core.command_line.main import main

    with toyspec.start_run(tmp_path, run_id="r", git=None) as run:
        for number in range(1100):
            run.histogram(f"h{number}", edges=[0, 1], counts=[1], step=1)
        for number in range(14):
            run.eval(f"e{number}", loss=1.0, step=1)
    capsys.readouterr()
    assert 0 == main(["show", "--color", "never", str(tmp_path / "r")])
    out = capsys.readouterr().out
    assert 12 == out.count("  histogram  h")
    assert "and 1088 more names" in out
    assert "and 2 more evaluations" in out
