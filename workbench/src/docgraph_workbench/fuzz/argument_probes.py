"""Argument probes: queries by arguments that compare or order by a field hidden from the caller.

These are the likeliest leaks of `@visible`, so they are tried before anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from itertools import chain, zip_longest
from typing import Any, Final

from graphql import (
    GraphQLEnumType,
    GraphQLField,
    GraphQLObjectType,
    get_named_type,
    get_nullable_type,
    is_list_type,
    is_required_argument,
)

from docgraph.tools.apps import HiddenUse, find_leaking_uses
from docgraph.tools.data import JsonMode, to_json
from docgraph_workbench.fuzz.random_queries import Query, QueryMaker

Secrets = Mapping[str, list[Any]]  # values that a caller could guess, by property

_MAX_VALUES: Final = 4  # tried for an argument; one of them may be the least or the greatest
_NATIVE: Final[Mapping[str, Callable[[Any], Any]]] = {
    "String": str,
    "ID": str,
    "Int": int,
    "Float": float,
}


class ArgumentProbes(QueryMaker):
    """Builds the queries, for a caller with some roles."""

    def probe(self, secrets: Secrets) -> list[Query]:
        """Return queries by each such argument: all with one value, then all with the next one."""
        probes = [
            self._probe_argument(use, name, secrets)
            for use in find_leaking_uses(self._app, self._roles)
            for name in use.arguments
        ]
        rounds = chain.from_iterable(zip_longest(*probes))
        return [query for query in rounds if query is not None]

    def _probe_argument(self, use: HiddenUse, name: str, secrets: Secrets) -> Iterator[Query]:
        way = self._find_way(use.field[0])
        if way is None:
            return
        owner: Any = self._view.type_map[use.field[0]]
        field = owner.fields[use.field[1]]
        secret_values = [
            value for path, some in secrets.items() for value in self._list_values(use, path, some)
        ]
        for value in _list_inputs(field, name, secret_values):
            yield self._compose(partial(self._render_probe, way, use.field[1], field, name, value))

    def _list_values(self, use: HiddenUse, path: str, values: list[Any]) -> list[Any]:
        """Return the values for an argument; filters and orders if it may be one of those."""
        if use.path in ("", "*"):  # every property, for sure or perhaps
            return [*({path: value} for value in values[:1]), {path: 1}, *values[:1]]
        is_same = path == use.path or path.startswith(f"{use.path}.")
        return values[:_MAX_VALUES] if is_same else []

    def _render_probe(
        self, way: tuple[str, ...], field_name: str, field: GraphQLField, name: str, value: Any
    ) -> str:
        first, *steps = name.split(".")
        given = [
            f"{argument}: {self._render_input(declared.type, steps, value)}"
            if argument == first
            else f"{argument}: {self._value(declared.type)}"
            for argument, declared in field.args.items()
            if argument == first or is_required_argument(declared)
        ]
        type_ = get_named_type(field.type)
        below = f" {{ {self._select_all(type_, 2)} }}" if _is_composite(type_) else ""
        text = f"{field_name}({', '.join(given)}){below}"
        for above in reversed(way):
            text = f"{above} {{ {text} }}"
        return text

    def _render_input(self, type_: Any, steps: list[str], value: Any) -> str:
        """Return a literal with a variable at the end of the steps."""
        named = get_named_type(type_)
        if steps and hasattr(named, "fields"):
            inner = self._render_input(named.fields[steps[0]].type, steps[1:], value)
            return f"{{{steps[0]}: {inner}}}"
        if isinstance(named, GraphQLEnumType):
            return str(value)
        variable = f"v{len(self._variables)}"
        is_list = is_list_type(get_nullable_type(type_))
        self._variables[variable] = (str(type_), [value] if is_list else value)
        return f"${variable}"

    def _find_way(self, owner: str) -> tuple[str, ...] | None:
        """Return the fields that lead from Query to a type without required arguments, if any."""
        query = self._view.query_type
        pending: list[tuple[Any, tuple[str, ...]]] = [(query, ())]
        seen = set()
        while pending:
            type_, way = pending.pop(0)
            if type_ is not None and type_.name == owner:
                return way
            if not isinstance(type_, GraphQLObjectType) or type_.name in seen:
                continue
            seen.add(type_.name)
            for name, field in type_.fields.items():
                if not any(map(is_required_argument, field.args.values())):
                    pending.append((get_named_type(field.type), (*way, name)))
        return None


def _is_composite(type_: Any) -> bool:
    return hasattr(type_, "fields") or hasattr(type_, "types")


def _list_inputs(field: GraphQLField, name: str, secrets: list[Any]) -> Iterator[Any]:
    """Yield values of an argument, or of the part of an input that the name leads to."""
    first, *steps = name.split(".")
    type_: Any = get_named_type(field.args[first].type)
    for step in steps:
        fields = getattr(type_, "fields", {})
        type_ = get_named_type(fields[step].type) if step in fields else type_
    if isinstance(type_, GraphQLEnumType):
        yield from list(type_.values)[:_MAX_VALUES]
    elif type_.name == "Boolean":
        yield from (True, False)
    else:
        for secret in secrets:
            try:
                yield _NATIVE[type_.name](secret) if type_.name in _NATIVE else _to_json(secret)
            except (TypeError, ValueError):
                continue  # a value of another kind, which the argument does not take


def _to_json(value: Any) -> Any:
    return (
        to_json(value, JsonMode.STANDARD)
        if not isinstance(value, datetime)
        else f"{value.isoformat()}Z"
    )
