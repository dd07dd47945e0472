"""Opens the place that a folder of runs is kept in step with, by its address; packages are imported when first used."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from toyspec.errors import PlaceError
from toyspec.places.addresses import is_address, is_nearly_address, parts_of, public
from toyspec.places.opening import place_of, request_seconds

if TYPE_CHECKING:
    from toyspec.sync.targets import Target


def target_of(address: str) -> Target:
    """Return the place of *address* for writing; raise PlaceError where it cannot refuse a write that is too late."""
    scheme, host, _ = parts_of(address)
    if scheme == "file":
        from toyspec.sync.folders import Folder

        return Folder()
    if scheme == "az":
        place = place_of(address)
        try:
            from toyspec.sync.azure_containers import AzureContainer
        except ImportError:
            fact = "writing it needs azure-storage-blob; install it with `python -m pip install 'toyspec[azure]'`"
            raise PlaceError(address, fact) from None
        return AzureContainer(host, place, seconds=request_seconds())
    if scheme == "gs":
        place = place_of(address)
        from toyspec.sync.stores import ConditionalStore

        return ConditionalStore(place)
    if scheme in ("s3", "s3a"):
        place = place_of(address)
        try:
            from toyspec.sync.s3_buckets import S3Bucket
        except ImportError:
            fact = "writing it needs boto3; install it with `python -m pip install 'toyspec[sync]'`"
            raise PlaceError(address, fact) from None
        return S3Bucket(host, place, seconds=request_seconds())
    if scheme == "hf":
        raise PlaceError(address, "a commit for each poll is too many; send runs there with `toyspec push`")
    raise PlaceError(address, f"{scheme}:// cannot be kept in step; use s3://, gs://, az:// or a directory")


def destination_of(text: str) -> str:
    """Return the address that *text* names, an address or a directory of this machine, without credentials.

    Raises PlaceError for an address with one slash: a directory of that name was hardly meant.
    """
    if is_address(text):
        return public(text)
    if is_nearly_address(text):
        raise PlaceError(text, f"an address has two slashes: {text.replace(':/', '://', 1)}; ./ before it is a path")
    return f"file://{'' if os.name == 'posix' else '/'}{os.path.abspath(text).replace(os.sep, '/')}"
