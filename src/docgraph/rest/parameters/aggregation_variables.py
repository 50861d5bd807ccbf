"""Variables of a stored aggregation or stream: `avars` of the caller, and predefined ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from docgraph.exchange import Document, Exchange
from docgraph.rest.parameters.parameters import Parameters
from docgraph.variables import Resolvers, Scope, Variables, parse_path
from docgraph.variables.paths import REQUEST_TIMES, is_momentary
from docgraph.variables.resolvers import NOW, Fresh

_NOW: Final = "@now"
_REQUEST: Final = "@request"
_PERMISSIONS: Final = "@mongoPermissions"  # the previous name of `@dbPermissions`


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
    known = {**_find_paging(parameters), **(moment or {})}
    asked = {name: _current_name(name) for name in predefined if name not in known}
    found = await resolvers.resolve_all(sorted(set(asked.values())), exchange)
    values = {name: found[current] for name, current in asked.items()}
    if moment is not None:
        _keep_moment(values, moment)
    return Scope(_expand(parameters.avars, names), Variables({**values, **known}))


def build_sample_scope(values: Mapping[str, Any]) -> Scope:
    """Return a scope with these values of names, to try a template."""
    own = {name: value for name, value in values.items() if not name.startswith("@")}
    return Scope(_expand(own, own), Variables(values))


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


def _find_paging(parameters: Parameters) -> Document:
    return {
        "@page": parameters.page,
        "@pagesize": parameters.pagesize,
        "@limit": parameters.pagesize,
        "@skip": parameters.skip,
    }


def _current_name(name: str) -> str:
    return name.replace(_PERMISSIONS, "@dbPermissions", 1)


def _expand(avars: Mapping[str, Any], names: Iterable[str]) -> Mapping[str, Any]:
    """Return the variables by name: a key that is literally `a.b` wins over the path `a.b`."""
    own = (name for name in names if name in avars and not name.startswith("@"))
    literal = [name for name in own if len(parse_path(name)) > 1]
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
