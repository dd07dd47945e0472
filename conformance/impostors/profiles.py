"""Wrong about the profile that a stream follows: see spec/model.md."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from conformance.impostors.impostor import Impostor
from conformance.miniature.adapter import Miniature
from conformance.miniature.reading import Reading, Stream

if TYPE_CHECKING:
    from conformance.miniature.json_text import Value

Message = dict[str, Any]


class IgnoresTheProfileItIsTold(Miniature):
    """Follows the profile that the stream suggests, whatever its user names."""

    class reading_type(Reading):
        def open(self, data: bytes, *, name: str = "", profile: str | None = None, manifest: bool = False) -> Stream:
            return super().open(data, name=name, manifest=manifest)


class PrefersType(Miniature):
    """Takes a stream for kaun/v1 whose first record has both kind and type."""

    class reading_type(Reading):
        def detect(self, first: Value, *, manifest: bool) -> str | None:
            tag = first.get("type")
            if tag is not None and tag.text == "scalar":
                return "kaun/v1"
            return super().detect(first, manifest=manifest)


class TakesAnyKind(Miniature):
    """Takes every stream for toy/v1 whose first record has the key kind."""

    class reading_type(Reading):
        def detect(self, first: Value, *, manifest: bool) -> str | None:
            return "toy/v1" if first.get("kind") is not None else super().detect(first, manifest=manifest)


class TakesAnyType(Miniature):
    """Takes every stream for kaun/v1 whose first record has the key type and no kind."""

    class reading_type(Reading):
        def detect(self, first: Value, *, manifest: bool) -> str | None:
            found = super().detect(first, manifest=manifest)
            return "kaun/v1" if found is None and first.get("type") is not None else found


class TakesAnythingForToy(Miniature):
    """Takes a stream for toy/v1 whose first record says nothing."""

    class reading_type(Reading):
        def detect(self, first: Value, *, manifest: bool) -> str | None:
            return super().detect(first, manifest=manifest) or "toy/v1"


class IgnoresTheManifest(Miniature):
    """Does not look for a manifest beside the stream."""

    class reading_type(Reading):
        def open(self, data: bytes, *, name: str = "", profile: str | None = None, manifest: bool = False) -> Stream:
            return super().open(data, name=name, profile=profile)


class TakesAnyRunJsonForAManifest(Miniature):
    """Takes every run.json beside a stream for a manifest, a copy of run_start too."""

    def read(self, request: Message) -> Message:
        """Answer as if the file said nothing else."""
        path = os.path.join(request.get("directory", ""), "run.json")
        if "directory" in request and os.path.exists(path):
            with open(path, "wb") as file:
                file.write(b'{"run_id":"x"}')
        return super().read(request)


class IgnoresTheName(Miniature):
    """Does not look at the name of the file where no record tells the profile."""

    class reading_type(Reading):
        def detect_by_name(self, name: str, *, manifest: bool, has_gap: bool) -> str | None:
            return super().detect_by_name("", manifest=manifest, has_gap=has_gap)


class KeepsTheEndingOfTheName(Miniature):
    """Takes the ending .gz for a part of the name."""

    class reading_type(Reading):
        def detect_by_name(self, name: str, *, manifest: bool, has_gap: bool) -> str | None:
            compressed = name.endswith(".gz")
            return super().detect_by_name(f"{name}x" if compressed else name, manifest=manifest, has_gap=has_gap)


class TakesEveryFragmentForForeign(Miniature):
    """Gives no profile to a stream without record and gap whose name is not that of a stream."""

    class reading_type(Reading):
        def detect_by_name(self, name: str, *, manifest: bool, has_gap: bool) -> str | None:
            return super().detect_by_name(name, manifest=manifest, has_gap=True)


class RefusesForeignStreams(Miniature):
    """Gives no records of a stream without profile."""

    def read(self, request: Message) -> Message:
        """Answer without records."""
        answer = super().read(request)
        return answer | {"records": [], "count": 0} if answer["profile"] is None else answer


def _impostor(make: type[Miniature], proves: str, reason: str) -> Impostor:
    return Impostor(make=make, role="reader", proves=proves, reason=reason)


ALL: tuple[Impostor, ...] = (
    _impostor(IgnoresTheProfileItIsTold, "model/profile-named", "profile is"),
    _impostor(PrefersType, "model/profile-from-record", "profile is"),
    _impostor(TakesAnyKind, "model/profile-from-record", "profile is toy/v1, expected None"),
    _impostor(TakesAnyType, "model/profile-from-record", "profile is kaun/v1, expected None"),
    _impostor(TakesAnythingForToy, "model/profile-from-manifest", "profile is toy/v1, expected None"),
    _impostor(IgnoresTheManifest, "model/profile-from-manifest", "profile is None, expected kaun/v1"),
    _impostor(TakesAnyRunJsonForAManifest, "model/profile-from-manifest", "profile is kaun/v1, expected None"),
    _impostor(IgnoresTheName, "model/profile-from-name", "profile is"),
    _impostor(KeepsTheEndingOfTheName, "model/profile-from-name", "profile is"),
    _impostor(TakesEveryFragmentForForeign, "model/profile-from-name", "profile is None, expected toy/v1"),
    _impostor(RefusesForeignStreams, "model/no-profile", "records, expected"),
)
