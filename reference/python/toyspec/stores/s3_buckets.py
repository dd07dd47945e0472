"""Buckets of S3 and of servers that speak it, through boto3: obstore has no copy of a part of an object."""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime, timedelta
from errno import EACCES, EIO
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    NoCredentialsError,
    PartialCredentialsError,
    ReadTimeoutError,
)
from botocore.parsers import ResponseParserError

from toyspec.core.errors import PlaceError
from toyspec.core.places.addresses import parts_of
from toyspec.core.places.place import ChangedError, Entry, MalformedAnswerError
from toyspec.stores.object_stores import ObjectPlace, fact_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.stores.spans import Span

LEAST_PART_BYTES = 5 << 20
"""Of the parts of an object, only the last may be smaller."""

_PART_BYTES = 8 << 20
_MOST_PARTS = 9000
_MOST_COPIED_BYTES = 4 << 30
_ATTEMPTS = 5
_CONNECT_SECONDS = 10.0
_STALE = timedelta(hours=1)
_CHANGED_CODES = frozenset(["PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "NoSuchUpload"])
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class S3Bucket(ObjectPlace):
    """A bucket that is written with conditions, and whose objects grow by copies within it."""

    least_extended = LEAST_PART_BYTES

    def __init__(self, place: ObjectPlace, *, seconds: float) -> None:
        """Connect with the settings of the environment; each attempt at a request takes at most *seconds*."""
        super().__init__(place.store, place.root)
        self._name = parts_of(place.root).host
        endpoint = os.environ.get("AWS_ENDPOINT")
        session = _session()
        is_custom = endpoint or os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT_URL_S3")
        self._client: Any = session.client(
            "s3",
            endpoint_url=endpoint,
            region_name=os.environ.get("AWS_REGION") or session.region_name or "us-east-1",
            config=Config(
                connect_timeout=min(_CONNECT_SECONDS, seconds),
                read_timeout=seconds,
                retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
                # Other servers than that of Amazon refuse the checksums that are newer.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                s3={"addressing_style": "path" if is_custom else "auto"},
            ),
        )
        self._looked_at: set[str] = set()

    def can_extend(self, entry: Entry) -> bool:
        """See Target."""
        return entry.size >= self.least_extended

    def put(self, span: Span, address: str, known: Entry | None) -> Entry:
        """See Target."""
        if span.size > _PART_BYTES:
            return self._in_parts(None, span, address, known)
        with _reported(address):
            made = self._client.put_object(**self._named(address), Body=span.data(), **_condition(known))
            return Entry(address, span.size, made["ETag"])

    def extend(self, base: Entry, span: Span, address: str, known: Entry | None) -> Entry:
        """See Target."""
        return self._in_parts(base, span, address, known)

    def copy(self, base: Entry, address: str) -> None:
        """See Target."""
        if base.size:
            self._in_parts(base, None, address, None)
        else:
            with _reported(address):
                self._client.put_object(**self._named(address), Body=b"", **_condition(None))

    def _in_parts(self, base: Entry | None, span: Span | None, address: str, known: Entry | None) -> Entry:
        named = self._named(address)
        self._abort_stale(named["Key"])
        with _reported(address):
            upload = {**named, "UploadId": self._client.create_multipart_upload(**named)["UploadId"]}
        try:
            with _reported(address):
                tags = [*self._copied(base, upload), *self._sent(span, upload, base)]
                parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
                made = self._client.complete_multipart_upload(
                    **upload, MultipartUpload={"Parts": parts}, **_condition(known)
                )
                tag = made["ETag"]
        except BaseException:
            with contextlib.suppress(ClientError, BotoCoreError):
                self._client.abort_multipart_upload(**upload)
            raise
        size = (base.size if base else 0) + (span.size if span else 0)
        return Entry(address, size, tag)

    def _copied(self, base: Entry | None, upload: dict[str, Any]) -> Iterator[str]:
        """Copy *base* into the first parts of *upload*, and yield their tags."""
        if base is None:
            return
        starts = _copied_starts(base)
        for number, (start, end) in enumerate(zip(starts, [*starts[1:], base.size], strict=True), 1):
            done = self._client.upload_part_copy(
                **upload,
                PartNumber=number,
                CopySource=self._named(base.address),
                CopySourceIfMatch=base.identity,
                CopySourceRange=f"bytes={start}-{end - 1}",
            )
            yield done["CopyPartResult"]["ETag"]

    def _sent(self, span: Span | None, upload: dict[str, Any], base: Entry | None) -> Iterator[str]:
        """Send *span* as the parts of *upload* after those of *base*, and yield their tags."""
        if span is None:
            return
        first = 1 if base is None else 1 + len(_copied_starts(base))
        size = max(_PART_BYTES, -(-span.size // _MOST_PARTS))
        for number, data in enumerate(span.blocks(size), first):
            yield self._client.upload_part(**upload, PartNumber=number, Body=data)["ETag"]

    def _abort_stale(self, key: str) -> None:
        """Give up what a process that was killed has left of an upload: its parts cost money. Once for each object."""
        if key in self._looked_at:
            return
        self._looked_at.add(key)
        # Without the permission for it, or on a server that cannot do it, they stay.
        with contextlib.suppress(ClientError, BotoCoreError, KeyError):
            found = self._client.list_multipart_uploads(Bucket=self._name, Prefix=key).get("Uploads", [])
            before = datetime.now(UTC) - _STALE
            for upload in found:
                if upload["Key"] == key and upload["Initiated"] < before:
                    self._client.abort_multipart_upload(Bucket=self._name, Key=key, UploadId=upload["UploadId"])

    def _named(self, address: str) -> dict[str, Any]:
        return {"Bucket": self._name, "Key": parts_of(address).key}


@cache
def _session() -> Any:
    """Return what reads the settings; once, since it loads much."""
    return boto3.Session()


def _copied_starts(base: Entry) -> list[int]:
    """Return where the parts begin that *base* is copied in."""
    starts = list(range(0, base.size, _MOST_COPIED_BYTES))
    if len(starts) > 1 and base.size - starts[-1] < LEAST_PART_BYTES:
        starts.pop()
    return starts


def _condition(known: Entry | None) -> dict[str, str]:
    return {"IfNoneMatch": "*"} if known is None else {"IfMatch": known.identity}


@contextlib.contextmanager
def _reported(address: str) -> Iterator[None]:
    """Raise what boto3 raises as an error of the place, without addresses, answers and keys, which may be secret."""
    try:
        yield
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        code = error.response.get("Error", {}).get("Code", "")
        if code in _CHANGED_CODES or status == HTTPStatus.PRECONDITION_FAILED:
            raise ChangedError(address) from None
        words = HTTPStatus(status).phrase if status in list(HTTPStatus) else ""
        number = EACCES if status in _REFUSED else EIO
        raise PlaceError(address, fact_of(f"status code: {status} {words}"), number=number) from None
    except (NoCredentialsError, PartialCredentialsError):
        fact = "no credentials found; set them as for the program of the store, for example AWS_ACCESS_KEY_ID"
        raise PlaceError(address, fact, number=EACCES) from None
    except (ConnectTimeoutError, ReadTimeoutError):
        raise PlaceError(address, fact_of("timed out")) from None
    except KeyError as error:
        raise MalformedAnswerError(address, str(error.args[0])) from None
    except ResponseParserError:
        raise MalformedAnswerError(address, "readable content") from None
    except BotoCoreError:
        raise PlaceError(address, fact_of("Connect")) from None
