"""Mutants of the files of a bundle that records name: see spec/bundle.md."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

from conformance.mutants.mutant import Mutant
from conformance.oracle.adapter import Oracle
from conformance.oracle.bundles import Bundles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class TakesAnyHash(Oracle):
    """Writes a content under the hash that the record gives."""

    class bundles_type(Bundles):
        def with_hash(self, record: Mapping[str, Any], hashes: Iterator[str]) -> Mapping[str, Any]:
            found = super().with_hash({key: item for key, item in record.items() if key != "sha256"}, hashes)
            return {**found, **record}


class WritesThroughLinks(Oracle):
    """Writes media through a link that leads out of the bundle."""

    class bundles_type(Bundles):
        def demand_folder(self, directory: str) -> None:
            pass


class ComparesMediaTypesByLetter(Oracle):
    """Takes upper case and parameters for a part of a media type."""

    class bundles_type(Bundles):
        def extension(self, media_type: str) -> str:
            found = super().extension(media_type)
            return found if media_type == media_type.lower().partition(";")[0] else "bin"


class GuessesExtensions(Oracle):
    """Takes the second part of an unknown media type for the extension."""

    class bundles_type(Bundles):
        def extension(self, media_type: str) -> str:
            found = super().extension(media_type)
            return media_type.rpartition("/")[2] if found == "bin" else found


class NumbersMedia(Oracle):
    """Writes a file for each record, whatever its content."""

    class bundles_type(Bundles):
        def file(self, directory: str, record: Mapping[str, Any], content: bytes) -> None:
            super().file(directory, record, content)
            t = hashlib.sha256(str(record["t"]).encode()).hexdigest()
            super().file(directory, {**record, "sha256": t}, content)


class KeepsWhatACrashCut(Oracle):
    """Takes a file of the right name for the whole content."""

    class bundles_type(Bundles):
        def file(self, directory: str, record: Mapping[str, Any], content: bytes) -> None:
            name = f"{record['sha256']}.{self.extension(record['media_type'])}"
            if not os.path.exists(os.path.join(directory, "media", name)):
                super().file(directory, record, content)


class NamesArtifactsAnywhere(Oracle):
    """Writes any path of an artifact."""

    class bundles_type(Bundles):
        def demand_inside(self, record: Mapping[str, Any]) -> None:
            pass


def _mutant(make: type[Oracle], proves: str, reason: str) -> Mutant:
    return Mutant(make=make, role="writer", proves=proves, reason=reason)


ALL: tuple[Mutant, ...] = (
    _mutant(TakesAnyHash, "bundle/media-refused", "outcome is written, expected refused"),
    _mutant(WritesThroughLinks, "bundle/media-refused", "outcome is written, expected refused"),
    _mutant(ComparesMediaTypesByLetter, "bundle/media-place", r"the file 'media/\w+\.bin' changed"),
    _mutant(GuessesExtensions, "bundle/media-place", r"the file 'media/\w+\.bin' changed"),
    _mutant(NumbersMedia, "bundle/media-place", "it exists with"),
    _mutant(KeepsWhatACrashCut, "bundle/media-place", "it has 9 bytes, expected 13"),
    _mutant(NamesArtifactsAnywhere, "bundle/artifact-inside", "outcome is written, expected refused"),
)
