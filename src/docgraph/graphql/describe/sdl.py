"""SDL of the schema that a caller sees: whole, by type, or shortened to a limit."""

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

_MAX_SUGGESTED = 300


def render_schema(schema: GraphQLSchema, limit: int) -> str:
    """Return the whole schema, or `Query` and the names of the other types if it is too long."""
    whole = _print_all(schema)
    if len(whole.encode()) <= limit:
        return whole
    head = (
        "# The whole schema is too long. This is Query, and the names of the other types:\n"
        "# ask for those you need by name, or search for fields.\n\n"
    )
    others = [type_ for type_ in _own_types(schema) if type_.name != "Query"]
    names = "\n".join(_introduce(type_) for type_ in others[:_MAX_SUGGESTED])
    more = len(others) - _MAX_SUGGESTED
    if more > 0:
        names += f"\n# … and {more} more"
    query = print_type(schema.type_map["Query"])
    return _shorten(f"{head}{query}\n\n{names}", limit)


def render_types(schema: GraphQLSchema, names: Collection[str], limit: int) -> str:
    """Return these types; a hidden type is as unknown as one that does not exist."""
    known = {type_.name: type_ for type_ in _own_types(schema)}
    for name in names:
        if name not in known:
            raise OperationRefused.because(f"Unknown type '{name}'.", "invalid-query")
    return _shorten("\n\n".join(print_type(known[name]) for name in dict.fromkeys(names)), limit)


def _print_all(schema: GraphQLSchema) -> str:
    """Print queries first; scalars and directives, which are the same in every app, last."""
    types = sorted(_own_types(schema), key=lambda one: isinstance(one, GraphQLScalarType))
    directives = [one for one in schema.directives if not is_specified_directive(one)]
    return "\n\n".join([*map(print_type, types), *map(print_directive, directives)])


def _own_types(schema: GraphQLSchema) -> Iterator[GraphQLNamedType]:
    """Yield `Query` first, then the types in the author's order."""
    for name, type_ in sorted(schema.type_map.items(), key=lambda one: one[0] != "Query"):
        if name not in introspection_types and name not in specified_scalar_types:
            yield type_


def _introduce(type_: GraphQLNamedType) -> str:
    kind = type(type_).__name__.removeprefix("GraphQL").removesuffix("Type").lower()
    lines = (type_.description or "").strip().splitlines()
    return f"# {type_.name} ({kind})" + (f": {lines[0][:100]}" if lines else "")


def _shorten(text: str, limit: int) -> str:
    """Return as many whole lines as fit into the limit."""
    content = text.encode()
    if len(content) <= limit:
        return text
    note = "\n# … cut here: ask for single types, or search for fields"
    kept = content[: max(0, limit - len(note.encode()))].decode(errors="ignore")
    return kept.rpartition("\n")[0] + note
