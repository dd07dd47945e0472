"""Runs in repositories and buckets of a hub: what is there is a legal run, and nothing is lost or replaced."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import toyspec
from command_line import toyspec as command
from command_line import toyspec_within
from loopback_store import stream
from toyspec.core.errors import PlaceError
from toyspec.stores.hub.locations import location_of

hub_package = pytest.importorskip("huggingface_hub", reason="the extra hub is not installed")

import loopback_hub  # noqa: E402 - after what skips
from loopback_hub import NAME, TOKEN, Handler, Hub, Repository  # noqa: E402
from toyspec.stores.hub import repository as hub_repository  # noqa: E402

# What huggingface_hub asks of its HTTP client when it sends large files.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

TO = f"hf://{NAME}/all"
FRAGMENT = b'{"kind":"step","t":9'
NOTE = b'{"kind":"note","t":9.0,"text":"x"}\n'


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Serve a hub that this process knows."""
    with loopback_hub.known_hub(tmp_path, monkeypatch) as served:
        yield served


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a directory with two ended runs."""
    for name in ("a", "b"):
        put(tmp_path, name, stream(5, run_id=name))
    return tmp_path / "runs"


def put(directory: Path, name: str, data: bytes, file: str = "events.jsonl") -> None:
    """Write a file of a run."""
    path = directory / "runs" / name / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def ran(directory: Path, *arguments: str) -> tuple[int, str, str]:
    """Return exit code, output and errors of a command."""
    done = toyspec_within(*arguments, cwd=directory)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def logs_of(found: Repository) -> dict[str, bytes]:
    """Return the logs of a repository."""
    return {path: data for path, data in found.files.items() if path.endswith(".jsonl")}


def test_push_sends_logs_and_event_files_in_one_commit(hub: Hub, runs: Path, tmp_path: Path) -> None:
    """The logs are the same bytes, and each run has an event file beside its log, which reads as the run does."""
    status, printed, errors = ran(tmp_path, "push", "runs", TO)
    assert (0, 2, "") == (status, len(hub.model().commits), errors)
    assert {f"all/{name}/events.jsonl": (runs / name / "events.jsonl").read_bytes() for name in "ab"} == logs_of(
        hub.model()
    )
    assert f"1 commit, 2 event files: {hub.endpoint}/{NAME}\n" in printed
    (path,) = (path for path in hub.model().files if path.startswith("all/a/events.out.tfevents."))
    (tmp_path / os.path.basename(path)).write_bytes(hub.model().files[path])
    report = toyspec.import_runs([tmp_path / os.path.basename(path)], tmp_path / "back")
    (back,) = report.runs
    values = list(toyspec.history(back.target)["loss"])
    assert pytest.approx([1 / step for step in range(1, 6)]) == values


def test_second_push_sends_nothing(hub: Hub, runs: Path, tmp_path: Path) -> None:
    """What is there is known by its digests: nothing is committed, and no content is asked for."""
    del runs
    ran(tmp_path, "push", "runs", TO)
    hub.requests.clear()
    assert (0, "2 runs → hf://me/runs/all: nothing to send\n", "") == ran(tmp_path, "push", "runs", TO)
    assert not [each for each in hub.requests if "resolve" in each or "commit" in each]


def test_push_sends_whole_lines_only_and_goes_on(hub: Hub, tmp_path: Path) -> None:
    """A fragment stays here; what is written since is sent by the next call, with another event file."""
    put(tmp_path, "a", stream(3, end="") + FRAGMENT)
    ran(tmp_path, "push", "runs", TO)
    assert stream(3, end="") == hub.model().files["all/a/events.jsonl"]
    before = {path: data for path, data in hub.model().files.items() if "tfevents" in path}
    put(tmp_path, "a", stream(5))
    assert 0 == ran(tmp_path, "push", "runs", TO)[0]
    assert stream(5) == hub.model().files["all/a/events.jsonl"]
    after = {path: data for path, data in hub.model().files.items() if "tfevents" in path}
    assert (before.keys(), True) == (after.keys(), before != after)


def test_one_run_is_the_repository_itself(hub: Hub, runs: Path, tmp_path: Path) -> None:
    """Where RUNS is one run, its log is beside what the repository has already."""
    del runs
    hub.model().add({"model.safetensors": b"weights"})
    assert 0 == ran(tmp_path, "push", "runs/a", f"hf://{NAME}")[0]
    assert {"events.jsonl", "model.safetensors"} <= hub.model().files.keys()


@pytest.mark.parametrize("there", [stream(7, end="", run_id="another"), stream(5) + NOTE], ids=["another", "longer"])
def test_push_replaces_no_other_log(hub: Hub, runs: Path, tmp_path: Path, there: bytes) -> None:
    """A log of another run, or one that has more, stays unchanged; the other runs are sent."""
    del runs
    hub.model().add({"all/a/events.jsonl": there})
    status, _, errors = ran(tmp_path, "push", "runs", TO)
    assert (1, there) == (status, hub.model().files["all/a/events.jsonl"])
    assert "all/b/events.jsonl" in hub.model().files
    assert not [path for path in hub.model().files if path.startswith("all/a/events.out")]
    assert "toyspec push: hf://me/runs/all/a: its events.jsonl" in errors


def test_keep_both_renames_the_other_log(hub: Hub, runs: Path, tmp_path: Path) -> None:
    """With --keep-both, what was there is kept under a name of its own, in the same commit."""
    other = stream(7, end="", run_id="another")
    hub.model().add({"all/a/events.jsonl": other})
    assert 0 == ran(tmp_path, "push", "--keep-both", "runs", TO)[0]
    files = hub.model().files
    assert (runs / "a/events.jsonl").read_bytes() == files["all/a/events.jsonl"]
    assert [other] == [data for path, data in files.items() if path.startswith("all/a/events.jsonl.prev-")]


def test_commit_of_another_program_is_not_undone(hub: Hub, runs: Path, tmp_path: Path) -> None:
    """Where the repository changes after it was listed, the commit fails, and all is compared again."""
    del runs
    longer = stream(5) + NOTE

    def commit_first(handler: Handler) -> bool:
        if "/commit/" not in handler.path:
            return False
        hub.model().add({"all/a/events.jsonl": longer})
        handler.fail(412, "", "A commit has happened since. Please refresh and try again.")
        return True

    hub.answers.append(commit_first)
    status, _, errors = ran(tmp_path, "push", "runs", TO)
    assert (1, longer) == (status, hub.model().files["all/a/events.jsonl"]), errors
    assert "bytes more than the source" in errors
    assert stream(5, run_id="b") == hub.model().files["all/b/events.jsonl"]


def test_push_that_failed_goes_on(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of a run are in one commit; commits before a failure stay, and the next call sends the rest."""
    monkeypatch.setattr(hub_repository, "_COMMIT_FILES", 2)
    for name in "abc":
        put(tmp_path, name, stream(3, run_id=name))
    commits = iter(range(9))

    def refuse_the_second(handler: Handler) -> bool:
        is_second = "/commit/" in handler.path and next(commits) == 1
        if is_second:
            handler.fail(429, "", "Too many commits")
        return is_second

    hub.answers.append(refuse_the_second)
    status, _, errors = ran(tmp_path, "push", "runs", TO)
    assert 1 == status
    assert "toyspec push: hf://me/runs: the hub answers with 429 (Too many commits); call it again later" in errors
    (first,) = {path.split("/")[1] for path in hub.model().files if path.startswith("all/")}
    assert 0 == ran(tmp_path, "push", "runs", TO)[0]
    assert ({"all/a/events.jsonl", "all/b/events.jsonl", "all/c/events.jsonl"}, 4) == (
        set(logs_of(hub.model())), len(hub.model().commits),
    )  # fmt: skip
    assert {first} == {path.split("/")[1] for path in hub.model().commits[1][1] if path.startswith("all/")}


