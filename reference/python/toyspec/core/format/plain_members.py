r"""Skips members of an open JSON object or array that cannot have a finding, many at a time.

A member is plain if its value is a scalar, or is shallow and has only scalars in it, and if no part of it can break a
rule: no ``\ud800``, no number that may overflow binary64, no object that could repeat a key. A key is plain if it has
no escape. The scanner reads all other members.
"""

from __future__ import annotations

import re

PLAIN_DEPTH = 2
"""Maximum number of nested objects and arrays in a plain value."""

_MANY = 256
_SPACE = rb"[ \t\r\n]*+"
_TEXT = rb'[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+'
_NUMBER = rb"-?+(?:0|[1-9][0-9]{0,199}+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]{1,2}+)?+(?![0-9.eE])"
_SCALAR = rb'"%b"|%b|true|false|null' % (_TEXT, _NUMBER)
_LEAF = rb"(?:%b|\{%b\}|\[%b\])" % (_SCALAR, _SPACE, _SPACE)
_LIST = rb"\[%b%b%b(?:,%b%b%b)*+\]" % (_SPACE, _LEAF, _SPACE, _SPACE, _LEAF, _SPACE)
_PAIR = rb'\{%b"%b"%b:%b%b%b\}' % (_SPACE, _TEXT, _SPACE, _SPACE, _LEAF, _SPACE)
_VALUE = rb"(?:%b|%b|%b)" % (_LEAF, _LIST, _PAIR)
_BEHIND = rb"%b,%b" % (_SPACE, _SPACE)
_KEY = rb'"%%b"%b:%b' % (_SPACE, _SPACE)
_NAME = rb'[^"\\\x00-\x1f]*+'

_ITEM = re.compile(_VALUE + _BEHIND)
_ITEMS = re.compile(rb"(?:%b%b){1,%d}+" % (_VALUE, _BEHIND, _MANY))
_MEMBER_KEY = re.compile((_KEY % (rb"(%b)" % _NAME)) + _VALUE + _BEHIND)
_MEMBERS = re.compile(rb"(?:%b%b%b){1,%d}+" % (_KEY % _NAME, _VALUE, _BEHIND, _MANY))


def pass_items(data: bytes, start: int) -> tuple[int, int]:
    """Return the end of the plain items of an array from *start* on, commas included, and their number."""
    end, count = start, 0
    while found := _ITEMS.match(data, end):
        count += len(_ITEM.findall(data, end, found.end()))
        end = found.end()
    return end, count


def pass_members(data: bytes, start: int, keys: set[bytes], *, repeated: bool) -> tuple[int, int, int]:
    """Return the end of the plain members of an object from *start* on, commas included, and add their keys.

    If *repeated* keys may be skipped, the last number is their count. Else they are left to the scanner with the
    members near them, and the second number is the end of these.
    """
    end, repeats = start, 0
    while found := _MEMBERS.match(data, end):
        names = _MEMBER_KEY.findall(data, end, found.end())
        new = set(names) - keys
        if len(new) < len(names) and not repeated:
            return end, found.end(), 0
        repeats += len(names) - len(new)
        keys |= new
        end = found.end()
    return end, end, repeats
