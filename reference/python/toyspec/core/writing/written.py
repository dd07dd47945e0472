"""What a program sets about its run, by key or by attribute: each value is written as it is set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

from toyspec.core.format.canonical import members_of


class Written(MutableMapping[str, Any]):
    """A mapping whose values are written as they are set; *known* are those that are written already."""

    def __init__(self, write: Callable[[Mapping[str, Any]], object], known: Mapping[str, Any]) -> None:
        super().__init__()
        object.__setattr__(self, "_write", write)
        object.__setattr__(self, "_members", dict(known))

    def __repr__(self) -> str:
        return repr(self._members)

    def __getitem__(self, name: str) -> Any:
        return self._members[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"{name!r} cannot be deleted: it may be in the log already")

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._members[name]
        except KeyError:
            raise AttributeError(f"the run has no {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def update(self, members: Any = (), /, *, allow_val_change: bool = True, **more: Any) -> None:
        """Set every one of *members*, a mapping or a namespace."""
        del allow_val_change  # that of wandb
        found = {str(name): value for name, value in {**members_of(members or {}), **more}.items()}
        self._members.update(found)
        self._write(found)

    def setdefaults(self, members: Any = (), /) -> None:
        """Set those of *members* that have no value yet."""
        self.update({name: value for name, value in members_of(members or {}).items() if str(name) not in self})

    def as_dict(self) -> dict[str, Any]:
        """Return what was set."""
        return dict(self._members)

    def know(self, values: Mapping[str, Any]) -> None:
        """Take *values* that were written elsewhere."""
        self._members.update(values)