@pytest.mark.parametrize(
    ("to", "token", "expected"),
    [
        (TO, "", "toyspec push: hf://me/runs: there is no token; log in with `hf auth login`, or set HF_TOKEN\n"),
        (TO, "hf_other", "this token may not do that; make one with the right to write there"),
        ("hf://me/nothing", TOKEN, "toyspec push: hf://me/nothing: no such repository"),
        ("hf://buckets/me/nothing", TOKEN, "toyspec push: hf://buckets/me/nothing: no such bucket"),
        (f"hf://{NAME}@nothing", TOKEN, "it has no such branch, tag or commit"),
        ("runs", TOKEN, "toyspec push: runs: not a repository; write hf://NAME/REPOSITORY"),
    ],
    ids=["no token", "no right", "no repository", "no bucket", "no revision", "no name"],
)
def test_refusals_name_the_way_out(  # noqa: PLR0913 - fixtures, and a table of three columns
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, *, token: str, expected: str
) -> None:
    """Each refusal is one line, exit code 2, and nothing is sent."""
    put(tmp_path, "a", stream(5))
    monkeypatch.setenv("HF_TOKEN", token)
    status, _, errors = ran(tmp_path, "push", "runs", to)
    assert (2, 1, 1) == (status, errors.count("\n"), len(hub.model().commits))
    assert expected in errors
    assert "hf_other" not in errors


