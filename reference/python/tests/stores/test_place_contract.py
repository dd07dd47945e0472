"""What each kind of place does with an address: lists, reads ranges and blocks, and says what went wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loopback_store import BUCKET, Store
from toyspec.core.errors import PlaceError
from toyspec.core.places.place import ChangedError, Entry, place_of

fsspec = pytest.importorskip("fsspec", reason="the extra remote is not installed")
pytest.importorskip("obstore", reason="the extra remote is not installed")

from toyspec.stores.file_systems import FilePlace  # noqa: E402
from toyspec.stores.folders import Folder  # noqa: E402
from toyspec.stores.object_stores import fact_of  # noqa: E402
from toyspec.stores.transfers import LocalFile  # noqa: E402

FILES = {"runs/a/events.jsonl": b"0123456789", "runs/a/weights/w": b"", "runs/b": b"bb", "runs-2/c": b"c"}


@pytest.fixture
def of_memory() -> Iterator[tuple[Any, str]]:
    """Return a file system of fsspec with FILES, and its root."""
    memory = fsspec.filesystem("memory")
    for name, data in FILES.items():
        memory.pipe_file(f"/top/{name}", data)
    yield place_of("memory://top"), "memory://top"
    memory.rm("/top", recursive=True)


@pytest.fixture
def of_store(store: Store) -> tuple[Any, str]:
    """Return a bucket with FILES, and its root."""
    for name, data in FILES.items():
        store.put(name, data)
    return place_of(f"s3://{BUCKET}"), f"s3://{BUCKET}"


@pytest.fixture
def of_google(of_store: tuple[Any, str], store: Store, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, str]:
    """Return that bucket as Google's, which is written with the generation that was seen."""
    key = {"gcs_base_url": store.endpoint, "disable_oauth": True, "client_email": "", "private_key": ""}
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps({**key, "private_key_id": ""}))
    return place_of(f"gs://{BUCKET}"), f"gs://{BUCKET}"


@pytest.fixture
def of_folder(tmp_path: Path) -> tuple[Any, str]:
    """Return a directory with FILES, and its root."""
    for name, data in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    return Folder(f"file://{tmp_path}"), f"file://{tmp_path}"


@pytest.fixture(params=["of_memory", "of_store", "of_folder"])
def opened(request: pytest.FixtureRequest) -> tuple[Any, str]:
    """Return a place with FILES, and its root."""
    found: tuple[Any, str] = request.getfixturevalue(request.param)
    return found


def test_files_below_an_address(opened: tuple[Any, str]) -> None:
    """All of them, at any depth, with their sizes; a name that only begins alike is not below."""
    place, root = opened
    found = {entry.address.removeprefix(f"{root}/"): entry.size for entry in place.entries(f"{root}/runs")}
    assert {name: len(data) for name, data in FILES.items() if name.startswith("runs/")} == found


@pytest.mark.parametrize("kind", ["of_memory", "of_store"])
def test_names_in_a_directory(kind: str, request: pytest.FixtureRequest) -> None:
    """They are sorted, and those of directories end in a slash; where there is none, there are no names."""
    place, root = request.getfixturevalue(kind)
    assert ["a/", "b"] == place.names(f"{root}/runs")
    assert ["events.jsonl", "weights/"] == place.names(f"{root}/runs/a")
    assert [] == place.names(f"{root}/nowhere")


def test_ranges_of_a_file(opened: tuple[Any, str]) -> None:
    """A range ends where the file does; all that is read is of one version, and that of another is refused."""
    place, root = opened
    address = f"{root}/runs/a/events.jsonl"
    entry = place.status(address)
    assert (address, 10) == (entry.address, entry.size)
    read = [place.read_range(address, start, size, entry.identity) for start, size in ((0, 4), (4, 3), (8, 9), (10, 5))]
    assert [b"0123", b"456", b"89", b""] == [part.data for part in read]
    assert {entry} == {part.entry for part in read}
    with pytest.raises(ChangedError):
        place.read_range(address, 0, 4, '"another"')


def test_file_that_is_not_there(opened: tuple[Any, str]) -> None:
    """A directory of a place that has objects is not one either."""
    place, root = opened
    for name in ("nowhere", "runs/nowhere", "runs/b/below", *([] if isinstance(place, Folder) else ["runs"])):
        with pytest.raises(FileNotFoundError) as caught:
            place.status(f"{root}/{name}")
        assert f"{root}/{name}" == caught.value.filename


