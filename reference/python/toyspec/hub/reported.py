"""Says what a failed request to the hub means, and what to do."""

from __future__ import annotations

import contextlib
from errno import EACCES
from http import HTTPStatus
from typing import TYPE_CHECKING

from huggingface_hub import errors

from toyspec.errors import PlaceError
from toyspec.places.place import ChangedError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Its client is httpx, or httpx2 from 2.0 on.
_HTTP_ERROR: type[Exception] = next(base for base in errors.HfHubHTTPError.__bases__ if base is not OSError)
_LOGIN = "log in with `hf auth login`, or set HF_TOKEN"
_TRY_AGAIN = "call it again later: what was sent stays there"
_MOST_CHARACTERS = 300


@contextlib.contextmanager
def reported(address: str) -> Iterator[None]:
    """Raise what ``huggingface_hub`` raises as PlaceError or ChangedError, without tokens and whole answers."""
    try:
        yield
    except PlaceError:
        raise
    except errors.OfflineModeIsEnabled:
        raise PlaceError(address, "HF_HUB_OFFLINE is set, so nothing is sent or fetched") from None
    except (errors.LocalTokenNotFoundError, errors.RevisionNotFoundError, errors.HFValidationError) as error:
        raise PlaceError(address, _refusal(error, address), number=EACCES) from None
    except errors.HfHubHTTPError as error:
        _raise_answer(address, error)
    except (_HTTP_ERROR, TimeoutError) as error:
        raise PlaceError(address, f"the hub does not answer ({type(error).__name__}); {_TRY_AGAIN}") from None
    except (RuntimeError, ValueError, errors.XetDownloadError, errors.FileMetadataError) as error:
        # Its transfer library raises these, some of them in place of what happened.
        cause = _short(str(error.__cause__ or error))
        raise PlaceError(address, f"the transfer failed ({cause}); {_TRY_AGAIN}") from None


def _refusal(error: Exception, address: str) -> str:
    """Return why what was asked for is refused."""
    if isinstance(error, errors.LocalTokenNotFoundError):
        return f"there is no token; {_LOGIN}"
    if isinstance(error, errors.RevisionNotFoundError):
        return "it has no such branch, tag or commit"
    if isinstance(error, errors.GatedRepoError):
        return "access has to be asked for on its page first"
    if isinstance(error, errors.RepositoryNotFoundError | errors.BucketNotFoundError):
        what = "bucket" if "//buckets/" in address else "repository"
        return f"no such {what}, or this token may not see it; check the name, {_LOGIN}, or create it: push --create"
    return _short(str(error))


def _raise_answer(address: str, error: errors.HfHubHTTPError) -> None:
    if isinstance(error, errors.RepositoryNotFoundError | errors.BucketNotFoundError):
        raise PlaceError(address, _refusal(error, address), number=EACCES) from None
    status = error.response.status_code
    if status == HTTPStatus.UNAUTHORIZED:
        raise PlaceError(address, f"the hub does not accept this token; {_LOGIN}", number=EACCES) from None
    if status == HTTPStatus.FORBIDDEN:
        fact = "this token may not do that; make one with the right to write there, and log in with it"
        raise PlaceError(address, fact, number=EACCES) from None
    if status in (HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED):
        raise ChangedError(address) from None
    said = _short(error.server_message or "")
    answer = f"the hub answers with {status}{f' ({said})' if said else ''}"
    is_passing = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS
    raise PlaceError(address, f"{answer}; {_TRY_AGAIN}" if is_passing else answer) from None


def _short(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= _MOST_CHARACTERS else f"{joined[:_MOST_CHARACTERS]}…"