def test_hub_that_does_not_answer(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub out of reach is exit code 1: another call may help."""
    del runs
    with loopback_hub.serving(tmp_path / "xet") as gone:
        endpoint = gone.endpoint
    monkeypatch.setattr(hub_package.constants, "ENDPOINT", endpoint)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    status, _, errors = ran(tmp_path, "push", "runs", TO)
    assert 1 == status
    assert "toyspec push: hf://me/runs: the hub does not answer (ConnectError); call it again later" in errors


def test_package_that_is_missing(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without huggingface_hub, the message has the command that installs it."""
    del runs
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    status, _, errors = ran(tmp_path, "push", "runs", TO)
    assert 2 == status
    assert "python -m pip install 'toyspec[hub]'" in errors


def test_create_makes_a_private_repository(hub: Hub, runs: Path, tmp_path: Path) -> None:
    """What --create makes is private unless --public; the dry run before makes nothing."""
    del runs
    to = f"hf://datasets/{NAME}/all"
    assert 2 == ran(tmp_path, "push", "--create", "--dry-run", "runs", to)[0]
    assert 0 == ran(tmp_path, "push", "--create", "runs", to)[0]
    assert ["private"] == [each["visibility"] for each in hub.created]
    assert 2 == len(logs_of(hub.repositories[f"datasets/{NAME}"]))


def test_dry_run_sends_nothing(hub: Hub, runs: Path, tmp_path: Path) -> None:
    """A dry run says what would be sent."""
    del runs
    status, printed, _ = ran(tmp_path, "push", "--dry-run", "runs", TO)
    assert (0, 1, True) == (status, len(hub.model().commits), "2 would be sent" in printed)


_LISTS: dict[str, object] = {
    "a page": b"<html>log in</html>",
    "an object": {"error": "x"},
    "a file without a name": [{"type": "file"}],
    "a file without a size": [{"type": "file", "path": "a/events.jsonl", "oid": "0" * 40, "size": None}],
}


@pytest.mark.parametrize("answer", list(_LISTS.values()), ids=list(_LISTS))
def test_list_that_is_none(hub: Hub, tmp_path: Path, answer: object) -> None:
    """A list of files that no hub gives is one line and exit code 1, and nothing is sent."""
    put(tmp_path, "a", stream(5))
    answer_always(hub, "/tree/", answer)
    status, printed, errors = ran(tmp_path, "push", "runs", f"hf://{NAME}")
    assert (1, "", 1, 1) == (status, printed, errors.count("\n"), len(hub.model().commits)), errors
    assert "the answer of the server has no" in errors


def answer_always(hub: Hub, part: str, answer: object) -> None:
    """Let *hub* give *answer* to each request whose path has *part*."""

    def special(handler: Handler) -> bool:
        is_asked = handler.command == "GET" and part in handler.path
        if is_asked:
            handler.send(answer)
            hub.answers.append(special)
        return is_asked

    hub.answers.append(special)


def test_bucket_is_kept_in_step(hub: Hub, runs: Path, tmp_path: Path) -> None:
    """A bucket, whose content the real ``hf_xet`` keeps, gets the same bytes, grows, and is read in place."""
    hub_package.constants.HF_HUB_DISABLE_XET = False
    changes = {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "home"), "HF_XET_CACHE": str(tmp_path / "cache")}

    def ran_alone(*arguments: str) -> tuple[int, str]:
        # The store is locked by the process that has written, until it ends.
        done = command(*arguments, cwd=tmp_path, env=changes)
        return done.returncode, (done.stdout + done.stderr).decode()

    to = f"hf://buckets/{NAME}/all"
    assert 0 == ran_alone("push", "runs", to)[0]
    assert (0, f"2 runs → {to}: nothing to send\n") == ran_alone("push", "runs", to)
    log = (runs / "a/events.jsonl").read_bytes()
    assert log == hub.content("all/a/events.jsonl")
    put(tmp_path, "a", log + NOTE)
    assert 0 == ran_alone("push", "runs", to)[0]
    assert log + NOTE == hub.content("all/a/events.jsonl")
    status, printed = ran_alone("ls", to)
    assert (0, 3) == (status, printed.count("\n"))


def test_repository_is_read_in_place(hub: Hub, runs: Path, tmp_path: Path) -> None:
    """Other commands read a repository by its address."""
    del runs
    ran(tmp_path, "push", "runs", TO)
    done = command("check", TO, env={"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "home")})
    assert (0, b"") == (done.returncode, done.stderr)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("me/runs", "hf://me/runs"),
        ("hf://me/runs/", "hf://me/runs"),
        ("hf://models/me/runs/all", "hf://me/runs/all"),
        ("hf://datasets/me/runs@v1/all/x", "hf://datasets/me/runs@v1/all/x"),
        ("hf://me/runs@refs/pr/3/all", "hf://me/runs@refs/pr/3/all"),
        ("hf://buckets/me/runs/all", "hf://buckets/me/runs/all"),
        ("hf://spaces/me/runs", "hf://spaces/me/runs"),
    ],
)
def test_locations(text: str, address: str) -> None:
    """A repository can be named in short; its address is always the same."""
    assert address == location_of(text).address


@pytest.mark.parametrize(
    "text", ["", "runs", "/me/runs", "./runs", "hf://me", "hf://me/runs/../x", "hf://buckets/me/b@v1", "s3://me/runs"]
)
def test_texts_that_name_no_repository(text: str) -> None:
    """A text that names nothing is refused, with the text."""
    with pytest.raises(PlaceError) as raised:
        location_of(text)
    assert text == raised.value.filename
