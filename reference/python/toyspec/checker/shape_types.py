"""Makes the types that decode lines of one shape: see :mod:`toyspec.checker.shapes`."""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import chain, repeat
from operator import attrgetter, is_not
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, UnsetType

from toyspec.generated.fields import FIELDS
from toyspec.generated.limits import MAX_SAFE_INTEGER
from toyspec.generated.streams import STREAMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from toyspec.findings import Profile

_NUMBER = Union[Annotated[int, Meta(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)], float]  # noqa: UP007
_UNKNOWN = Union[_NUMBER, str, bool, None]  # noqa: UP007
_UNKNOWN_LIKE: dict[Any, Any] = {int: _NUMBER, float: _NUMBER, str: str, bool: bool}


class Traits(NamedTuple):
    """What the records of one kind have in common."""

    always: frozenset[str]
    """The keys that each record has, the tag included."""
    ever: tuple[str, ...]
    """All keys, in the order in which they were first seen."""
    nulls: frozenset[str]
    """The keys with a value that was null, or held a null, at least once."""
    whole_floats: frozenset[str]
    """The keys with an integer in their value that had a fraction or an exponent at least once."""
    same: tuple[tuple[str, Any], ...]
    """By key, what its values share: a word, the keys of an object, or the type of an unknown key."""


class Shape(NamedTuple):
    """What is known of all records of one type."""

    kind: str
    keys: int
    """Number of keys that each record has, the tag and the keys of objects in it included."""
    colons: int
    """Number of colons in these keys."""
    optional: tuple[tuple[str, int, int], ...]
    """Attributes that some records have, each with its number of keys and the number of colons in these."""
    maps: tuple[str, ...]
    """Attributes that hold objects with keys of their own."""
    texts: tuple[str, ...]
    """Attributes that may hold strings with colons."""
    unknown: dict[str, str]
    """The keys that the schema does not declare, by attribute."""
    nulls: frozenset[str]
    """Attributes that may be null or hold a null."""
    constants: dict[str, Any]
    """Attributes that are equal in all records; UNSET for those that none has."""

    def number_with(self, name: str, records: Sequence[Any]) -> int:
        """Return how many *records* of this shape have the attribute *name*."""
        is_optional = any(name == optional for optional, _, _ in self.optional)
        return _number_set(name, records) if is_optional else len(records)

    def varying(self, records: Sequence[Any]) -> int:
        """Return the number of optional keys in *records* of this shape."""
        found = 0
        for name, keys, _ in self.optional:
            found += keys * _number_set(name, records)
        for name in self.maps:
            found += sum(map(len, filter(None, map(attrgetter(name), records))))
        return found

    def colons_in(self, records: Sequence[Any]) -> int:
        """Return the number of colons in the keys and strings of *records* of this shape."""
        found = self.colons * len(records)
        for name, _, colons in self.optional:
            if colons:
                found += colons * _number_set(name, records)
        for name in self.texts:
            found += _colons_in(map(attrgetter(name), records))
        for name in self.maps:
            found += _colons_in(chain.from_iterable(filter(None, map(attrgetter(name), records))))
        return found


def made_type(strict: type[msgspec.Struct], traits: Traits, profile: Profile) -> tuple[type[msgspec.Struct], Shape]:
    """Return the type of lines that have *traits*, and its shape; *strict* takes any record of their kind."""
    hints = _hints(strict)
    # Another word in a field of any text does not make another type.
    same = tuple((key, trait) for key, trait in traits.same if type(trait) is not str or _is_choice(hints.get(key)))
    return _made_type(strict, traits._replace(same=same), profile)


@lru_cache(maxsize=256)
def _made_type(strict: type[msgspec.Struct], traits: Traits, profile: Profile) -> tuple[type[msgspec.Struct], Shape]:
    tag = STREAMS[profile]["tag"]
    kind = str(strict.__struct_config__.tag or "entry")
    declared = FIELDS[profile][kind]
    names = [key for key in traits.ever if key != tag]
    attributes = {key: key if key in declared else f"unknown_{index}" for index, key in enumerate(names)}
    parts = {key: _part_type(key, strict, key in declared, traits) for key in names}
    cls = msgspec.defstruct(
        f"Shape_{kind}",
        [
            (attributes[key], parts[key]) if key in traits.always else (attributes[key], parts[key] | UnsetType, UNSET)
            for key in names
        ],
        rename={attribute: key for key, attribute in attributes.items()},
        tag_field=tag,
        tag=None if tag is None else kind,
        # The attributes that rules read and no line has.
        namespace={key: UNSET for key in declared if key not in traits.ever and key != tag},
        forbid_unknown_fields=True,
        kw_only=True,
        gc=False,
    )
    return cls, _shape(kind, traits, attributes, parts, declared)


