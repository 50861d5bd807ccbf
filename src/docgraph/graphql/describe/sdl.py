"""The schema that a caller sees, as SDL: whole, by type, or the most of it that has room."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from graphql import (
    GraphQLNamedType,
    GraphQLScalarType,
    GraphQLSchema,
    is_specified_directive,
    print_type,
    specified_scalar_types,
)
from graphql.type import introspection_types
from graphql.utilities.print_schema import print_directive

from docgraph.graphql.errors import OperationRefused

__all__ = ["render_schema", "render_types"]

_MOST_SUGGESTED = 300


def render_schema(schema: GraphQLSchema, limit: int) -> str:
    """All of it, or `Query` and the names of the other types where all would be too long."""
    whole = _print_all(schema)
    if len(whole.encode()) <= limit:
        return whole
    head = (
        "# The whole schema is too long. This is Query, and the names of the other types:\n"
        "# ask for those you need by name, or search for fields.\n\n"
    )
    others = [type_ for type_ in _own_types(schema) if type_.name != "Query"]
    names = "\n".join(_introduce(type_) for type_ in others[:_MOST_SUGGESTED])
    more = len(others) - _MOST_SUGGESTED
    if more > 0:
        names += f"\n# … and {more} more"
    query = print_type(schema.type_map["Query"])
    return _shorten(f"{head}{query}\n\n{names}", limit)


def render_types(schema: GraphQLSchema, names: Collection[str], limit: int) -> str:
    """These types; what the caller does not see is as unknown as what never was."""
    known = {type_.name: type_ for type_ in _own_types(schema)}
    for name in names:
        if name not in known:
            raise OperationRefused.because(f"Unknown type '{name}'.", "invalid-query")
    return _shorten("\n\n".join(print_type(known[name]) for name in dict.fromkeys(names)), limit)


def _print_all(schema: GraphQLSchema) -> str:
    """What can be asked first; scalars and directives, which are the same everywhere, last."""
    types = sorted(_own_types(schema), key=lambda one: isinstance(one, GraphQLScalarType))
    directives = [one for one in schema.directives if not is_specified_directive(one)]
    return "\n\n".join([*map(print_type, types), *map(print_directive, directives)])


def _own_types(schema: GraphQLSchema) -> Iterator[GraphQLNamedType]:
    """`Query` first, then in the author's order."""
    for name, type_ in sorted(schema.type_map.items(), key=lambda one: one[0] != "Query"):
        if name not in introspection_types and name not in specified_scalar_types:
            yield type_


def _introduce(type_: GraphQLNamedType) -> str:
    kind = type(type_).__name__.removeprefix("GraphQL").removesuffix("Type").lower()
    lines = (type_.description or "").strip().splitlines()
    return f"# {type_.name} ({kind})" + (f": {lines[0][:100]}" if lines else "")


def _shorten(text: str, limit: int) -> str:
    """Whole lines, as many as there is room for."""
    content = text.encode()
    if len(content) <= limit:
        return text
    note = "\n# … cut here: ask for single types, or search for fields"
    kept = content[: max(0, limit - len(note.encode()))].decode(errors="ignore")
    return kept.rpartition("\n")[0] + note
