"""Variables of stored aggregations and streams: declared, `avars` of the caller, predefined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from docgraph.exchange import Document, Exchange
from docgraph.rest.parameters import Parameters
from docgraph.variables import REST, Resolvers, Scope, Variables, parse_path
from docgraph.variables.paths import REQUEST_TIMES, is_momentary
from docgraph.variables.resolvers import NOW, Fresh

_NO_DEFAULT: Final = object()


@dataclass(slots=True)
class DeclaredVariable:
    """A variable of `avars`; it is required unless every use has a default or is optional."""

    name: str
    is_required: bool = False
    default: Any = _NO_DEFAULT  # the first one

    def describe(self) -> Document:
        described: Document = {"name": self.name, "required": self.is_required}
        if self.default is not _NO_DEFAULT:
            described["default"] = self.default
        return described


def find_variables(*sources: Any) -> list[DeclaredVariable]:
    """Return the variables of templates without flaws, by name."""
    variables: dict[str, DeclaredVariable] = {}
    for source in sources:
        for name, default, is_optional in _find_uses(source, frozenset()):
            variable = variables.setdefault(name, DeclaredVariable(name))
            if default is _NO_DEFAULT:
                variable.is_required |= not is_optional
            elif variable.default is _NO_DEFAULT:
                variable.default = default
    return [variables[name] for name in sorted(variables) if not name.startswith("@")]


def _find_uses(value: Any, given: frozenset[str]) -> Iterator[tuple[str, Any, bool]]:
    """Yield name, default and optionality of each use; the names in `given` have a value there."""
    if isinstance(value, Mapping):
        if REST.argument in value:
            shape = value[REST.argument]
            name, default = shape if isinstance(shape, list) else (shape, _NO_DEFAULT)
            yield name, default, name in given
            yield from _find_uses(default, given)
        elif REST.optional in value:
            yield from _read_optional(value[REST.optional], given)
        else:
            value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from _find_uses(inner, given)


def _read_optional(shape: list[Any], given: frozenset[str]) -> Iterator[tuple[str, Any, bool]]:
    names = shape[0] if isinstance(shape[0], list) else [shape[0]]
    yield from ((name, _NO_DEFAULT, True) for name in names)
    yield from _find_uses(shape[1], given | {*names})
    yield from _find_uses(shape[2:], given)


_NOW: Final = "@now"
_REQUEST: Final = "@request"


async def build_scope(
    names: Iterable[str],
    exchange: Exchange,
    resolvers: Resolvers,
    parameters: Parameters,
    moment: Document | None = None,
) -> Scope:
    """Return the values of the names of a template in this request.

    `moment` has the values that would differ each time (the time, random numbers); missing ones are
    added to it. A random value is then the same in all positions.
    """
    names = frozenset(names)
    predefined = [name for name in names if name.startswith("@")]
    given = {
        "@page": parameters.page,
        "@pagesize": parameters.pagesize,
        "@limit": parameters.pagesize,
        "@skip": parameters.skip,
        **(moment or {}),
    }
    asked = {
        name: name.replace("@mongoPermissions", "@dbPermissions", 1)  # its previous name
        for name in predefined
        if name not in given
    }
    resolved = await resolvers.resolve_all(sorted(set(asked.values())), exchange)
    values = {name: resolved[current] for name, current in asked.items()}
    if moment is not None:
        _keep_moment(values, moment)
    return Scope(_expand(parameters.avars, names), Variables({**values, **given}))


def build_sample_scope(values: Mapping[str, Any]) -> Scope:
    """Return a scope with these values of names, to try a template."""
    plain = {name: value for name, value in values.items() if not name.startswith("@")}
    return Scope(_expand(plain, plain), Variables(values))


def _keep_moment(values: Document, moment: Document) -> None:
    """Copy the values of the moment, and add the missing ones to it."""
    for name, value in values.items():
        if name == _REQUEST:  # it contains the caller, too, who may have changed
            times = {time: value[time] for time in REQUEST_TIMES}
            values[name] = {**value, **moment.setdefault(f"{_REQUEST} times", times)}
        elif name == _NOW:  # of a stream: the time at which an event is processed
            values[name] = NOW
        elif is_momentary(name):
            values[name] = moment[name] = value() if isinstance(value, Fresh) else value


def _expand(avars: Mapping[str, Any], names: Iterable[str]) -> Mapping[str, Any]:
    """Return the variables by name: a key that is literally `a.b` wins over the path `a.b`."""
    plain = (name for name in names if name in avars and not name.startswith("@"))
    literal = [name for name in plain if len(parse_path(name)) > 1]
    if not literal:
        return avars
    expanded = dict(avars)
    for name in literal:
        _put(expanded, parse_path(name), avars[name])
    return expanded


def _put(values: Document, path: tuple[str, ...], value: Any) -> None:
    *way, last = path
    for step in way:
        inner = values.get(step)
        values[step] = values = dict(inner) if isinstance(inner, dict) else {}
    values[last] = value
