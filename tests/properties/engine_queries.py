"""Random queries over a schema: aliases, merged fields, fragments, directives, variables."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

from graphql import (
    GraphQLField,
    GraphQLObjectType,
    GraphQLSchema,
    get_named_type,
    is_abstract_type,
    is_composite_type,
)

MAX_DEPTH = 4
MAX_FIELDS = 60
VALUES: dict[str, list[Any]] = {
    "min": [0, 1, 2, None],
    "name": ["x", "y"],
    "skip": [0, 1, 2, -1],
    "limit": [0, 1, 2, 4, 9, -1, None],
    "color": ["RED", "BLUE"],
}


class QueryMaker:
    """Writes one query and the values of its variables."""

    def __init__(self, schema: GraphQLSchema, random: Random) -> None:
        self._schema = schema
        self._random = random
        self._numbers = count()  # of aliases: two that are the same by chance could not be merged
        self._declared: dict[str, str] = {}
        self._fragments: list[str] = []
        self._left = MAX_FIELDS
        self.variables: dict[str, Any] = {}

    def make(self) -> str:
        """The text of the query."""
        query = self._schema.query_type
        assert query is not None
        body = self._selection(query, MAX_DEPTH)
        declared = ", ".join(f"${name}: {type_}" for name, type_ in self._declared.items())
        head = f"query Q({declared})" if declared else "query Q"
        return "\n".join([f"{head} {body}", *self._fragments])

    def _selection(self, type_: Any, depth: int) -> str:
        chance = self._random.random
        parts = []
        for _ in range(self._random.randrange(2, 5)):
            if self._left <= 0:
                break
            if is_abstract_type(type_) or chance() < 0.2:
                parts.append(self._fragment(type_, depth))
            else:
                parts.append(self._field(type_, depth))
        if chance() < 0.3 or not "".join(parts).strip():
            parts.append("__typename")
        return "{ " + " ".join(parts) + " }"

    def _fragment(self, type_: Any, depth: int) -> str:
        chance = self._random.random
        if is_abstract_type(type_) and chance() < 0.2:
            return "name" if "name" in getattr(type_, "fields", {}) else "__typename"
        target = self._narrow(type_)
        selection = self._selection(target, depth) if target is not type_ else "{ __typename }"
        if isinstance(target, GraphQLObjectType) and target is type_:
            selection = "{ " + self._field(target, depth) + " }"
        condition = self._condition()
        if chance() < 0.3:
            name = f"F{len(self._fragments)}"
            self._fragments.append("")
            self._fragments[int(name[1:])] = f"fragment {name} on {target.name} {selection}"
            return f"...{name} {condition}"
        return f"... on {target.name} {condition} {selection}"

    def _narrow(self, type_: Any) -> Any:
        if is_abstract_type(type_):
            return self._random.choice(self._schema.get_possible_types(type_))
        return type_

    def _field(self, type_: GraphQLObjectType, depth: int) -> str:
        names = [
            name
            for name, field in type_.fields.items()
            if depth > 1 or not is_composite_type(get_named_type(field.type))
        ]
        if not names:
            return "__typename"
        composite = [n for n in names if is_composite_type(get_named_type(type_.fields[n].type))]
        self._left -= 1
        name = self._random.choice(composite if composite and depth > 2 else names)
        field = type_.fields[name]
        arguments = self._arguments(field)
        # An alias for everything that may differ, so that fields can always be merged.
        is_composite = is_composite_type(get_named_type(field.type))
        alias = f"{name}_{next(self._numbers)}: " if arguments else ""
        if not arguments:
            alias = f"{type_.name}_{name}: "
        below = self._selection(get_named_type(field.type), depth - 1) if is_composite else ""
        return f"{alias}{name}{arguments} {self._condition()} {below}"

    def _arguments(self, field: GraphQLField) -> str:
        given = []
        for name in field.args:
            if self._random.random() < 0.35:
                given.append(f"{name}: {self._argument(name, str(field.args[name].type))}")
        return f"({', '.join(given)})" if given else ""

    def _argument(self, name: str, type_: str) -> str:
        value = self._random.choice(VALUES[name])
        if self._random.random() < 0.5:
            return _literal(name, value)
        variable = f"v{len(self._declared)}"
        default = self._random.random() < 0.3
        self._declared[variable] = f"{type_} = {_literal(name, value)}" if default else type_
        if self._random.random() < 0.7:
            self.variables[variable] = value
        return f"${variable}"

    def _condition(self) -> str:
        if self._random.random() > 0.15:
            return ""
        name = self._random.choice(["skip", "include"])
        if self._random.random() < 0.4:
            return f"@{name}(if: {self._random.choice(['true', 'false'])})"
        variable = f"v{len(self._declared)}"
        self._declared[variable] = self._random.choice(["Boolean!", "Boolean = true"])
        if self._declared[variable] == "Boolean!" or self._random.random() < 0.5:
            self.variables[variable] = self._random.choice([True, False])
        return f"@{name}(if: ${variable})"


def _literal(name: str, value: Any) -> str:
    if value is None:
        return "null"
    return f'"{value}"' if name == "name" else str(value)
