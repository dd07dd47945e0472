from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import math
import os
import random
import socket
import threading
from array import array
from concurrent.futures import Future
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec
import pytest

import toyspec
from toyspec.view import server
from toyspec.view.curve_store import CurveStore
from toyspec.view.live_runs import LiveRuns
from toyspec.view.opened_files import open_file
from toyspec.view.rows import facts_of_row, row_of
from toyspec.view.scanning import ScanWorkers
from view_client import END, START, Client, row_with_late_quick_row, served, step, write_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a directory with a complete, a torn and a damaged run, and one of another profile."""
    folder = tmp_path / "runs"
    alert = b'{"kind":"alert","t":20.9,"step":20,"rule":"spike","level":"error","text":"x"}\n'
    write_run(folder / "sweep" / "complete", START, *map(step, range(1, 21)), alert, END)
    write_run(folder / "torn", START, step(1), step(2)[:-9])
    write_run(folder / "damaged", START, step(1), b"{\n", step(2, None), END)
    entries = (
        b'{"step":%d,"wall_time_ms":%d,"loss":0.5,"grad_norm":1.0,"throughput_samples_per_sec":9.0}\n' % (n, n * 1000)
        for n in range(3)
    )
    (folder / "entries").mkdir()
    (folder / "entries" / "metrics.jsonl").write_bytes(b"".join(entries))
    return folder


@pytest.fixture
def client(root: Path, tmp_path: Path) -> Iterator[Client]:
    """Return a client of a server of these runs."""
    with served(root) as found:
        yield found


def test_quick_row_replaces_none_of_a_scan(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of the ends of a stream that comes after the scan is dropped."""
    assert 20 == row_with_late_quick_row(root, "sweep/complete", tmp_path, monkeypatch)["metrics"]["loss"]["count"]


@pytest.fixture
def unscanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """Three runs whose scans do not end, of which an answer reads one unasked."""
    for number, name in enumerate(("first", "second", "third")):
        stream = write_run(tmp_path / "many" / name, START, step(1), END)
        os.utime(stream, ns=(number * 10**9, number * 10**9))
    monkeypatch.setattr("toyspec.view.live_runs._MOST_READ_FIRST", 1)
    monkeypatch.setattr(ScanWorkers, "scan", lambda _, works, __: {work.path: Future() for work in works})
    with served(tmp_path / "many") as client:
        yield client


def test_first_answer_reads_the_runs_that_changed_last(unscanned: Client) -> None:
    """The others are unread: they have what the search has found, and no value that would look like one of the log."""
    rows = unscanned.rows()
    assert ("complete", 1) == (rows["third"]["state"], rows["third"]["last_step"])
    size = len(START + step(1) + END)
    assert {"id": "first", "name": "first", "bytes": size, "state": "unread"} == rows["first"]
    assert "unread" == rows["second"]["state"]


def test_run_whose_row_is_asked_for_is_read_before_the_others(unscanned: Client) -> None:
    """As its page does; every other page hears of it too."""
    revision = unscanned.json("/api/runs")["revision"]
    catalog = unscanned.server.answers.catalog
    entry = catalog.entry("first")
    assert entry is not None
    assert "complete" == catalog.row(entry)["state"]
    changed = unscanned.json("/api/runs", since=revision)["runs"]
    assert [("first", "complete")] == [(row["id"], row["state"]) for row in changed]


def test_answer_after_a_curve_that_is_not_there(client: Client) -> None:
    """An empty curve ends its answer once: what comes next on the same connection can be read."""
    connection = http.client.HTTPConnection("127.0.0.1", client.server.port, timeout=300)
    for address in ("/api/curve?metric=no+such&run=sweep/complete&x=step&buckets=9", "/api/runs", "/api/runs"):
        connection.request("GET", address)
        answer = connection.getresponse()
        answer.read()
        assert 200 == answer.status
    connection.close()


