"""Reads and writes the YAML that loggers write for settings: that of YAML 1.2, in which 1e-5 is a number.

PyYAML reads YAML 1.1, so its rules for what a plain scalar is are replaced.
"""

from __future__ import annotations

import re
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.sources import needed

if TYPE_CHECKING:
    from collections.abc import Callable

_INTEGER = re.compile(r"[-+]?[0-9]{1,400}$")
_FLOAT = re.compile(
    r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$"
)
_BOOLEAN = re.compile(r"(?:true|True|TRUE|false|False|FALSE)$")
_NULL = re.compile(r"(?:null|Null|NULL|~|)$")
_WORDS = frozenset(["true", "false", "null", "~", ".nan", ".inf", "-.inf"])
_NOT_IN_YAML = re.compile("[\\x7f-\\x9f\\u2028\\u2029\\ufeff\\ufffe\\uffff]")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./ -]*[A-Za-z0-9_]|[A-Za-z_]")


def parsed(text: str) -> dict[str, Any]:
    """Return the settings in *text*; keys become texts.

    Raises ImportError without PyYAML, and ValueError for what is not a map in YAML. Aliases are refused: a few lines of
    them can name a billion values.
    """
    yaml = needed("yaml", "dvclive", "reading params.yaml")
    try:
        document = yaml.load(text, Loader=_loader())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        fact = getattr(error, "problem", None) or "not YAML"
        raise ValueError(f"line {mark.line + 1}: {fact}" if mark is not None else fact) from None
    except RecursionError:
        raise ValueError("maps or lists are nested too deep") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ValueError("not a map")  # noqa: TRY004 - the text is wrong, not what the caller has passed
    return dict(document)


@cache
def _loader() -> Any:
    """Return a loader of the scalars, lists and maps of YAML 1.2."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc] # its types are not there for every user
        """See ``parsed``."""

        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - its class adds to it

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                mark = self.peek_event().start_mark
                raise yaml.composer.ComposerError(problem="an alias, which is not read", problem_mark=mark)
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
            # As they are written: 1, 1.0 and true would be one key.
            made: dict[str, Any] = {}
            for key, value in node.value:
                fact = None
                if not isinstance(key, yaml.ScalarNode):
                    fact = "a key that is not a text"
                elif key.value in made:
                    fact = "a key that comes twice"
                if fact is not None:
                    raise yaml.constructor.ConstructorError(problem=fact, problem_mark=key.start_mark)
                made[key.value] = self.construct_object(value, deep=deep)
            return made

    makers: dict[str, tuple[re.Pattern[str], Callable[[str], Any]]] = {
        "bool": (_BOOLEAN, _boolean),
        "null": (_NULL, _null),
        "int": (_INTEGER, int),
        "float": (_FLOAT, _float),
    }
    for tag, (pattern, make) in makers.items():
        name = f"tag:yaml.org,2002:{tag}"
        Loader.add_implicit_resolver(name, pattern, None)
        Loader.add_constructor(name, partial(_made, make))
    return Loader


def _made(make: Callable[[str], Any], loader: Any, node: Any) -> Any:
    return make(loader.construct_scalar(node))


def _boolean(text: str) -> bool:
    return text.lower() == "true"


def _null(text: str) -> None:
    del text


def _float(text: str) -> float:
    return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))


def written(config: dict[str, Any], indent: str = "") -> str:
    """Return *config* as YAML; lists and texts that need quotes are in JSON, which is YAML too."""
    lines = []
    for key, value in config.items():
        name = key if _PLAIN.fullmatch(key) and key.lower() not in _WORDS else _quoted(key)
        if isinstance(value, dict) and value:
            lines.append(f"{indent}{name}:\n{written(value, indent + '  ')}")
        else:
            text = _quoted(value)
            is_plain = isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS
            lines.append(f"{indent}{name}: {value if is_plain else text}\n")
    return "".join(lines)


def _quoted(value: Any) -> str:
    """Return *value* as JSON that is YAML too: without what YAML does not allow, or takes for the end of a line."""
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", msgspec.json.encode(value).decode())