@lru_cache(maxsize=64)
def decoder(types: tuple[type[msgspec.Struct], ...], tag: str | None) -> Callable[[bytes], Any]:
    """Return the function that decodes a line into one of *types*."""
    if tag is None:
        return msgspec.json.Decoder(types[0]).decode
    # Only a union requires the tag; no line has this one.
    unused = msgspec.defstruct("Unused", [], tag_field=tag, tag="\0")
    return msgspec.json.Decoder(Union[(*types, unused)]).decode


@cache
def _hints(strict: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the types of the members of *strict*, without UNSET: the types of keys that are present."""
    return {key: _without(UnsetType, hint) for key, hint in get_type_hints(strict, include_extras=True).items()}


def _shape(kind: str, traits: Traits, attributes: dict[str, str], parts: dict[str, Any], declared: Any) -> Shape:
    # A key counts with the keys of the object that is its value.
    held = {key: (key, *(part.__struct_encode_fields__ if _is_struct(part) else ())) for key, part in parts.items()}
    required = [name for key in traits.always for name in held.get(key, (key,))]
    words = {key: same for key, same in traits.same if type(same) is str and key in traits.always - traits.nulls}
    never = {key: UNSET for key in declared if key not in traits.ever}
    return Shape(
        kind,
        keys=len(required),
        colons="".join(required).count(":"),
        optional=tuple(
            (attributes[key], len(names), "".join(names).count(":"))
            for key, names in held.items()
            if key not in traits.always
        ),
        maps=tuple(key for key, part in parts.items() if get_origin(part) is dict),
        texts=tuple(attributes[key] for key, part in parts.items() if _may_be_text(part)),
        unknown={attribute: key for key, attribute in attributes.items() if key not in declared},
        nulls=frozenset(attributes[key] for key in traits.nulls),
        constants=never | words,
    )


def _part_type(key: str, strict: type[msgspec.Struct], is_declared: bool, traits: Traits) -> Any:
    """Return the type of the values of *key*."""
    same = dict(traits.same).get(key)
    if not is_declared:
        return _UNKNOWN_LIKE.get(same, _UNKNOWN)
    hint = _hints(strict)[key]
    if key in traits.whole_floats:
        hint = _with_whole_floats(hint)
    if key in traits.nulls:
        return hint
    hint = _without(type(None), hint)
    if type(same) is str:
        return Literal[same]
    if get_origin(hint) is not dict:
        return hint
    mapping: Any = dict
    value = _without(type(None), get_args(hint)[1])
    if same is None:
        return mapping[str, value]
    names = {f"key_{index}": name for index, name in enumerate(same)}
    fields = [(name, value) for name in names]
    return msgspec.defstruct("Map", fields, rename=names, forbid_unknown_fields=True, kw_only=True, gc=False)


def _with_whole_floats(hint: Any) -> Any:
    """Return *hint* with whole floats in place of its integers; these are safe, so that no digit is lost."""
    args = get_args(hint)
    if get_origin(hint) is Annotated:
        plain, meta = args
        if plain is int:
            return Annotated[float, Meta(ge=float(meta.ge), le=float(meta.le), multiple_of=1.0)]
        return Annotated[_with_whole_floats(plain), meta]
    if get_origin(hint) in (list, dict):
        origin: Any = get_origin(hint)
        return origin[tuple(map(_with_whole_floats, args))]
    return Union[tuple(map(_with_whole_floats, args))] if args and get_origin(hint) is not Literal else hint  # noqa: UP007


def _number_set(name: str, records: Sequence[Any]) -> int:
    return sum(map(is_not, map(attrgetter(name), records), repeat(UNSET)))


def _colons_in(values: Iterable[Any]) -> int:
    """Return the number of colons in those of *values* that are strings."""
    texts = list(values)
    try:
        return "".join(texts).count(":")
    except TypeError:
        return sum(text.count(":") for text in texts if type(text) is str)


def _without(part: type, hint: Any) -> Any:
    """Return *hint* without the alternative *part*."""
    args = get_args(hint)
    return Union[tuple(arg for arg in args if arg is not part)] if part in args else hint  # noqa: UP007


def _is_struct(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, msgspec.Struct)


def _is_choice(hint: Any) -> bool:
    """Return whether *hint* allows only certain words."""
    return get_origin(hint) is Literal


def _may_be_text(hint: Any) -> bool:
    """Return whether *hint* allows any string as a value; keys of objects do not count."""
    if get_origin(hint) is dict:
        return False
    return hint is str or (not _is_choice(hint) and any(map(_may_be_text, get_args(hint))))