class _Failing:
    """A file system whose calls raise *error*, or whose file changes with each look at it."""

    def __init__(self, error: BaseException | None) -> None:
        self.error, self.looks = error, 0

    @staticmethod
    def _strip_protocol(address: str) -> str:
        return address.partition("://")[2]

    def info(self, path: str) -> dict[str, Any]:
        if self.error is not None:
            raise self.error
        self.looks += 1
        return {"name": path, "size": 4, "mtime": self.looks, "etag": None}

    @staticmethod
    def cat_file(path: str, start: int, end: int) -> bytes:
        return b"0123"[start:end]


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (PermissionError("key AKIA"), PlaceError, "no permission; check the credentials"),
        (NotADirectoryError("x"), FileNotFoundError, "No such object"),
        (RuntimeError("sftp://user:word@host"), PlaceError, "the file system failed (RuntimeError); check the address"),
        (PlaceError("x://h/a", "is away"), PlaceError, "is away"),
    ],
)
def test_error_of_a_file_system_is_reported_without_secrets(error: Exception, kind: type[Exception], said: str) -> None:
    """What its library raises may have a password in its message."""
    with pytest.raises(kind, match=said.replace("(", r"\(").replace(")", r"\)")) as caught:
        FilePlace(_Failing(error), "x", "h").status("x://h/a")
    assert "AKIA" not in str(caught.value)
    assert "word" not in str(caught.value)


@pytest.fixture(params=["of_store", "of_google", "of_folder"])
def target(request: pytest.FixtureRequest) -> tuple[Any, str]:
    """Return a place that can be written, and its root."""
    found: tuple[Any, str] = request.getfixturevalue(request.param)
    return found


def test_only_what_was_seen_is_replaced(target: tuple[Any, str], tmp_path: Path) -> None:
    """A new object must not be there, a known one must be the same, and the entry that is returned is the new one."""
    place, root = target
    address = f"{root}/new/x"

    def put(data: bytes, known: Entry | None, shared: int = 0) -> Entry:
        (tmp_path / "f").write_bytes(data)
        with LocalFile(str(tmp_path / "f"), lines=False) as file:
            made: Entry = place.put(file, address, known, shared)
        assert data == place.read_range(address, 0, 99, made.identity).data
        return made

    made = put(b"one\n", None)
    assert (4, address, place.status(address)) == (made.size, made.address, made)
    other = put(b"another", made)
    for known, shared in ((None, 0), (made, 0), (made, 4)):
        with pytest.raises(ChangedError):
            put(b"one\ntwo\n", known, shared)
    assert b"another" == place.read_range(address, 0, 99, other.identity).data
    assert 12 == put(b"another\none\n", other, 7).size


def test_copy_has_the_content(target: tuple[Any, str]) -> None:
    """The content of one object is that of a new one."""
    place, root = target
    place.copy(place.status(f"{root}/runs/b"), f"{root}/runs/y")
    assert b"bb" == place.read_range(f"{root}/runs/y", 0, 9, None).data


def test_file_that_changes_while_it_is_read_is_refused() -> None:
    """A range of two versions would be of none."""
    place = FilePlace(_Failing(None), "x", "h")
    assert "size=4;mtime=1" == place.status("x://h/a").identity
    with pytest.raises(ChangedError):
        place.read_range("x://h/a", 0, 4, None)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("status code: 401 Unauthorized, body", "401 Unauthorized: the credentials are missing or wrong"),
        ("status code: 429", "429: the server wants fewer requests; try again later"),
        ("status code: 405 Method Not Allowed", "405 Method Not Allowed: the server does not offer this"),
        ("status code: 503, after 0 retries", "503: the server has a problem; try again later"),
        ("status code: 500, after 3 retries", "500 after 3 retries: the server has a problem; try again later"),
        ("status code: 418 I'm a Teapot", "418 I'm a Teapot: check the address"),
        ("operation timed out after 2 retries", "no answer in time after 2 retries; try again, or set TOYSPEC_REMOTE"),
        ("dns error: x", "the host is not known; check the address and the connection"),
        ("error sending request", "no connection to the host; check the address and the connection"),
        ("error reading a body from connection", "the answer ended early; try again"),
        ("Account must be specified", "the store needs an account; set AZURE_STORAGE_ACCOUNT_NAME"),
        ("Missing Region", "the store needs a region; set AWS_REGION"),
        ("anything else", "the store failed; check the address and the credentials"),
        (
            "S3: http://169.254.169.254/latest",
            "no credentials found; set them as for the program of the store, for exa",
        ),
        ("MicrosoftAzure: http://169.254.169.254/m", "for example AZURE_STORAGE_ACCOUNT_KEY"),
        ("GCS: http://metadata.google.internal/c", "for example GOOGLE_APPLICATION_CREDENTIALS"),
        ("Generic S3: http://169.254.170.2/v2", "for example AWS_ACCESS_KEY_ID"),
    ],
)
def test_error_of_a_store_says_what_to_do(message: str, said: str) -> None:
    """The status and its meaning, or what the words of the message mean; nothing else of the message is shown."""
    assert said in fact_of(message)