def test_no_spike_is_lost(tmp_path: Path) -> None:
    """The extremes of every bucket are those of its points, at every zoom; a deep one has the points themselves."""
    chance = random.Random(3)
    values = [chance.random() for _ in range(50_000)]
    for spike in chance.sample(range(50_000), 20):
        values[spike] = 100.0 + spike
    values[777] = float("nan")
    lines = (step(number, None if math.isnan(value) else value) for number, value in enumerate(values))
    write_run(tmp_path / "runs" / "long", START, *lines, END)
    with served(tmp_path / "runs") as client:
        [(header, columns)] = client.curves("loss", "long", buckets=300)
        level = header["level"]
        assert [0, 49_999] == header["range"]["step"]
        assert 150 <= header["buckets"] <= 300
        for at in range(header["buckets"]):
            part = [value for value in values[at * level : (at + 1) * level] if not math.isnan(value)]
            extremes = array("f", (min(part), max(part)))
            assert list(extremes) == [columns["min"][at], columns["max"][at]]
            unseen = (max(part) - min(part)) / 1000
            assert math.isclose(sum(part) / len(part), columns["mean"][at], rel_tol=1e-7, abs_tol=unseen)
        assert 1 == sum(columns["nan"])
        [(header, columns)] = client.curves("loss", "long", buckets=300, **{"from": 30_000, "to": 30_099})
        assert (1, 29_999, 30_100) == (header["level"], columns["step"][0], columns["step"][-1])
        assert values[29_999:30_101] == list(columns["mean"])
        [(header, columns)] = client.curves("loss", "long", buckets=100, **{"from": 10_000, "to": 12_000})
        assert 50 <= header["buckets"] <= 104
        assert max(values[10_000:12_001]) <= max(columns["max"])


def test_no_line_of_a_compressed_stream_is_looked_up(tmp_path: Path) -> None:
    """Its lines are not where their offsets are in the file: a zoom shows what is kept, and marks have no offset."""
    alert = b'{"kind":"alert","t":2.5,"step":1,"rule":"spike","level":"error","text":"x"}\n'
    lines = START + b"lost\n" + alert + b"".join(step(number) for number in range(20_000)) + END
    # Stored, not compressed: the lines are then in the file unchanged, a few bytes further on.
    write_run(tmp_path / "runs" / "packed", gzip.compress(lines, 0))
    with served(tmp_path / "runs") as client:
        [(header, _)] = client.curves("loss", "packed", buckets=300, **{"from": 9_000, "to": 9_099})
        findings = client.json("/api/run", run="packed")["findings"]
    assert header["level"] > 1
    marks = [(mark["line"], "offset" in mark) for mark in (*header["gaps"], *header["alerts"])]
    assert [(2, False), (3, False)] == marks
    assert [(2, None)] == [(each["line"], each["offset"]) for each in findings if each["rule"] == "invalid-json"]


def test_point_of_a_record_without_a_step_is_at_the_step_before(tmp_path: Path) -> None:
    """As `history` gives it."""
    test = b'{"kind":"eval","t":9.0,"name":"test","loss":0.5}\n'
    write_run(tmp_path / "runs" / "a", START, step(1), step(2), test, step(3), test, END)
    with served(tmp_path / "runs") as client:
        client.settled_rows()
        [(_, columns)] = client.curves("test/loss", "a")
        assert [2, 3] == list(columns["step"])


@pytest.mark.parametrize(
    ("wanted", "status", "part"),
    [
        ("bytes=10-", 206, slice(10, None)), ("bytes=0-999999", 206, slice(0, None)), ("bytes=-0", 416, None),
        ("bytes=-", 200, slice(None)), ("bytes=" + "9" * 400 + "-", 200, slice(None)),
        ("bytes=0-9\u00a0", 200, slice(None)),
    ],
)  # fmt: skip
def test_ranges(wanted: str, status: int, part: slice | None, client: Client, root: Path) -> None:
    """A range of bytes is sent as RFC 9110 says; one that makes no sense is the whole file or is refused."""
    data = (root / "torn" / "events.jsonl").read_bytes()
    found, headers, body = client.get("/files?run=torn&path=events.jsonl", Range=wanted)
    assert (status, b"" if part is None else data[part]) == (found, body)
    assert (f"bytes */{len(data)}" if status == 416 else None) in (headers.get("content-range"), None)


def test_conditions(client: Client, root: Path) -> None:
    """A client that knows the file gets no bytes; one that knows an older one gets all."""
    address = "/files?run=torn&path=events.jsonl"
    _, headers, body = client.get(address)
    etag = headers["etag"]
    assert (304, b"") == client.get(address, If_None_Match=etag)[::2]
    assert 412 == client.get(address, If_Match='"other"')[0]
    assert 206 == client.get(address, If_Range=etag, Range="bytes=0-3")[0]
    with open(root / "torn" / "events.jsonl", "ab") as stream:
        stream.write(b"x")
    assert (200, body + b"x") == client.get(address, If_Range=etag, Range="bytes=0-3")[::2]


