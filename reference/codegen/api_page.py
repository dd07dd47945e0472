"""Makes the reference page of the Python library from its signatures and docstrings."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = "docs/reference/python.md"

Definition = ast.ClassDef | ast.FunctionDef

_HEAD = """\
---
description: "Everything that can be imported from toyspec: every function and class with its parameters."
---
# Python

<!-- Made by `make generate` from toyspec/; do not edit. -->

Everything that can be imported from `toyspec`, by subject. What is not listed here may change without notice.
Most programs need these calls:

```python
import toyspec

with toyspec.start_run("runs", config={"lr": 3e-4}) as run:  # log a run
    run.step(loss=2.5)

loss = toyspec.history(run.directory, "loss")  # the values of a metric, by step
runs = toyspec.list_runs("runs")  # what every run was, and how it ended
report = toyspec.check("runs")  # what is wrong with their logs
```
"""


SUBJECTS: dict[str, tuple[str, ...]] = {
    "Log a run": (
        *("start_run", "log", "RunWriter", "Image", "Audio", "Video", "Histogram", "Table", "File"),
        *("System", "Health", "Sync", "Mirror", "Selecting", "MetricsLog", "grad_norm"),
    ),
    "Read one run": (
        "read",
        "history",
        "History",
        "open_run",
        "Run",
        "RunFacts",
        "MetricFacts",
        "KaunRun",
        "Row",
        "Record",
        "Reading",
    ),
    "Follow a live run": ("follow", "Follower", "TailEvent"),
    "List and compare runs": ("list_runs", "Runs", "ranks_of", "Ranks", "annotate", "Annotations"),
    "Show runs in a notebook": ("report", "ReportFrame"),
    "Watch over a training": ("check_health", "HealthEvaluator", "HealthAlert"),
    "Catalogs of many runs": ("build_catalog", "update_catalog", "Catalog", "CatalogReport"),
    "Check, repair and seal": (
        *("check", "check_bytes", "Report", "FileReport", "Finding", "ReadReport", "Gap", "PathError"),
        *("StreamChecker", "CheckOptions", "repair", "seal"),
    ),
    "Import and export": ("import_runs", "export_runs", "ConversionReport", "RunConversion"),
    "Logs of other programs": ("DialectChoice", "DialectUse"),
    "Progress and processes": ("Watch", "Workers"),
}
"""What is for one subject, in the order in which a user needs it; exceptions come last."""


def api_page() -> str:
    """Return the page: every public name with its signature and docstring, by subject."""
    package = import_module("toyspec")
    values = {name: getattr(package, name) for name in package.__all__ if not name.startswith("_")}
    errors = {name: value for name, value in sorted(values.items()) if _is_error(value)}
    groups = {title: {name: values[name] for name in names} for title, names in SUBJECTS.items()}
    placed = {*errors, *(name for names in SUBJECTS.values() for name in names)}
    if placed != set(values):
        raise LookupError(f"these names of toyspec have no subject, or are gone: {sorted(placed ^ set(values))}")
    sections = (
        f"## {title}\n\n" + "\n".join(_entry(name, value) for name, value in group.items())
        for title, group in {**groups, "Exceptions": errors}.items()
    )
    return "\n".join([_HEAD, *sections])


def _is_error(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, BaseException)


def _entry(name: str, value: Any) -> str:
    definition = _definition(value.__module__, value.__qualname__)
    parts = [f"### {name}\n", f"```py\n{_signature(definition)}\n```\n", f"{_markdown(definition)}\n"]
    if isinstance(definition, ast.ClassDef):
        # A member of a class is documented by the class itself, else by the nearest one that it is made from.
        members: dict[str, str] = {}
        for each in (definition, *_bases(value)):
            members = dict([*_fields(each), *_methods(each)]) | members
        if members:
            parts.append("| member | meaning |\n|---|---|\n" + "\n".join(members.values()) + "\n")
    return "\n".join(parts)


def _bases(value: type) -> Iterator[ast.ClassDef]:
    """Yield what the class *value* is made from in toyspec, the nearest first, without other entries."""
    named = {name for names in SUBJECTS.values() for name in names}
    for base in value.__mro__[1:]:
        if base.__module__.startswith("toyspec.") and base.__name__ not in named:
            definition = _definition(base.__module__, base.__qualname__)
            if isinstance(definition, ast.ClassDef):
                yield definition


@cache
def _module(name: str) -> ast.Module:
    path = import_module(name).__file__
    assert path is not None, f"{name} is a module with a file"
    return ast.parse(Path(path).read_text(encoding="utf-8"))


def _definition(module: str, name: str) -> Definition:
    for node in _module(module).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node
    raise LookupError(f"{module} defines no {name}")


def _signature(definition: Definition) -> str:
    """Return the signature of *definition*, one parameter per line if there are many."""
    if isinstance(definition, ast.FunctionDef):
        return _call(definition, prefix="")
    initializer = _initializer(definition)
    if initializer is not None:
        return _call(initializer, prefix=definition.name)
    bases = ", ".join(ast.unparse(base) for base in definition.bases)
    return f"class {definition.name}({bases})" if bases else f"class {definition.name}"


def _initializer(definition: ast.ClassDef) -> ast.FunctionDef | None:
    methods = (node for node in definition.body if isinstance(node, ast.FunctionDef))
    return next((node for node in methods if node.name == "__init__"), None)


def _call(function: ast.FunctionDef, *, prefix: str) -> str:
    arguments = ast.unparse(function.args)
    if arguments == "self" or arguments.startswith("self, "):
        arguments = arguments.removeprefix("self").removeprefix(", ")
    result = f" -> {ast.unparse(function.returns)}" if function.returns and not prefix else ""
    name = prefix or function.name
    line = f"{name}({arguments}){result}"
    if len(line) <= 100:
        return line
    parts = "".join(f"    {part},\n" for part in _split(arguments))
    return f"{name}(\n{parts}){result}"


def _split(arguments: str) -> list[str]:
    """Return the parameters in *arguments*; brackets and quotes may contain commas."""
    parts, depth, quote = [""], 0, ""
    for character in arguments:
        if character in "'\"":
            quote = "" if quote == character else quote or character
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _markdown(node: Definition) -> str:
    """Return the docstring of *node* as Markdown; for a class, followed by what its call does."""
    initializer = _initializer(node) if isinstance(node, ast.ClassDef) else None
    texts = [ast.get_docstring(part) for part in (node, initializer) if part is not None]
    return "\n\n".join(_flowing(text) for text in texts if text)


def _flowing(text: str) -> str:
    text = re.sub(
        r"::\n\n((?:    .*\n?|\n)+)", lambda match: f"\n\n```text\n{textwrap.dedent(match[1]).rstrip()}\n```\n", text
    )
    return text.replace("``", "`")


def _fields(definition: ast.ClassDef) -> Iterator[tuple[str, str]]:
    body = definition.body
    for node, follower in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not node.target.id.startswith("_"):
            yield node.target.id, _row(f"{node.target.id}: {ast.unparse(node.annotation)}", _text(follower))


def _text(node: ast.stmt | None) -> str:
    """Return *node*'s text if it is a docstring, otherwise nothing."""
    value = node.value if isinstance(node, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def _methods(definition: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for node in definition.body:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        summary = (ast.get_docstring(node) or "").partition("\n\n")[0]
        decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
        if decorators & {"property", "cached_property"}:
            yield node.name, _row(f"{node.name}: {ast.unparse(node.returns) if node.returns else ''}", summary)
        else:
            given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            names = [argument.arg for argument in given if argument.arg not in {"self", "cls"}]
            names += [] if node.args.kwarg is None else [f"**{node.args.kwarg.arg}"]
            yield node.name, _row(f"{node.name}({', '.join(names)})", summary)


def _row(name: str, meaning: str) -> str:
    flat = " ".join(_flowing(meaning).split())
    return "| `{}` | {} |".format(*(text.replace("|", "\\|") for text in (name, flat)))
