"""Pictures, sounds, films, histograms, tables and files as values of run.log: what is in the bundle, what is not."""

from __future__ import annotations

import functools
import hashlib
import json
import sys
import wave
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import toyspec
from command_line import toyspec_within
from logged_runs import kinds
from toyspec import Audio, File, Histogram, Image, Table, Video
from toyspec.core.reading.run_files import media_file
from toyspec.core.system_calls import SYSTEM_CALLS
from toyspec.core.writing import media as media_module
from toyspec.integrations import wandb

if TYPE_CHECKING:
    from collections.abc import Callable

np = pytest.importorskip("numpy")
Pictures = pytest.importorskip("PIL.Image")
RNG = np.random.default_rng(7)


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


HALF = SimpleNamespace(dtype="torch.bfloat16", float=lambda: PIXELS / 255.0)  # what NumPy does not have
ON_A_DEVICE = SimpleNamespace(dtype=PIXELS.dtype, detach=lambda: SimpleNamespace(cpu=lambda: np.moveaxis(PIXELS, 2, 0)))


SAME = [
    PIXELS,
    (PIXELS / 255.0).astype(np.float32),
    np.moveaxis(PIXELS, 2, 0) / 255.0,
    PIXELS.tolist(),
    HALF,
    ON_A_DEVICE,
    Pictures.fromarray(PIXELS),
]
OTHERS = [
    (np.arange(96).reshape(4, 6, 4), "RGBA", np.arange(96).reshape(4, 6, 4).tolist()),
    (np.array([[[0], [255]], [[1], [128]]], np.uint8), "L", [[0, 255], [1, 128]]),
    (np.array([[True, False]]), "L", [[255, 0]]),
    (np.arange(12).reshape(4, 1, 3), "RGB", np.arange(12).reshape(4, 1, 3).tolist()),
    (np.arange(10).reshape(1, 2, 5), "L", np.arange(10).reshape(2, 5).tolist()),
    (Pictures.new("CMYK", (1, 1)), "RGB", [[[255, 255, 255]]]),
    (Pictures.new("LA", (1, 1), (7, 9)), "LA", [[[7, 9]]]),
]


def test_pixels_stay_what_they_are(tmp_path: Path) -> None:
    """Whatever holds the pixels, in each layout another program reads the same ones from the file."""
    rows = [(picture, "RGB", PIXELS.tolist()) for picture in SAME] + OTHERS
    for number, (picture, mode, pixels) in enumerate(rows):
        placed = Image(picture, caption="best").placed(str(tmp_path / str(number)), SYSTEM_CALLS)
        (path,) = tmp_path.glob(f"{number}/media/*.png")
        found = Pictures.open(path)
        assert (mode, pixels) == (found.mode, np.asarray(found).tolist()), number
        assert ("image/png", *found.size, "best") == tuple(
            placed[key] for key in ("media_type", "width", "height", "caption")
        )


# A sound, its seconds, channels and frames a second, and the samples channel by channel in each frame.
SOUNDS: list[tuple[Callable[[], Any], float, int, int, list[int]]] = [
    (lambda: Audio([0.0, 1.0, -1.0, 0.5], 8, caption="hm"), 0.5, 1, 8, [0, 32767, -32767, 16384]),
    (lambda: Audio(np.array([-32768, 32767]), 1), 2.0, 1, 1, [-32768, 32767]),
    # Up to eight channels may be first, if there are more frames.
    (lambda: Audio(_frames(8, 9), 9), 1.0, 8, 9, [channel * 9 + at for at in range(9) for channel in range(8)]),
    (lambda: Audio(_frames(8, 8), 4), 2.0, 8, 4, [*range(64)]),
    (lambda: Audio(_frames(9, 10), 3), 3.0, 10, 3, [*range(90)]),
]


def _frames(*shape: int) -> Any:
    """Return integers of 16 bits, each another one."""
    return np.arange(np.prod(shape)).reshape(shape)