def test_nothing_else_can_be_read(root: Path, tmp_path: Path) -> None:
    """No path, link or name leads out of the runs; what is refused says why as JSON, and no link is listed."""
    (tmp_path / "secret").write_text("secret")
    (root / "torn" / "link.txt").symlink_to(tmp_path / "secret")
    (root / "torn" / "folder").symlink_to(tmp_path)
    (root / "linked").mkdir()
    (root / "linked" / "events.jsonl").symlink_to(tmp_path / "secret")
    addresses = (
        "/files?run=torn&path=../../secret", "/files?run=torn&path=%2e%2e/%2e%2e/secret",
        "/files?run=torn&path=link.txt", "/files?run=torn&path=folder/secret",
        "/files?run=linked&path=events.jsonl", "/files?run=linked", "/files?run=..&path=secret",
        "/files?run=torn&path=/etc/passwd", "/files?run=torn&path=events.jsonl%00", "/files?run=torn&path=", "/files",
        "/files?run=torn/../torn&path=events.jsonl", "/../secret", "/%2e%2e/secret", "/..%5csecret", "//secret",
        "/api/run?run=../..", "/api/run?run=%ff%fe",
    )  # fmt: skip
    with served(root) as client:
        assert ["events.jsonl"] == [file["path"] for file in client.json("/api/run", run="torn")["files"]]
        # A link may also take the place of a stream whose run is known.
        (root / "torn" / "events.jsonl").unlink()
        (root / "torn" / "events.jsonl").symlink_to(tmp_path / "secret")
        for address in (*addresses, "/files?run=torn&path=events.jsonl"):
            status, headers, body = client.get(address)
            assert status in (400, 404), (address, body)
            assert json.loads(body)["message"]
            assert b"secret" not in body.replace(b"secret`", b"")
            assert "default-src 'none'" in headers["content-security-policy"]


