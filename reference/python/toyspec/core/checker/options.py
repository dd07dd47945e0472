"""The options of a check."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from toyspec.core.errors import ToyspecError
from toyspec.core.findings import Profile
from toyspec.core.generated.limits import MAX_LINE_BYTES
from toyspec.core.generated.rules import ORDER
from toyspec.core.reading.log_detection import DialectChoice


class UnknownRuleError(ToyspecError, ValueError):
    """The options name a rule that does not exist; ``name`` is the text given."""

    def __init__(self, name: str) -> None:
        super().__init__(f"unknown rule {name!r}; `toyspec explain` lists all rules")
        self.name = name


class CheckOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to check: which profile, which rules, which limit.

    A rule that is named in *select* or *ignore* and does not exist raises UnknownRuleError.
    """

    profile: Profile | None = None
    """The profile to check against; None detects it from the first readable record."""
    own_profile: str | None = None
    """The directory of a user's profile, which takes the place of *profile*."""
    own_profiles: tuple[str, ...] = ()
    """Directories of profiles of the user, which a file without a named profile may follow."""
    dialect: str | None = "auto"
    """The dialect to read other files by: ``auto`` recognizes it, None reads no dialects."""
    keys: Any = None
    """The ``Keys`` that the user named in the log of another program; None chooses all."""
    dialects: tuple[Any, ...] = ()
    """The user's own ``Dialect`` objects, which are tried first."""
    select: frozenset[str] = frozenset()
    """Rules to report; empty means all."""
    ignore: frozenset[str] = frozenset()
    """Rules not to report; takes precedence over *select*."""
    max_line_bytes: int = MAX_LINE_BYTES
    """Longest line that is checked, in bytes without its LF."""

    @classmethod
    def of(cls, choice: DialectChoice, profile: str | None = None, **more: Any) -> CheckOptions:
        """Return the options that read files as *choice* says, or by *profile*; raise as ``profile_options`` does."""
        named = choice.profile if profile is None else profile
        read_by = {"own_profiles": choice.profiles} if named is None else profile_options(named)
        return cls(**read_by, dialect=choice.name, keys=choice.keys, dialects=choice.own, **more)

    def __post_init__(self) -> None:
        for name in sorted(self.select | self.ignore):
            if name not in ORDER:
                raise UnknownRuleError(name)

    @property
    def choice(self) -> DialectChoice:
        """The dialects and the user's profiles that may be used; no dialects if a profile is named."""
        return DialectChoice(
            None if self.profile else self.dialect,
            keys=self.keys,
            own=self.dialects,
            profile=self.own_profile,
            profiles=() if self.profile or self.own_profile else self.own_profiles,
        )

    def reports(self, rule: str) -> bool:
        """Return whether findings of *rule* are wanted."""
        return rule not in self.ignore and (not self.select or rule in self.select)


def profile_options(profile: str) -> dict[str, Any]:
    """Return the members of CheckOptions for a profile that the user named.

    Raises ProfileError for a directory that is not a profile, and ValueError for anything else.
    """
    if profile in get_args(Profile):
        return {"profile": profile}
    from toyspec.core.format.own_profiles import loaded, profile_named

    return {"own_profile": loaded(profile_named(profile)).directory}