def test_samples_stay_what_they_are(tmp_path: Path) -> None:
    """Arrays of sounds are WAV of 16 bits, which another program reads."""
    for number, (make, seconds, channels, rate, samples) in enumerate(SOUNDS):
        placed = make().placed(str(tmp_path / str(number)), SYSTEM_CALLS)
        (path,) = tmp_path.glob(f"{number}/media/*.wav")
        with wave.open(str(path)) as sound:
            data = np.frombuffer(sound.readframes(len(samples)), "<i2")
            assert (channels, 2, rate) == (sound.getnchannels(), sound.getsampwidth(), sound.getframerate()), number
        assert (samples, seconds, "audio/wav") == (data.tolist(), placed["seconds"], placed["media_type"]), number


def test_numbers_texts_and_media_of_one_call(tmp_path: Path) -> None:
    """One call writes them at one step, nested names joined; a content that comes again has one file."""
    same = np.zeros((2, 2), bool)
    values = {
        "acc": 0.5,
        "word": "x",
        "val": {"pred": [Image(same), Image(~same), Image(same)]},
    }
    records = logged(tmp_path, values)
    (scalars,) = [record for record in records if record["kind"] == "scalars"]
    assert ({"acc": 0.5}, {"word": "x"}, 3) == (scalars["values"], scalars["texts"], scalars["step"])
    found = media(records)
    assert [("val/pred", 0, 3), ("val/pred", 1, 3), ("val/pred", 2, 3)] == [
        (record["name"], record["index"], record["step"]) for record in found
    ]
    assert 2 == len(list((tmp_path / "r" / "media").iterdir()))


TYPES = {
    "image/png": (b"\x89PNG\r\n\x1a\n", "a.txt"),
    "image/jpeg": (b"\xff\xd8\xff\xe0", "a.png"),
    "audio/wav": (b"RIFF\0\0\0\0WAVEfmt ", "a"),
    "image/webp": (b"RIFF\0\0\0\0WEBPVP8 ", "a"),
    "audio/flac": (b"fLaC", "a"),
    "audio/mpeg": (b"\xff\xfb", "a"),
    "video/webm": (b"\x1aE\xdf\xa3", "a"),
    "video/mp4": (b"\0\0\0\x20ftypisom", "a"),
    "text/csv": (b"text", "a.b.CSV"),
    "text/html": (b"<html>", "a.html"),
    "image/svg+xml": (b"<svg>", "a.svg"),
    "application/json": (b"", "a.json"),
    "application/octet-stream": (b"RIFF\0\0\0\0AVI ", "a.unknown"),
}


def test_type_of_a_file_is_known_by_its_beginning_or_its_name(tmp_path: Path) -> None:
    """The first bytes decide; where they say nothing, the ending does. A browser shows no page."""
    for media_type, (head, name) in TYPES.items():
        (tmp_path / name).write_bytes(head)
        placed = File(tmp_path / name).placed(str(tmp_path), SYSTEM_CALLS)
        assert media_type == placed["media_type"]
        found = tmp_path / str(media_file(placed["sha256"], media_type))
        assert (head, media_type == "text/html") == (found.read_bytes(), found.suffix == ".bin" and b"<h" in head)


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
    (record,) = media(logged(tmp_path, {"a": File(path)}))
    assert b"first" == content(tmp_path, record)


def test_file_that_was_cut_short_is_written_again(tmp_path: Path) -> None:
    """A file of the right name and other content is what a crash has left; one of a link is replaced, not followed."""
    values = {"a": File(b"whole", "text/plain")}
    (record,) = media(logged(tmp_path, values))
    path = tmp_path / "r" / str(media_file(record["sha256"], "text/plain"))
    for left in (b"who", b"\0\0\0\0\0", b"whole"):
        path.write_bytes(left)
        before = path.stat()
        logged(tmp_path, values)
        assert b"whole" == path.read_bytes()
    assert (before.st_ino, before.st_mtime_ns) == (path.stat().st_ino, path.stat().st_mtime_ns)
    assert [path] == list(path.parent.iterdir())
    path.unlink()
    (tmp_path / "other").write_bytes(b"other")
    path.symlink_to(tmp_path / "other")
    logged(tmp_path, values)
    assert (b"whole", b"other", False) == (path.read_bytes(), (tmp_path / "other").read_bytes(), path.is_symlink())


