"""Variables that callers give to a stored stream or aggregation: names, defaults, requirement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from docgraph.exchange.data import Document
from docgraph.variables import REST

_NO_DEFAULT: Final = object()


@dataclass(slots=True)
class DeclaredVariable:
    """A variable of `avars`; it is required unless every use has a default or is optional."""

    name: str
    is_required: bool = False
    default: Any = _NO_DEFAULT  # the first one

    def describe(self) -> Document:
        """Return it for clients."""
        described: Document = {"name": self.name, "required": self.is_required}
        if self.default is not _NO_DEFAULT:
            described["default"] = self.default
        return described


def find_variables(*sources: Any) -> list[DeclaredVariable]:
    """Return the variables of templates without flaws, by name."""
    found: dict[str, DeclaredVariable] = {}
    for source in sources:
        for name, default, is_optional in _find_uses(source, frozenset()):
            one = found.setdefault(name, DeclaredVariable(name))
            if default is _NO_DEFAULT:
                one.is_required |= not is_optional
            elif one.default is _NO_DEFAULT:
                one.default = default
    return [found[name] for name in sorted(found) if not name.startswith("@")]


def _find_uses(value: Any, given: frozenset[str]) -> Iterator[tuple[str, Any, bool]]:
    """Yield name, default and optionality of each use; the names in `given` have a value there."""
    if isinstance(value, Mapping):
        if REST.argument in value:
            yield from _read_argument(value[REST.argument], given)
        elif REST.optional in value:
            yield from _read_optional(value[REST.optional], given)
        else:
            value = list(value.values())
    for one in value if isinstance(value, list) else ():
        yield from _find_uses(one, given)


def _read_argument(shape: Any, given: frozenset[str]) -> Iterator[tuple[str, Any, bool]]:
    name, default = shape if isinstance(shape, list) else (shape, _NO_DEFAULT)
    yield name, default, name in given
    yield from _find_uses(default, given)


def _read_optional(shape: list[Any], given: frozenset[str]) -> Iterator[tuple[str, Any, bool]]:
    names = shape[0] if isinstance(shape[0], list) else [shape[0]]
    yield from ((name, _NO_DEFAULT, True) for name in names)
    yield from _find_uses(shape[1], given | {*names})
    yield from _find_uses(shape[2:], given)
