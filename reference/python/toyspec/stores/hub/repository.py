"""A repository or bucket of the hub as a place that is written: what is put is staged, and committed at once."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from errno import EACCES, ENOENT
from http import HTTPStatus
from json import JSONDecodeError
from logging import ERROR
from typing import TYPE_CHECKING, NamedTuple

from huggingface_hub import CommitOperationAdd, CommitOperationCopy, HfApi, HfFileSystem, errors, get_token
from huggingface_hub.errors import EntryNotFoundError
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils import logging
from huggingface_hub.utils.tqdm import disable_progress_bars

from toyspec.core.directories import new_file
from toyspec.core.errors import PlaceError
from toyspec.core.places.place import ChangedError, Entry, FetchedBytes, MalformedAnswerError
from toyspec.stores.run_files import grows, run_above
from toyspec.stores.transfers import LocalFile, has_digest_of, relation
from toyspec.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from huggingface_hub import BucketFile

    from toyspec.stores.hub.locations import HubLocation

_COMMIT_FILES = 200
_COMMIT_BYTES = 64 << 20
# Above this size the hub takes a file outside of the commit.
_SMALL_BYTES = 10 << 20
_BLOCK_BYTES = 1 << 20
# Its client is httpx, or httpx2 from 2.0 on.
_HTTP_ERROR: type[Exception] = next(base for base in errors.HfHubHTTPError.__bases__ if base is not OSError)
_LOGIN = "log in with `hf auth login`, or set HF_TOKEN"
_TRY_AGAIN = "call it again later; what has arrived stays"
_MOST_CHARACTERS = 300
_ABSENT = f"no such {{what}}, or this token may not see it; check the name, {_LOGIN}, or create it: push --create"
# By the class of an error, else by the status of an answer; the first that fits counts.
_REFUSALS: dict[type[Exception] | int, str] = {
    errors.LocalTokenNotFoundError: f"there is no token; {_LOGIN}",
    errors.RevisionNotFoundError: "it has no such branch, tag or commit",
    errors.GatedRepoError: "access has to be asked for on its page first",
    errors.RepositoryNotFoundError: _ABSENT,
    errors.BucketNotFoundError: _ABSENT,
    HTTPStatus.UNAUTHORIZED: f"the hub does not accept this token; {_LOGIN}",
    HTTPStatus.FORBIDDEN: "this token may not do that; make one with the right to write there, and log in with it",
}


class _Staged(NamedTuple):
    source: str
    """The path of a file of this machine; for a copy, the address of an object of the hub."""
    size: int
    is_copy: bool = False


class HubRepository:
    """A repository at its newest commit, or a bucket; what is put or copied is there after ``commit``."""

    appends = False

    def __init__(self, location: HubLocation, scratch: str) -> None:
        """Keep copies of logs that may grow in the directory *scratch*."""
        self.location = location
        self._api = HfApi(library_name="toyspec", library_version=__version__)
        self._scratch = scratch
        self._lock = threading.Lock()
        self._staged: dict[str, _Staged] = {}
        self._entries: dict[str, Entry] = {}
        self._copies = itertools.count(1)
        self.head = ""
        """The commit that is compared; empty for a bucket."""
        self._files: HfFileSystem | None = None
        # What it retries is not an error yet, and what fails is reported once.
        logging.set_verbosity(ERROR)
        disable_progress_bars()

    @property
    def page(self) -> str:
        """The address of its page on the web."""
        return f"{self._api.endpoint}/{self.location.page}"

    def require_token(self) -> None:
        """Raise PlaceError where there is no token to write with."""
        with reported(self.location.root):
            if get_token() is None:
                raise errors.LocalTokenNotFoundError

    def create(self, *, is_public: bool) -> None:
        """Create it where it is not there; one that is there does not change."""
        name, kind = self.location.name, self.location.kind
        with reported(self.location.root):
            if kind == "bucket":
                self._api.create_bucket(name, private=not is_public, exist_ok=True)
            else:
                sdk = "static" if kind == "space" else None
                self._api.create_repo(name, repo_type=kind, private=not is_public, exist_ok=True, space_sdk=sdk)

    def open(self) -> None:
        """List what is there now; raise PlaceError."""
        self._staged.clear()
        location = self.location
        with reported(location.root):
            if location.kind == "bucket":
                self._api.bucket_info(location.name)
                listed = self._api.list_bucket_tree(location.name, prefix=location.path or None, recursive=True)
                self._entries = dict(map(self._bucket_entry, (each for each in listed if each.type == "file")))
            else:
                info = self._api.repo_info(location.name, repo_type=location.kind, revision=location.revision)
                self.head = info.sha or ""
                self._entries = dict(map(self._repository_entry, self._listed()))
        self._files = HfFileSystem(endpoint=self._api.endpoint, skip_instance_cache=True)

    def _listed(self) -> list[RepoFile]:
        location = self.location
        try:
            found = self._api.list_repo_tree(
                location.name, location.path or None, recursive=True, revision=self.head, repo_type=location.kind
            )
            return [each for each in found if isinstance(each, RepoFile)]
        except EntryNotFoundError:
            return []
        except (JSONDecodeError, KeyError, TypeError, AttributeError):
            raise MalformedAnswerError(location.root, "list of files") from None

    def _repository_entry(self, file: RepoFile) -> tuple[str, Entry]:
        identity = f"git:{file.blob_id}" if file.lfs is None else f"sha256:{file.lfs.sha256}"
        address = f"{self.location.root}/{file.path}"
        if not isinstance(file.size, int):
            raise MalformedAnswerError(address, "size of the file")
        return address, Entry(address, file.size, identity)

    def _bucket_entry(self, file: BucketFile) -> tuple[str, Entry]:
        address = f"{self.location.root}/{file.path}"
        return address, Entry(address, file.size, f"xet:{file.xet_hash}")

    def path_of(self, address: str) -> str:
        """Return the path of *address* in the repository or bucket."""
        return address[len(self.location.root) + 1 :]

    def entries(self, address: str) -> Iterator[Entry]:
        """See Place."""
        start = f"{address}/"
        return (entry for entry in self._entries.values() if entry.address.startswith(start))

    def status(self, address: str) -> Entry:
        """See Place."""
        if address not in self._entries:
            raise FileNotFoundError(ENOENT, "No such object", address)
        return self._entries[address]

    def read_range(self, address: str, offset: int, size: int, identity: str | None) -> FetchedBytes:
        """See Place."""
        entry = self.status(address)
        if identity is not None and entry.identity != identity:
            raise ChangedError(address)
        end = min(offset + size, entry.size)
        if offset >= end:
            return FetchedBytes(b"", entry)
        assert self._files is not None
        with reported(address):
            return FetchedBytes(self._files.cat_file(self._pinned(address), start=offset, end=end), entry)

    def _pinned(self, address: str) -> str:
        root = self.location._replace(revision=self.head or None).root
        return f"{root}/{self.path_of(address)}"

    def is_copy(self, path: str, entry: Entry) -> bool:
        """Return whether the file *path* has the bytes of *entry*, which a bucket is asked for; raise StreamError."""
        with LocalFile(path, lines=False) as file:
            if self.head or file.stop != entry.size:
                return has_digest_of(entry, file)
            return relation(file, entry, self, "all") == "same"

    def put(self, file: LocalFile, address: str, known: Entry | None, shared: int = 0) -> Entry:
        """Stage *file*. A log may grow until it is committed, so it is copied; *known* is what the commit replaces."""
        del shared
        self._require(address, known)
        source = file.path
        if grows(os.path.basename(source)):
            source = os.path.join(self._scratch, f"{next(self._copies)}-{os.path.basename(source)}")
            with new_file(source) as copied:
                copied.writelines(file.blocks(_BLOCK_BYTES))
        with self._lock:
            self._staged[address] = _Staged(source, file.stop)
        return Entry(address, file.stop, "staged")

    def put_file(self, path: str, address: str) -> None:
        """Stage the file *path* as it is when it is committed."""
        with self._lock:
            self._staged[address] = _Staged(path, os.path.getsize(path))

    def copy(self, base: Entry, address: str) -> None:
        """See Target."""
        self._require(address, None)
        with self._lock:
            self._staged[address] = _Staged(base.address, base.size, is_copy=True)

    def _require(self, address: str, known: Entry | None) -> None:
        there = self._entries.get(address)
        if (there and there.identity) != (known and known.identity):
            raise ChangedError(address)

    def commit(self, message: str, runs: Iterable[str], done: Callable[[int, int], None]) -> int:
        """Commit what is staged, and return the number of commits; *done* gets the number of files so far, and of all.

        The files of one of *runs*, which are addresses, are in one commit. Raises ChangedError where the repository is
        another one than ``open`` has listed; PlaceError.
        """
        commits, sent = 0, 0
        for part in _parts(self._staged, frozenset(runs)):
            with reported(self.location.root):
                if self.location.kind == "bucket":
                    self._commit_to_bucket(part)
                else:
                    self._commit_to_repository(part, message)
            commits += 1
            sent += len(part)
            done(sent, len(self._staged))
        return commits

    def _commit_to_repository(self, part: dict[str, _Staged], message: str) -> None:
        path, head = self.path_of, self.head
        operations = [
            CommitOperationCopy(path(staged.source), path(address), src_revision=head)
            if staged.is_copy
            else CommitOperationAdd(path(address), staged.source)
            for address, staged in part.items()
        ]
        made = self._api.create_commit(
            self.location.name,
            operations,
            commit_message=message,
            repo_type=self.location.kind,
            revision=self.location.revision,
            parent_commit=head,
        )
        self.head = made.oid

    def _commit_to_bucket(self, part: dict[str, _Staged]) -> None:
        path, name = self.path_of, self.location.name
        copies = [
            ("bucket", name, self._entries[staged.source].identity.removeprefix("xet:"), path(address))
            for address, staged in part.items()
            if staged.is_copy
        ]
        # An object that is replaced gets its other name first.
        if copies:
            self._api.batch_bucket_files(name, copy=copies)
        added = [(staged.source, path(address)) for address, staged in part.items() if not staged.is_copy]
        if added:
            self._api.batch_bucket_files(name, add=list(added))


def _parts(staged: dict[str, _Staged], runs: frozenset[str]) -> Iterator[dict[str, _Staged]]:
    """Yield what is *staged* in parts for one commit each; the files of a run stay together."""
    by_run: dict[str | None, dict[str, _Staged]] = {}
    for address, each in staged.items():
        by_run.setdefault(run_above(address, runs, "hf://"), {})[address] = each
    part: dict[str, _Staged] = {}
    for files in by_run.values():
        together = [*part.values(), *files.values()]
        small = sum(each.size for each in together if each.size <= _SMALL_BYTES)
        if part and (len(together) > _COMMIT_FILES or small > _COMMIT_BYTES):
            yield part
            part = {}
        part |= files
    if part:
        yield part


@contextlib.contextmanager
def reported(address: str) -> Iterator[None]:
    """Raise what ``huggingface_hub`` raises as PlaceError or ChangedError, without tokens and whole answers."""
    try:
        yield
    except PlaceError:
        raise
    except errors.OfflineModeIsEnabled:
        raise PlaceError(address, "HF_HUB_OFFLINE is set, so nothing is sent or fetched") from None
    except (errors.HfHubHTTPError, errors.LocalTokenNotFoundError, errors.HFValidationError) as error:
        raise _refusal(address, error) from None
    except (_HTTP_ERROR, TimeoutError) as error:
        raise PlaceError(address, f"the hub does not answer ({type(error).__name__}); {_TRY_AGAIN}") from None
    except (RuntimeError, ValueError, errors.XetDownloadError, errors.FileMetadataError) as error:
        # Its transfer library raises these, some of them in place of what happened.
        cause = _short(str(error.__cause__ or error))
        raise PlaceError(address, f"the transfer failed ({cause}); {_TRY_AGAIN}") from None


def _refusal(address: str, error: Exception) -> PlaceError:
    """Return what *error*, an answer of the hub or a refusal to ask, means."""
    status = error.response.status_code if isinstance(error, errors.HfHubHTTPError) else None
    for kind, fact in _REFUSALS.items():
        if status == kind or (isinstance(kind, type) and isinstance(error, kind)):
            what = "bucket" if "//buckets/" in address else "repository"
            return PlaceError(address, fact.format(what=what), number=EACCES)
    if not isinstance(error, errors.HfHubHTTPError) or status is None:
        return PlaceError(address, _short(str(error)), number=EACCES)
    if status in (HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED):
        return ChangedError(address)
    said = _short(error.server_message or "")
    answer = f"the hub answers with {status}{f' ({said})' if said else ''}"
    is_passing = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS
    return PlaceError(address, f"{answer}; {_TRY_AGAIN}" if is_passing else answer)


def _short(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= _MOST_CHARACTERS else f"{joined[:_MOST_CHARACTERS]}…"