def test_table_of_a_run_is_not_a_log(tmp_path: Path) -> None:
    """A table with steps and losses in the folder media is not listed as a run of its own."""
    rows = [{"step": step, "loss": 1 / step} for step in range(1, 9)]
    logged(tmp_path, {"a": Table(rows)})
    assert ["r"] == [run.facts.run for run in toyspec.list_runs(tmp_path)]
    assert 1 == len(toyspec.check(tmp_path).files)


_SHAPES = "a picture is an array (height, width) or (height, width, 1, 3 or 4), or channels first; this has shape"
_SOUND = "a sound is one number a frame, or one for each channel: (frames,) or (frames, channels); this has shape"
_RATE = "an array of samples needs its sample_rate in frames a second: Audio(samples, 16000)"
_BOTH = "give values, or edges and counts"
WRONG_PICTURES: dict[str, Any] = {
    "its floats must be finite": np.full((2, 2), np.nan),
    "its values must be from 0 to 255, got 256 to 256; scale them": np.full((2, 2), 256),
    "its values must be from 0 to 255, got -1 to 0; scale them": [[-1, 0]],
    f"{_SHAPES} (2, 2, 7)": np.zeros((2, 2, 7)),
    f"{_SHAPES} (0, 0)": np.zeros((0, 0)),
    f"{_SHAPES} (1, 1, 1, 1)": np.zeros((1, 1, 1, 1)),
    "it must be an array of numbers, got complex128": np.ones((2, 2), complex),
    "it is application/octet-stream, and not of type image; log it with toyspec.File": b"text",
    "it cannot be read: FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/a.png'": "/nowhere/a.png",
    "a picture has at most 268,435,456 values, this has 1,073,741,824; make it smaller": np.broadcast_to(
        np.uint8(0), (1 << 15, 1 << 15)
    ),
}
WRONG_SOUNDS: dict[str, Any] = {
    "its floats must be from -1.0 to 1.0, got 3 to 3; scale them": [3.0],
    f"{_SOUND} (2, 2, 2)": np.zeros((2, 2, 2)),
    f"{_SOUND} (0,)": [],
    "its values must be from -32768 to 32767, got 40000 to 40000; scale them": [40000],
    "it is image/gif, and not of type audio; log it with toyspec.File": b"GIF89a",
}
WRONG: list[tuple[str, Callable[[], Any]]] = [
    *((fact, functools.partial(Image, given)) for fact, given in WRONG_PICTURES.items()),
    *((fact, functools.partial(Audio, given, 8)) for fact, given in WRONG_SOUNDS.items()),
    (_RATE, lambda: Audio(np.zeros(4))),
    (_RATE, lambda: Audio(np.zeros(4), 0)),
    (
        "a film is a file, by its path or as bytes; make one of an array, for example by imageio",
        lambda: Video(np.zeros((2, 2, 2, 3))),
    ),
    (
        "it is application/octet-stream, and not of type video; log it with toyspec.File",
        lambda: Video(b"text"),
    ),
    ("none of its 1 values is finite", lambda: Histogram([float("nan")])),
    ("bins is 0; it must be from 1 to 512", lambda: Histogram([1.0], 0)),
    ("bins is 513; it must be from 1 to 512", lambda: Histogram([1.0], 513)),
    ("3 edges have 2 bins between them, got 1", lambda: Histogram(edges=[0, 1, 2], counts=[1])),
    (_BOTH, Histogram),
    (_BOTH, lambda: Histogram(edges=[0, 1, 2])),
    ("a row has 1 cells and the table 2 columns", lambda: Table([[1, 2], [1]], ["a", "b"])),
    ("a file is a path or bytes, and not of type int", lambda: File(5)),
]


