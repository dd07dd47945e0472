from __future__ import annotations

from pathlib import Path

import pytest

from command_line import toyspec
from loopback_store import BUCKET, Handler, Store, cut_after, silence, status, stream
from toyspec import (
    PlaceError,
    StreamMissingError,
    StreamUnreadableError,
    check,
    list_runs,
    read,
)
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.core.findings import PathError
from toyspec.core.places.place import VARIABLE, _opened, place_of
from toyspec.core.places.remote_files import RemoteFile

pytest.importorskip("obstore", reason="the extra remote is not installed")


@pytest.mark.parametrize(
    ("code", "fact"),
    [
        (403, "403 Forbidden: the credentials do not allow it, or are missing"),
        (503, "503 Service Unavailable after 8 retries: the server has a problem; try again later"),
    ],
)
def test_refusals_say_what_to_do(store: Store, code: int, fact: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused request is an error with the status and a way out; what may pass was retried; no answer is quoted."""
    monkeypatch.setenv(VARIABLE, "60")
    monkeypatch.setattr("toyspec.stores.object_stores._MOST_RETRIES", 2)
    _opened.cache_clear()
    store.put("a/events.jsonl", stream(3))
    store.every = status(code)
    with pytest.raises(StreamUnreadableError) as raised:
        list(read(f"s3://{BUCKET}/a/events.jsonl"))
    assert fact.replace("8 retries", "2 retries") == raised.value.fact
    assert "AKIA" not in str(raised.value)
    assert (3 if code == 503 else 1) == len(store.requests)


def test_passing_errors_are_waited_out(store: Store) -> None:
    """What passes within the time is not an error."""
    store.put("a/events.jsonl", stream(3))
    store.answers = [status(429), status(500)]
    with read(f"s3://{BUCKET}/a/events.jsonl") as reading:
        assert 5 == len(list(reading))


def test_missing_objects_and_buckets(store: Store) -> None:
    """What is not there is said so, for a stream, a directory and a bucket."""
    with pytest.raises(StreamMissingError, match="No such object"):
        read(f"s3://{BUCKET}/a/events.jsonl")
    store.put("data/x.bin", b"")
    with pytest.raises(StreamMissingError, match="neither events"):
        read(f"s3://{BUCKET}/data")
    (error,) = check("s3://nowhere/runs").errors
    assert "404 Not Found: check the name of the bucket" == error.message
    (error,) = list_runs(f"s3://{BUCKET}/nothing").errors
    assert PathError(f"s3://{BUCKET}/nothing", "No such object, and none below it") == error


def test_cut_answers_are_completed(store: Store) -> None:
    """An answer that ends early is continued from where it ended."""
    data = stream(900)
    store.put("a/events.jsonl", data)
    store.answers = [cut_after(1000)]
    assert data == RemoteFile(f"s3://{BUCKET}/a/events.jsonl").read()
    assert ["bytes=0-65535", f"bytes=1000-{min(65535, len(data) - 1)}"] == [each.range for each in store.requests]


def test_silent_servers_are_given_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request ends after the time that the user sets."""
    monkeypatch.setenv(VARIABLE, "0.3")
    _opened.cache_clear()
    store.put("a/events.jsonl", stream(3))
    store.every = silence(0.6)
    with pytest.raises(StreamUnreadableError, match=r"no answer in time.*TOYSPEC_REMOTE_SECONDS"):
        read(f"s3://{BUCKET}/a/events.jsonl")


def test_unreachable_hosts_and_unknown_schemes() -> None:
    """A host without a server, and a scheme that nothing reaches, are errors with a way out."""
    done = toyspec("show", "http://127.0.0.1:1/a", env={VARIABLE: "1"})
    assert 2 == done.returncode
    assert b"no connection to the host" in done.stderr
    (error,) = check("nosuch://a/b").errors
    assert "write ./ before the path of a file" in error.message


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("az://container/runs", "the store needs an account; set AZURE_STORAGE_ACCOUNT_NAME"),
        ("s3:///runs", "it has no bucket; write s3://BUCKET/PATH"),
    ],
)
def test_what_an_address_needs_is_named(monkeypatch: pytest.MonkeyPatch, address: str, expected: str) -> None:
    """The message says what to write or to set."""
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    (error,) = check(address).errors
    assert expected == error.message


def test_credentials_in_the_address_of_a_bucket_are_refused(store: Store) -> None:
    """Stores take credentials from the environment; the message names the place without them."""
    (error,) = check("s3://AKIAX:wordofsecret@elsewhere/runs").errors
    assert "s3://elsewhere/runs" == error.path
    assert "give them in the environment" in error.message


def test_wrong_time_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time limit that is not a number is not ignored."""
    monkeypatch.setenv(VARIABLE, "soon")
    _opened.cache_clear()
    with pytest.raises(PlaceError, match="must be a number of seconds"):
        place_of("http://127.0.0.1:1/a")


def test_credentials_are_never_shown(store: Store) -> None:
    """A password and a signature reach the server and appear in no output, whatever happens."""
    host = store.endpoint.removeprefix("http://")
    store.put("a/events.jsonl", stream(3))
    for path in ("a", "a/events.jsonl", "none"):
        address = f"http://user:secretword@{host}/{BUCKET}/{path}?X-Amz-Signature=signed"
        for arguments in (("show",), ("check", "--format", "json"), ("ls", "--json"), ("tail", "--once")):
            done = toyspec(*arguments, address)
            assert b"secretword" not in done.stdout + done.stderr
            assert b"signed" not in done.stdout + done.stderr
            assert (0 if path.startswith("a") else 2) == done.returncode
    assert {"X-Amz-Signature=signed"} == {each.query for each in store.requests if "/a/events" in each.path}


def test_what_may_not_be_asked_for_is_not_a_broken_sidecar(store: Store) -> None:
    """A store refuses what is not there to those who may not list it, so a refused sidecar counts as none."""
    store.put("a/events.jsonl", stream(3))

    def refuse_others(handler: Handler) -> bool:
        if "events.jsonl" in handler.path:
            return False
        handler.answer(403, b"")
        return True

    store.every = refuse_others
    (report,) = check(f"s3://{BUCKET}/a/events.jsonl").files
    assert [] == report.findings


def test_command_that_converts_says_what_is_wrong_with_a_place(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``export`` names the address and the problem, and ends with 2."""
    store.every = status(403)
    place = f"s3://{BUCKET}/logs"
    assert exit_codes.USAGE == main(["export", "tensorboard", place, "--out", str(tmp_path / "out")])
    assert f"toyspec export: {place}: 403 Forbidden: the credentials do not allow it, or are missing\n" == (
        capsys.readouterr().err
    )
