"""What a hub that refuses or fails means to a user: the cause and what to do, without tokens and whole answers."""

from __future__ import annotations

from collections.abc import Callable
from errno import EACCES
from typing import Any

import pytest

from toyspec.core.errors import PlaceError
from toyspec.core.places.place import ChangedError

errors = pytest.importorskip("huggingface_hub.errors", reason="the extra hub is not installed")
# Its client is httpx, or httpx2 from 2.0 on.
CLIENT = next(base.__module__.partition(".")[0] for base in errors.HfHubHTTPError.__bases__ if base is not OSError)
httpx = pytest.importorskip(CLIENT)

from toyspec.stores.hub.repository import reported  # noqa: E402

REPOSITORY, BUCKET = "hf://me/runs", "hf://buckets/me/runs"
LATER = "call it again later; what has arrived stays"


def answered(status: int, message: str = "", kind: Any = errors.HfHubHTTPError) -> Exception:
    """Return what an answer with *status* and *message* raises."""
    request = httpx.Request("GET", "https://hub/api?token=hf_secret")
    error: Exception = kind("hf_secret", response=httpx.Response(status, request=request))
    error.server_message = message  # type: ignore[attr-defined]
    return error


Row = tuple[Callable[[], Exception], str]
REFUSED: list[Row] = [
    (lambda: errors.LocalTokenNotFoundError("x"), "there is no token; log in with `hf auth login`, or"),
    (lambda: errors.HFValidationError("a  bad\nname"), "a bad name"),
    (lambda: errors.HFValidationError("n" * 400), "n" * 300 + "…"),
    (lambda: answered(404, kind=errors.RevisionNotFoundError), "it has no such branch, tag or commit"),
    (lambda: answered(403, kind=errors.GatedRepoError), "access has to be asked for on its page first"),
    (lambda: answered(404, kind=errors.RepositoryNotFoundError), "no such repository, or this token may not see it"),
    (lambda: answered(404, kind=errors.BucketNotFoundError), "no such repository, or this token may not see it"),
    (lambda: answered(401), "the hub does not accept this token; log in with `hf auth login`"),
    (lambda: answered(403), "this token may not do that; make one with the right to write there"),
]
FAILED: list[Row] = [
    (lambda: PlaceError(REPOSITORY, "is away"), "is away"),
    (lambda: errors.OfflineModeIsEnabled("x"), "HF_HUB_OFFLINE is set, so nothing is sent or fetched"),
    (lambda: answered(400, "wrong\nname"), "the hub answers with 400 (wrong name)"),
    (lambda: answered(404), "the hub answers with 404"),
    (lambda: answered(500), f"the hub answers with 500; {LATER}"),
    (lambda: answered(503, "busy"), f"the hub answers with 503 (busy); {LATER}"),
    (lambda: answered(429), f"the hub answers with 429; {LATER}"),
    (lambda: httpx.ConnectError("hf_secret"), f"the hub does not answer (ConnectError); {LATER}"),
    (lambda: TimeoutError("x"), f"the hub does not answer (TimeoutError); {LATER}"),
    (lambda: RuntimeError("cut  off"), f"the transfer failed (cut off); {LATER}"),
    (lambda: ValueError("odd"), f"the transfer failed (odd); {LATER}"),
    (lambda: errors.XetDownloadError("odd"), f"the transfer failed (odd); {LATER}"),
    (lambda: errors.FileMetadataError("odd"), f"the transfer failed (odd); {LATER}"),
]


def raised(make: Callable[[], Exception], address: str = REPOSITORY) -> tuple[str, bool]:
    """Return the fact in the error, and whether it is a matter of rights."""
    with pytest.raises(PlaceError) as caught, reported(address):
        raise make()
    assert "secret" not in str(caught.value)
    return str(caught.value.strerror), caught.value.errno == EACCES


@pytest.mark.parametrize(("make", "said"), REFUSED)
def test_what_is_refused_says_which_right_is_missing(make: Callable[[], Exception], said: str) -> None:
    """To try again changes nothing."""
    fact, is_refused = raised(make)
    assert (said, True) == (fact[: len(said)], is_refused)


@pytest.mark.parametrize(("make", "said"), FAILED)
def test_what_fails_says_whether_to_try_again(make: Callable[[], Exception], said: str) -> None:
    """What has arrived stays, and the same call goes on from there."""
    assert (said, False) == raised(make)


def test_bucket_is_not_called_a_repository() -> None:
    """The address says which it is."""
    fact, _ = raised(lambda: answered(404, kind=errors.BucketNotFoundError), BUCKET)
    assert fact.startswith("no such bucket, or this token may not see it; check the name, log in with")


@pytest.mark.parametrize("status", [409, 412])
def test_commit_that_came_too_late_is_a_change(status: int) -> None:
    """Another program has sent something meanwhile."""
    with pytest.raises(ChangedError), reported(REPOSITORY):
        raise answered(status)


def test_cause_of_a_failed_transfer_is_what_happened() -> None:
    """The library puts an error of its own in its place."""
    with pytest.raises(PlaceError, match=r"the transfer failed \(no space\)"), reported(REPOSITORY):
        raise RuntimeError("generic") from OSError("no space")
