"""Mutants of the profile of a stream: see spec/model.md."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from conformance.mutants.mutant import Mutant
from conformance.oracle.adapter import Oracle
from conformance.oracle.bundles import content
from conformance.oracle.reading import Reading, Stream

if TYPE_CHECKING:
    from conformance.oracle.json_text import Value

Message = dict[str, Any]


class IgnoresTheGivenProfile(Oracle):
    """Detects the profile even if the user names one."""

    class reading_type(Reading):
        def open(self, data: bytes, *, name: str | None, profile: str | None = None, manifest: bool = False) -> Stream:
            return super().open(data, name=name, manifest=manifest)


class PrefersType(Oracle):
    """Detects kaun/v1 if the first record has both kind and type."""

    class reading_type(Reading):
        def detect(self, first: Value, *, manifest: bool) -> str | None:
            tag = first.get("type")
            if tag is not None and tag.text == "scalar":
                return "kaun/v1"
            return super().detect(first, manifest=manifest)


class TakesAnyKind(Oracle):
    """Detects toy/v1 if the first record has the key kind."""

    class reading_type(Reading):
        def detect(self, first: Value, *, manifest: bool) -> str | None:
            return "toy/v1" if first.get("kind") is not None else super().detect(first, manifest=manifest)


class TakesAnyType(Oracle):
    """Detects kaun/v1 if the first record has the key type and no kind."""

    class reading_type(Reading):
        def detect(self, first: Value, *, manifest: bool) -> str | None:
            found = super().detect(first, manifest=manifest)
            return "kaun/v1" if found is None and first.get("type") is not None else found


class TakesAnythingForToy(Oracle):
    """Detects toy/v1 if the first record has no known key."""

    class reading_type(Reading):
        def detect(self, first: Value, *, manifest: bool) -> str | None:
            return super().detect(first, manifest=manifest) or "toy/v1"


class IgnoresTheManifest(Oracle):
    """Does not look for a manifest beside the stream."""

    class reading_type(Reading):
        def open(self, data: bytes, *, name: str | None, profile: str | None = None, manifest: bool = False) -> Stream:
            return super().open(data, name=name, profile=profile)


class TakesAnyRunJsonForAManifest(Oracle):
    """Accepts every run.json as a manifest, even a copy of run_start."""

    def read(self, request: Message) -> Message:
        """Answer as if every run.json were a manifest."""
        path = os.path.join(request.get("directory", ""), "run.json")
        if "directory" in request and os.path.exists(path):
            with open(path, "wb") as file:
                file.write(b'{"run_id":"x"}')
        return super().read(request)


class WantsATextAsRunId(Oracle):
    """Takes run.json for a manifest only if its run_id is a text."""

    class reading_type(Reading):
        has_text = True

        def open(self, data: bytes, *, name: str | None, profile: str | None = None, manifest: bool = False) -> Stream:
            return super().open(data, name=name, profile=profile, manifest=manifest and self.has_text)

    def read(self, request: Message) -> Message:
        """Answer as if a manifest with another run_id were none."""
        path = os.path.join(request.get("directory", ""), "run.json")
        self.reading_type.has_text = not os.path.isfile(path) or b'"run_id":"' in (content(path) or b"")
        return super().read(request)


class IgnoresTheName(Oracle):
    """Ignores the name of the file if no record decides the profile."""

    class reading_type(Reading):
        def detect_by_name(self, name: str | None, *, manifest: bool, has_gap: bool) -> str | None:
            return super().detect_by_name("", manifest=manifest, has_gap=has_gap)


class KeepsTheEndingOfTheName(Oracle):
    """Treats the ending .gz as part of the name."""

    class reading_type(Reading):
        def detect_by_name(self, name: str | None, *, manifest: bool, has_gap: bool) -> str | None:
            compressed = (name or "").endswith(".gz")
            return super().detect_by_name(f"{name}x" if compressed else name, manifest=manifest, has_gap=has_gap)


class TakesEveryFragmentForForeign(Oracle):
    """Gives no profile to an empty stream with an unusual name."""

    class reading_type(Reading):
        def detect_by_name(self, name: str | None, *, manifest: bool, has_gap: bool) -> str | None:
            return super().detect_by_name(name, manifest=manifest, has_gap=True)


class RefusesForeignStreams(Oracle):
    """Gives no records of a stream without profile."""

    def read(self, request: Message) -> Message:
        """Answer without records."""
        answer = super().read(request)
        return answer | {"records": [], "count": 0} if answer["profile"] is None else answer


def _mutant(make: type[Oracle], proves: str, reason: str) -> Mutant:
    return Mutant(make=make, role="reader", proves=proves, reason=reason)


ALL: tuple[Mutant, ...] = (
    _mutant(IgnoresTheGivenProfile, "model/profile-named", "profile is"),
    _mutant(PrefersType, "model/profile-from-record", "profile is"),
    _mutant(TakesAnyKind, "model/profile-from-record", "profile is toy/v1, expected None"),
    _mutant(TakesAnyType, "model/profile-from-record", "profile is kaun/v1, expected None"),
    _mutant(TakesAnythingForToy, "model/profile-from-manifest", "profile is toy/v1, expected None"),
    _mutant(IgnoresTheManifest, "model/profile-from-manifest", "profile is None, expected kaun/v1"),
    _mutant(WantsATextAsRunId, "model/profile-from-manifest", "profile is"),
    _mutant(TakesAnyRunJsonForAManifest, "model/profile-from-manifest", "profile is kaun/v1, expected None"),
    _mutant(IgnoresTheName, "model/profile-from-name", "profile is"),
    _mutant(KeepsTheEndingOfTheName, "model/profile-from-name", "profile is"),
    _mutant(TakesEveryFragmentForForeign, "model/profile-from-name", "profile is None, expected toy/v1"),
    _mutant(RefusesForeignStreams, "model/no-profile", "records, expected"),
)