@pytest.mark.parametrize(
    ("host", "is_loopback", "answers"),
    [
        ("192.0.2.7:PORT", False, True),
        ("[2001:db8::7]:PORT", False, True),
        ("192.0.2.7:1", False, False),
        ("192.0.2.7", False, False),
        ("elsewhere.example:PORT", False, False),
        ("192.0.2.7:PORT", True, False),
        ("localhost:PORT", True, True),
        ("evil.example:80", True, False),
        ("localhost", True, False),
        ("127.0.0.1:1", True, False),
        ("localhost:99999", True, False),
        ("", True, False),
        ("[::1", True, False),
    ],
)
def test_addresses_lead_to_a_server_for_others_and_names_do_not(
    host: str, is_loopback: bool, answers: bool, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No name can be made to lead to an address; on loopback, only its own names are answered."""
    monkeypatch.setattr(client.server, "is_loopback", is_loopback)
    status, _, _ = client.get("/api/runs", Host=host.replace("PORT", str(client.server.port)))
    assert (200 if answers else 421) == status


@pytest.mark.parametrize(
    ("host", "port", "expected"),
    [
        ("127.0.0.1", 8000, {"localhost:8000", "127.0.0.1:8000", "[::1]:8000"}),
        ("127.0.0.1", 80, {f"{name}{port}" for name in ("localhost", "127.0.0.1", "[::1]") for port in ("", ":80")}),
        ("0.0.0.0", 8000, {"box:8000", "0.0.0.0:8000"}),
        ("::", 8000, {"box:8000", "[::]:8000"}),
        ("Lab", 8000, {"lab:8000", "box:8000"}),
        ("fe80::1", 8000, {"[fe80::1]:8000", "box:8000"}),
    ],
)
def test_names_of_a_server(host: str, port: int, expected: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A request names the address of the server, or the machine that it listens on."""
    monkeypatch.setattr(socket, "gethostname", lambda: "Box")
    assert expected == server._names(host, port, is_loopback=host == "127.0.0.1")


def test_part_of_a_file(tmp_path: Path) -> None:
    """Its bytes and no others are read, and never many of them at once."""
    data = bytes(range(256)) * 4000
    (tmp_path / "file").write_bytes(data)
    with closing(open_file(str(tmp_path / "file"))) as file:
        assert [data[2:5]] == list(file.blocks(2, 5))
        blocks = list(file.blocks(1, len(data)))
    assert data[1:] == b"".join(blocks)
    assert max(map(len, blocks)) <= 1 << 18


def test_other_sites_are_refused(client: Client) -> None:
    """A page of another site cannot ask for runs, and no answer allows it to read one."""
    assert 403 == client.get("/api/runs", Sec_Fetch_Site="cross-site")[0]
    status, headers, _ = client.get("/api/runs", Origin="http://evil.example")
    assert (200, None) == (status, headers.get("access-control-allow-origin"))


def test_body_is_sent_in_fewer_bytes_to_who_takes_them(tmp_path: Path) -> None:
    """The page's script and the rows are compressed for a browser, and as they are for who names no encoding."""
    for number in range(80):
        write_run(tmp_path / f"runs/{number}", START, step(1))
    with served(tmp_path / "runs") as client:
        client.settled_rows()
        for address in ("/app.js", "/api/runs"):
            _, plain, whole = client.get(address)
            _, packed, data = client.get(address, Accept_Encoding="gzip")
            assert (None, "gzip") == (plain.get("content-encoding"), packed.get("content-encoding"))
            assert whole == gzip.decompress(data)
            assert 2 * len(data) < len(whole)


def test_head_has_no_body(client: Client) -> None:
    """HEAD answers with the head of GET."""
    client.settled_rows()
    _, headers, _ = client.get("/api/runs")
    status, same, body = client.get("/api/runs", method="HEAD")
    assert (200, headers["content-length"], b"") == (status, same["content-length"], body)


def test_token_is_needed_where_it_was_set(root: Path) -> None:
    """The address with the token sets a cookie, which opens everything; without either nothing is shown."""
    with served(root, token="the-token") as client:
        for headers in (
            {},
            {"Cookie": f"{client.server.cookie}=other"},
            {"Authorization": "Bearer x"},
            {"Cookie": f"{client.server.cookie}=\u00ff"},
        ):
            assert 403 == client.get("/api/runs", **headers)[0]
        status, headers, _ = client.get("/?token=the-token")
        assert (303, "./") == (status, headers["location"])
        assert "HttpOnly; SameSite=Strict" in headers["set-cookie"]
        assert 200 == client.get("/api/runs", Cookie=headers["set-cookie"].partition(";")[0])[0]
        assert 200 == client.get("/api/runs", Authorization="Bearer the-token")[0]
        assert client.server.url.endswith("/?token=the-token")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x00" * 100 + b"\r\n",
        b"GET /" + b"a" * 70_000,
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
    ],
)
def test_malformed_requests_do_no_harm(request_bytes: bytes, client: Client, capfd: pytest.CaptureFixture[str]) -> None:
    """The server answers with an error or closes the connection, says nothing, and goes on."""
    with socket.create_connection(("127.0.0.1", client.server.port), timeout=300) as connection:
        connection.sendall(request_bytes)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass
    assert 200 == client.get("/api/runs")[0]
    assert ("", "") == capfd.readouterr()


def events(client: Client) -> Iterator[dict[str, Any]]:
    """Connect, and return the changes that the server reports from then on."""
    connection = http.client.HTTPConnection("127.0.0.1", client.server.port, timeout=300)
    connection.request("GET", "/api/changes")
    answer = connection.getresponse()
    assert answer.readline().startswith(b"retry")
    return _events(connection, answer)


