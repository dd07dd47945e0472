"""`toyspec view --edit` writes annotations, for its own page and with the token, and nothing else."""

from __future__ import annotations

import http.client
import json
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from command_line import toyspec_within
from toyspec.core.reading.annotations import read_annotations
from toyspec.core.reading.log_detection import DialectChoice
from toyspec.core.writing.annotating import annotate
from toyspec.view.curve_store import CurveStore
from toyspec.view.live_runs import LiveRuns
from toyspec.view.scanning import scan_stream
from view_client import END, START, Client, served, step, write_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STAR = {"run": "a", "starred": True}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two runs."""
    for name in "ab":
        write_run(tmp_path / "runs" / name, START, step(1), END)
    return tmp_path / "runs"


@pytest.fixture
def client(root: Path, tmp_path: Path) -> Iterator[Client]:
    """Serve the runs with --edit."""
    with served(root, tmp_path / "cache", edit=True) as client:
        yield client


def posted(client: Client, body: object, path: str = "/api/annotate", **changed: str | None) -> tuple[int, Any]:
    """Send *body* as the page would, with *changed* headers; return status and answer."""
    host = f"localhost:{client.server.port}"
    usual = {
        "Host": host, "Origin": f"http://{host}", "Content-Type": "application/json",
        "Cookie": f"{client.server.cookie}={client.server.token}",
    }  # fmt: skip
    headers = usual | {name.replace("_", "-"): value for name, value in changed.items()}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", client.server.port, timeout=300)
    try:
        connection.request("POST", path, data, {name: each for name, each in headers.items() if each is not None})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def contents(root: Path) -> dict[str, bytes]:
    """Return every file below *root*."""
    return {str(each.relative_to(root)): each.read_bytes() for each in root.rglob("*") if each.is_file()}


def test_page_annotates_and_changes_nothing_else(client: Client, root: Path) -> None:
    """All that an annotation can say is written beside the log, answered and listed; the log keeps its bytes."""
    before = contents(root)
    said = {
        "name": "new <b>", "group": "g", "notes": "two\nlines", "add_tags": ["x"], "starred": True, "hidden": True,
    }  # fmt: skip
    status, row = posted(client, {"run": "a", **said})
    assert (200, "new <b>", ["x"], True, True) == (status, row["name"], row["tags"], row["starred"], row["hidden"])
    client.server.token = None
    assert ("g", "two\nlines") == (client.rows()["a"]["group"], client.rows()["a"]["notes"])
    assert not client.rows()["b"]["starred"]
    after = contents(root)
    assert {"a/annotations.jsonl"} == set(after) - set(before)
    assert before == {name: data for name, data in after.items() if name in before}
    entry = json.loads(after["a/annotations.jsonl"])
    assert {"at", "by", *said} - {"add_tags"} <= {*entry, "by"}
    assert {"add": ["x"]} == entry["tags"]


def test_scan_that_began_before_an_edit_does_not_undo_it(root: Path, tmp_path: Path) -> None:
    """The row of a scan that has read the annotations before an edit shows what the edit says."""
    catalog = LiveRuns(str(root), store=CurveStore(str(tmp_path / "cache")))
    catalog._watches[0].walk()
    entry = catalog.entry("a")
    assert entry is not None
    scanned = scan_stream(entry.work(), catalog.store, DialectChoice())
    annotate(root / "a", name="renamed", notes="later", add_tags=["x"])
    catalog.take_annotations(entry)
    # The other run is scanned too, so that nothing is checked yet.
    catalog._pending = {"another": Future()}
    catalog._take_scanned(scanned)
    row = catalog.row(entry)
    catalog.close()
    assert ("renamed", "later", ["x"]) == (row["name"], row["notes"], row["tags"])


def test_empty_text_and_removed_tag_undo(client: Client, root: Path) -> None:
    """An empty name gives the run its own again, and a tag can be removed."""
    posted(client, {"run": "a", "name": "other", "add_tags": ["x"]})
    _, row = posted(client, {"run": "a", "name": "", "remove_tags": ["x"]})
    assert ("run", []) == (row["run_id"], row["tags"])
    assert read_annotations(str(root / "a" / "events.jsonl")).name is None


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"Cookie": None}, 403),
        ({"Cookie": "toyspec_token=guess"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": None}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 421),
    ],
)
def test_other_pages_cannot_write(client: Client, root: Path, changed: dict[str, Any], status: int) -> None:
    """Without the token, from another origin, as a form, or by another name of this machine nothing is written."""
    before = contents(root)
    found, answer = posted(client, STAR, **changed)
    assert (status, before) == (found, contents(root)), answer
    assert answer["message"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b'{"run": "a"}', 400),
        (b'{"run": "a", "starred": 1}', 400),
        (b'{"run": "a", "starred": true, "path": "/etc/passwd"}', 400),
        (b'{"run": "a", "name": "\xff"}', 400),
        (b'{"run": "../a", "starred": true}', 404),
        (b'{"run": "none", "starred": true}', 404),
        (json.dumps({"run": "a", "add_tags": ["t"] * 1001}).encode(), 400),
        (b" " * ((1 << 20) + 1), 413),
    ],
)
def test_what_is_not_an_annotation_is_refused(client: Client, root: Path, body: bytes, status: int) -> None:
    """A body that is not an annotation of a listed run changes nothing."""
    before = contents(root)
    # The server may close before it has read what is too long.
    try:
        found, _ = posted(client, body)
    except (BrokenPipeError, ConnectionResetError):
        found = 413
    assert (status, before) == (found, contents(root))


def test_program_needs_no_origin_but_the_token(client: Client) -> None:
    """A program says the token in a header, which a page of another origin cannot."""
    bearer = f"Bearer {client.server.token}"
    assert 200 == posted(client, STAR, Origin=None, Cookie=None, Authorization=bearer)[0]


def test_nothing_else_can_be_written(client: Client) -> None:
    """Every other address refuses to be written, and a body without a length is refused."""
    assert 405 == posted(client, STAR, path="/files?run=a&path=events.jsonl")[0]
    assert 405 == posted(client, STAR, path="/api/runs")[0]
    assert 411 == posted(client, b"", Transfer_Encoding="chunked", Content_Length=None)[0]


def test_reading_server_refuses(root: Path, tmp_path: Path) -> None:
    """Without --edit nothing is written, also with a token, and the page does not offer it."""
    before = contents(root)
    with served(root, tmp_path / "cache", token="t") as client:
        status, answer = posted(client, STAR)
        assert (405, before) == (status, contents(root))
        assert "--edit" in answer["message"]
        client.server.token = None
        assert "edit" not in client.json("/api/runs")


def test_editing_server_has_a_token_on_loopback(client: Client) -> None:
    """Another user of this machine sees nothing without the printed address."""
    assert client.server.token
    assert "?token=" in client.server.url
    assert 403 == client.get("/api/runs")[0]
    client.server.token = None
    assert ["runs"] == client.json("/api/runs")["edit"]


def test_what_cannot_be_written_is_refused(client: Client, root: Path) -> None:
    """Where the file cannot be made, the answer reports it."""
    (root / "a" / "annotations.jsonl").mkdir()
    status, answer = posted(client, STAR)
    assert 409 == status
    assert answer["message"]


def test_link_that_leads_out_is_refused(root: Path, tmp_path: Path) -> None:
    """A run outside the root, to which a link below it leads, is not written."""
    elsewhere = write_run(tmp_path / "elsewhere" / "c", START, END).parent
    (root / "linked").mkdir()
    (root / "linked" / "events.jsonl").symlink_to(elsewhere / "events.jsonl")
    with served(root, tmp_path / "cache", edit=True) as client:
        status, _ = posted(client, {"run": "linked", "starred": True})
    assert status in (404, 409)
    assert ["events.jsonl"] == [each.name for each in elsewhere.iterdir()]
    assert ["events.jsonl"] == [each.name for each in (root / "linked").iterdir()]


def test_edit_of_a_store_is_wrong_usage(tmp_path: Path) -> None:
    """A store is only read: the command reports it with what to do."""
    done = toyspec_within("view", "--edit", "s3://bucket/runs", cwd=tmp_path)
    assert 2 == done.returncode
    assert b"only read" in done.stderr