@pytest.mark.parametrize(
    ("floats", "pixels", "caption"),
    [
        ([0.0, 0.5, 1.0], [0, 128, 255], "c"),
        ([0.0, 20.0, 255.0], [0, 20, 255], "c"),
        ([-1.0, 0.0, 3.0], [0, 64, 255], "c: scaled from -1 to 3"),
        ([-2.0, -2.0, -2.0], [0, 0, 0], "c: scaled from -2 to -2"),
    ],
)
def test_floats_of_any_range_are_a_picture(
    floats: list[float], pixels: list[int], caption: str, tmp_path: Path
) -> None:
    """Those of a normalised tensor are scaled, and the caption says from where."""
    found = Image([floats], caption="c").placed(str(tmp_path), SYSTEM_CALLS)
    assert caption == found["caption"]
    with Pictures.open(tmp_path / "media" / f"{found['sha256']}.png") as picture:
        assert pixels == list(
            picture.get_flattened_data() if hasattr(picture, "get_flattened_data") else picture.getdata()
        )


def test_messages_say_what_is_wrong(tmp_path: Path) -> None:
    """What was found, and what it must be."""
    for fact, make in WRONG:
        with pytest.raises(ValueError) as caught:
            make().placed(str(tmp_path), SYSTEM_CALLS)
        assert fact == str(caught.value)
    assert [] == list(tmp_path.iterdir())