def _events(connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    try:
        while line := answer.readline():
            if line.startswith(b"data: "):
                yield json.loads(line[6:])
    finally:
        connection.close()


def test_requests_that_never_end_block_no_one(client: Client) -> None:
    """Connections that wait for the rest of a request are closed for one that asks, the oldest first."""
    halves = [socket.create_connection(("127.0.0.1", client.server.port)) for _ in range(300)]
    try:
        for each in halves:
            with suppress(ConnectionError):
                each.sendall(b"GET /api/runs HTTP/1.1\r\nHost: x")
        assert 4 == len(client.rows())
    finally:
        for each in halves:
            each.close()


def test_answer_that_takes_too_long_goes_on(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks again gets the same answer, which is made once."""
    begun, may_end = threading.Semaphore(0), threading.Event()
    answer = client.server.answers.detail

    def slow(query: Any) -> bytes:
        begun.release()
        may_end.wait(120)
        return answer(query)

    monkeypatch.setattr(client.server.answers, "detail", slow)
    monkeypatch.setattr("toyspec.view.server._ANSWER_SECONDS", 0.1)
    run = next(iter(client.rows()))
    for _ in range(2):
        status, _, body = client.get(f"/api/run?{urlencode({'run': run})}")
        assert (503, True) == (status, b"ask again" in body)
    monkeypatch.setattr("toyspec.view.server._ANSWER_SECONDS", 60.0)
    threading.Timer(0.2, may_end.set).start()
    assert client.json("/api/run", run=run)
    assert (True, False) == (begun.acquire(blocking=False), begun.acquire(blocking=False))


def test_oldest_stream_of_changes_gives_way(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many pages as there are connections lock no one out: the oldest stream ends, and its page asks again."""
    monkeypatch.setattr(server, "_HEARTBEAT_SECONDS", 60.0)
    with contextlib.ExitStack() as stack:
        waiting = [
            stack.enter_context(socket.create_connection(("127.0.0.1", client.server.port), timeout=300))
            for _ in range(server._MOST_CONNECTIONS)
        ]
        for connection in waiting:
            connection.sendall(f"GET /api/changes HTTP/1.1\r\nHost: 127.0.0.1:{client.server.port}\r\n\r\n".encode())
            assert connection.recv(1)
        assert 4 == len(client.rows())
        while waiting[0].recv(1 << 16):
            continue


def test_folder_that_is_deleted_is_reported(client: Client, root: Path) -> None:
    """The listing names a root that is gone, or what cannot be read below one, and no longer when it is there again."""
    client.settled_rows()
    (circle := root / "circle").mkdir()
    (circle / "events.jsonl").symlink_to("events.jsonl")
    client.until(lambda: client.json("/api/runs").get("problems"))
    assert str(circle) in client.json("/api/runs")["problems"][0]
    assert 4 == len(client.rows())
    (circle / "events.jsonl").unlink()
    client.until(lambda: not client.json("/api/runs").get("problems"))
    root.rename(root.parent / "elsewhere")
    client.until(lambda: client.json("/api/runs").get("problems"))
    assert str(root) in client.json("/api/runs")["problems"][0]
    (root.parent / "elsewhere").rename(root)
    client.until(lambda: not client.json("/api/runs").get("problems") and len(client.rows()) == 4)


def test_live_run_is_followed(root: Path) -> None:
    """A run that begins, grows and ends while it is watched is reported, and its curve and state are the new ones."""
    with served(root) as client:
        changes = events(client)
        with toyspec.start_run(root, run_id="live") as run:
            assert any(change == {"added": "live"} for change in changes)
            for number in range(1, 31):
                run.step(loss=float(number))
            size = os.path.getsize(root / "live" / "events.jsonl")
            assert any(change == {"run": "live", "bytes": size} for change in changes)
            [(_, columns)] = client.curves("loss", "live")
            assert [float(number) for number in range(1, 31)] == list(columns["mean"])
            detail = client.json("/api/run", run="live")
            assert ("running", []) == (detail["row"]["state"], detail["findings"])
        size = os.path.getsize(root / "live" / "events.jsonl")
        assert any(change == {"run": "live", "bytes": size} for change in changes)
        assert "complete" == next(row["state"] for row in client.json("/api/runs")["runs"] if row["id"] == "live")
        del changes


def test_run_that_is_deleted_or_replaced_is_reported(client: Client, root: Path) -> None:
    """A deleted run is no longer listed; one that is replaced is read from its start."""
    revision = client.json("/api/runs")["revision"]
    (root / "torn" / "events.jsonl").unlink()
    (root / "damaged" / "events.jsonl").write_bytes(START + step(5, 7.5) + END)
    client.until(
        lambda: (
            (changed := client.json("/api/runs", since=revision))["removed"] == ["torn"]
            and any(row["id"] == "damaged" for row in changed["runs"])
            and not changed["complete"]
        )
    )
    [(_, columns)] = client.curves("loss", "damaged")
    assert [7.5] == list(columns["mean"])


def test_second_start_reads_no_stream(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and curves of streams that have not changed come from the cache; a damaged cache is not a cache."""
    with served(root, tmp_path / "cache") as client:
        first = list(client.settled_rows().values())
        curves = client.curves("loss", "sweep/complete")
        assert [20] == [alert["step"] for alert in curves[0][0]["alerts"]]
    monkeypatch.setattr("toyspec.view.scanning.ScannedRun", None)
    with served(root, tmp_path / "cache") as client:
        again = client.json("/api/runs")["runs"]
        assert [row | {"findings": None} for row in first] == [row | {"findings": None} for row in again]
        assert curves == client.curves("loss", "sweep/complete")
    monkeypatch.undo()
    for kept in (tmp_path / "cache").iterdir():
        kept.write_bytes(kept.read_bytes()[:40] + b"\xff" * 40)
    with served(root, tmp_path / "cache") as client:
        assert curves == client.curves("loss", "sweep/complete")


def test_media_are_sent_by_type_and_never_by_path(tmp_path: Path) -> None:
    """What may be shown has its type, all else is to be saved; no link is followed, and no name is a path."""
    run = tmp_path / "runs" / "a"
    write_run(run, START, step(1), END)
    media = run / "media"
    media.mkdir()
    (media / f"{'a' * 64}.png").write_bytes(b"picture")
    (media / f"{'b' * 64}.bin").write_bytes(b"<script>")
    (tmp_path / "secret").write_text("secret")
    (media / f"{'c' * 64}.png").symlink_to(tmp_path / "secret")
    with served(tmp_path / "runs") as client:

        def answer(sha256: str, media_type: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
            return client.get(f"/media?{urlencode({'run': 'a', 'sha256': sha256, 'type': media_type})}", **headers)

        status, headers, body = answer("a" * 64, "image/png", Range="bytes=0-2")
        assert (206, "image/png", b"pic") == (status, headers["content-type"], body)
        assert ("nosniff", None) == (headers["x-content-type-options"], headers.get("content-disposition"))
        assert "media-src 'self'" in headers["content-security-policy"]
        for media_type in ("text/html", "image/svg+xml"):
            status, headers, body = answer("b" * 64, media_type)
            assert (200, "application/octet-stream", "attachment", b"<script>") == (
                status, headers["content-type"], headers["content-disposition"], body,
            )  # fmt: skip
        for sha256, media_type, refused in (
            ("c" * 64, "image/png", 404), ("d" * 64, "image/png", 404), ("../../secret", "image/png", 400),
        ):  # fmt: skip
            status, _, body = answer(sha256, media_type)
            assert (refused, False) == (status, body == b"secret")
        media.rename(tmp_path / "elsewhere")
        media.symlink_to(tmp_path / "elsewhere")
        assert 404 == answer("a" * 64, "image/png")[0]


def test_streams_of_ranks_are_below_their_run(tmp_path: Path) -> None:
    """They are not listed; their curves, lines and facts have ids of their own, and grow with the streams."""
    run = tmp_path / "runs" / "deep" / "a"
    write_run(run, START, step(1), step(2), END)
    other = run / "events.rank-1.jsonl"
    other.write_bytes(START + step(1, 5.0))
    write_run(tmp_path / "runs" / "alone", START, step(1), END)
    rank = "deep/a/events.rank-1.jsonl"
    with served(tmp_path / "runs") as client:
        assert {"deep/a", "alone"} == set(client.settled_rows())
        assert client.json("/api/ranks", run="alone") is None
        assert {"metric": "loss", "step": 2} == client.json("/api/partings", a="deep/a", b="alone")[0]
        assert client.json("/api/partings", a="alone", b="alone") == []
        found = client.json("/api/ranks", run="deep/a")
        assert [("deep/a", 2), (rank, 1)] == [(each["run"], each["last_step"]) for each in found["ranks"]]
        assert str(tmp_path) not in json.dumps(found)
        frames = client.curves("loss", "deep/a", rank)
        assert {"deep/a": [1.25, 1.25], rank: [5.0]} == {head["run"]: list(each["mean"]) for head, each in frames}
        assert other.read_bytes() == client.get(f"/files?{urlencode({'run': rank})}")[2]
        with other.open("ab") as file:
            file.write(step(2, 6.0))
        (_, columns) = client.curves("loss", rank)[0]
        assert [5.0, 6.0] == list(columns["mean"])
        client.until(lambda: client.json("/api/ranks", run="deep/a")["ranks"][1]["last_step"] == 2)
        for none in ("deep/a/events.rank-2.jsonl", "alone/events.rank-1.jsonl", "deep/events.rank-1.jsonl"):
            assert 404 == client.get(f"/api/ranks?{urlencode({'run': none})}")[0]


def test_hostile_names_are_data(tmp_path: Path) -> None:
    """Names with markup, controls and bytes of no encoding, and thousands of metrics, are answered as JSON."""
    names = {f"m{number}": number for number in range(1500)} | {"</script><b>": 1, "\u202e": 2, "x" * 9000: 3}
    line = json.dumps({"kind": "scalars", "t": 1.0, "step": 1, "values": names}).encode() + b"\n"
    write_run(tmp_path / "runs" / "<img src=x>", START, line, END)
    write_run(tmp_path / "runs" / os.fsdecode(b"\xff\xfe"), START, step(1), END)
    with served(tmp_path / "runs") as client:
        rows = client.settled_rows()
        assert {"<img src=x>", "\\udcff\\udcfe"} == set(rows)
        row = rows["<img src=x>"]
        assert len(names) == len(row["metrics"]) + row["left_out"]["metrics"] > len(row["metrics"])
        facts = msgspec.structs.replace(facts_of_row(row), metrics_left_out=7)
        assert {"metrics": 7, "config": 0} == row_of(facts, "a")["left_out"]
        [(header, _)] = client.curves("loss", "\\udcff\\udcfe")
        assert 1 == header["points"]


@pytest.mark.parametrize("foreign", [b'{"a": 1}\n', b'{"kind":"other","schema":"nobody/v9"}\n'])
def test_file_of_another_format_is_not_a_run_until_it_is_one(foreign: bytes, root: Path) -> None:
    """A stream that follows no profile is in no list, and is in it once it does."""
    path = root / "foreign" / "events.jsonl"
    path.parent.mkdir()
    path.write_bytes(foreign)
    with served(root) as client:
        client.until(lambda: client.json("/api/runs")["complete"])
        client.until(lambda: "foreign" not in client.rows())
        others = set(client.settled_rows())
        assert "foreign" not in others
        assert others
        path.write_bytes(START + step(1) + END)
        client.until(lambda: client.rows().get("foreign", {}).get("state") == "complete")
        assert {*others, "foreign"} == set(client.settled_rows())


def test_look_at_an_unchanged_run_tells_no_one(root: Path, tmp_path: Path) -> None:
    """Only other bytes, or the end of the writer's lock, are a change that clients hear of."""
    catalog = LiveRuns(str(root), store=CurveStore(str(tmp_path / "cache")))
    try:
        catalog._watches[0].walk()
        entry = catalog.entry("torn")
        assert entry is not None
        identity, number, revision = entry.identity, catalog.changes.number, entry.revision
        catalog.look(entry, identity)
        assert (number, revision) == (catalog.changes.number, entry.revision)
        catalog.look(entry, (identity[0] + 1, *identity[1:]))
        assert catalog.changes.number == number + 1
        assert revision != entry.revision
        entry.row, entry.row_identity = {"state": "running"}, entry.identity
        catalog.look(entry, entry.identity)
        assert number + 2 == catalog.changes.number
        assert entry.was_running is False
    finally:
        catalog.close()


def test_runs_are_answered_in_the_order_in_which_their_scans_end(root: Path, tmp_path: Path) -> None:
    """A run that is read late keeps no other one from the first picture; a scan that fails or is cancelled ends too."""
    catalog = LiveRuns(str(root), store=CurveStore(str(tmp_path / "cache")))
    try:
        catalog._watches[0].walk()
        entries = [*catalog._entries.values()][:3]
        scans: list[Future[None]] = [Future(), Future(), Future()]
        catalog._pending = {entry.path: scan for entry, scan in zip(entries, scans, strict=True)}
        answered = catalog.as_read([*entries, None])
        assert next(answered) == [3]
        for at, end in ((2, scans[2].cancel), (0, lambda: scans[0].set_exception(OSError())), (1, scans[1].cancel)):
            end()
            assert next(answered) == [at]
        assert [] == list(answered)
    finally:
        catalog._pending.clear()
        catalog.close()