def test_what_is_not_a_picture_takes_nothing_along(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is raised into the training; the other values are written, and the log counts what it lacks and why."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    records = logged(tmp_path, {"bad": Image(PIXELS), "h": Histogram([1.0, np.nan, np.inf], 1), "acc": 1.0})
    assert [{"acc": 1.0}] == [record["values"] for record in records if record["kind"] == "scalars"]
    assert [[1.0]] == [record["counts"] for record in media(records)]
    fact = "an array of pixels needs Pillow: python -m pip install pillow; or log a file"
    first, second = [record for record in records if record["kind"] == "note"]
    assert ({"bad": 1}, f"left out: bad ({fact})") == (first["left_out"], first["text"])
    assert {"h": 1} == second["left_out"]
    assert f"bad is left out: {fact} (reported once)" in capsys.readouterr().err
    with toyspec.start_run(tmp_path, run_id="strict", on_error="raise") as run, pytest.raises(ValueError, match="bad"):
        run.log({"bad": File(5)})


TENSOR = SimpleNamespace(tolist=lambda: 1 / 3)  # what it prints is rounded
PANDAS = SimpleNamespace(to_csv=lambda buffer, index: buffer.write("index\n" if index else "a\n"))
POLARS = SimpleNamespace(write_csv=lambda: "a\n1\n")
GIF, WEBM = ({"media_type": each} for each in ("image/gif", "video/webm"))
TABLES: list[tuple[bytes, Any]] = [
    (b'n,t\n1,"a,b"\n,"c"""\n', [[["n", "t"], [1, "a,b"], [None, 'c"']]]),
    (f'0.1,{1 / 3},"{json.dumps(list(range(200)))}"\n'.encode(), [[[np.float32(0.1), TENSOR, np.arange(200)]]]),
    (b"a\n", [PANDAS]),
    (b"a\n1\n", [POLARS]),
    (b"1,2\n3\n", [[[1, 2], [3]]]),
    (b"a,b\n1,\n2,\\ud800\n", [[{"a": 1}, {"b": "\ud800", "a": 2}]]),
    (b"b\n2\n", [[{"a": 1, "b": 2}], ["b"]]),
    (b"a\n", [[], ["a"]]),
]
# A value, the members of its record, and the file; without one, None.
WHOLE: list[tuple[Callable[[], Any], dict[str, Any], bytes | None]] = [
    *((functools.partial(Table, *given), {"media_type": "text/csv"}, data) for data, given in TABLES),
    (lambda: File(b"x", "a/b"), {"media_type": "a/b"}, b"x"),
    (lambda: File(bytearray(b"x")), {"media_type": "application/octet-stream"}, b"x"),
    (lambda: Image(b"GIF89a"), GIF, b"GIF89a"),
    (lambda: Video(b"\x1aE\xdf\xa3"), WEBM, b"\x1aE\xdf\xa3"),
    (lambda: Video(b"GIF89a"), GIF, b"GIF89a"),
    (lambda: Histogram([0, 1, 1, 4, np.inf], 2), {"edges": [0.0, 2.0, 4.0], "counts": [3.0, 1.0]}, None),
    (lambda: Histogram(edges=[0, 1], counts=[np.float32(2)]), {"edges": [0.0, 1.0], "counts": [2.0]}, None),
]


def test_media_are_these_members_and_bytes(tmp_path: Path) -> None:
    """The record has these members, beside digest and size, and the file these bytes."""
    for number, (make, members, data) in enumerate(WHOLE):
        bundle = tmp_path / str(number)
        placed = make().placed(str(bundle), SYSTEM_CALLS)
        files = [path.read_bytes() for path in bundle.glob("media/*")]
        facts = {} if data is None else {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
        assert (members | facts, [] if data is None else [data]) == (placed, files), number


@pytest.mark.parametrize("folder", ["file", "link"])
def test_folder_that_cannot_be_written_costs_the_picture_alone(tmp_path: Path, folder: str) -> None:
    """A file that cannot be written has no record, and nothing is written through a link that leaves the bundle."""
    (tmp_path / "elsewhere").mkdir()
    with toyspec.start_run(tmp_path, run_id="r") as run:
        place = tmp_path / "r" / "media"
        place.symlink_to(tmp_path / "elsewhere") if folder == "link" else place.write_text("")
        run.log({"a": Image(PIXELS), "acc": 1.0}, step=1)
    assert ["run_start", "scalars", "note", "run_end"] == kinds(tmp_path)
    assert [] == list((tmp_path / "elsewhere").iterdir())


def test_wandb_writes_media(tmp_path: Path) -> None:
    """Scripts of it move with one import: pictures, histograms, sounds and tables."""
    run = wandb.init(dir=str(tmp_path / "wb"), id="r")
    table = wandb.Table(columns=["n"])
    table.add_data(5)
    pictures = {"a": wandb.Image(PIXELS, caption="x"), "h": wandb.Histogram(np_histogram=np.histogram([1.0, 2.0]))}
    run.log({**pictures, "t": table, "s": wandb.Audio(np.zeros(8), sample_rate=8), "loss": 1.0})
    run.finish()
    (bundle,) = (path.parent for path in (tmp_path / "wb").rglob("events.jsonl"))
    assert ["a", "h", "t", "s"] == [each["name"] for each in media(records_of(bundle))]


def test_a_caller_that_wants_errors_learns_which_file_and_why(tmp_path: Path) -> None:
    """A file that cannot be read or written raises with the name of the value, and so does a path that leaves."""
    with toyspec.RunWriter(tmp_path / "r", on_error="raise") as run:
        run.run_start()
        with pytest.raises(ValueError, match="m cannot be written: it cannot be read: FileNotFoundError: "):
            run.log({"m": File(tmp_path / "none")})
        (tmp_path / "r" / "media").write_text("no folder")
        with pytest.raises(ValueError, match="m cannot be written: its file could not be written: Not a directory"):
            run.log({"m": File(b"x")})
        for path in ("../x", "/etc/passwd", "C:x", "a/../../x", "\\\\host\\x"):
            with pytest.raises(ValueError, match="leaves the bundle"):
                run.write({"kind": "artifact", "path": path})
        run.write({"kind": "artifact", "path": "a..b/x"})
    assert ["run_start", "artifact", "run_end"] == kinds(tmp_path)


def test_show_of_many_names_is_bounded(tmp_path: Path) -> None:
    """Of very many names, a dozen are shown and the others counted."""
    with toyspec.start_run(tmp_path, run_id="r", git=None) as run:
        for number in range(100):
            run.histogram(f"h{number}", edges=[0, 1], counts=[1], step=1)
        for number in range(14):
            run.eval(f"e{number}", loss=1.0, step=1)
    out = toyspec_within("show", "--color", "never", "r", cwd=tmp_path).stdout.decode()
    assert 12 == out.count("  histogram  h")
    assert "and 88 more names" in out
    assert "and 2 more evaluations" in out
