"""Field sets: the fields of `@key`, `@requires` and `@provides`, as paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphql import FieldNode, GraphQLError, OperationDefinitionNode, SelectionSetNode, parse

KeyPath = tuple[str, ...]
_LONGEST = 10_000  # characters


def parse_field_set(text: str) -> tuple[KeyPath, ...]:
    """Return the path of each leaf: `id owner { id }` has `id` and `owner.id`; raise ValueError."""
    return tuple(dict.fromkeys(_list_leaves(parse_selections(text), ())))


def parse_selections(text: str) -> SelectionSetNode:
    """Return the selections of a field set; raise ValueError."""
    if len(text) > _LONGEST:
        raise ValueError(f"the field set is longer than {_LONGEST} characters")
    body = text if text.lstrip().startswith("{") else f"{{ {text} }}"
    try:
        document = parse(body, no_location=True, max_lexical_tokens=1_000)
    except GraphQLError as error:
        raise ValueError(f"{text!r} is no field set: {error.message.rstrip('.')}") from None
    (operation, *others) = document.definitions
    if others or not isinstance(operation, OperationDefinitionNode):
        raise ValueError(f"{text!r} is no field set")
    if not operation.selection_set.selections:
        raise ValueError(f"{text!r} is no field set: it names no field")
    return operation.selection_set


def _list_leaves(selections: SelectionSetNode, above: KeyPath) -> Iterator[KeyPath]:
    for node in selections.selections:
        if not isinstance(node, FieldNode) or node.alias or node.arguments or node.directives:
            raise ValueError("a field set has names of fields only")
        path = (*above, node.name.value)
        if node.selection_set is None:
            yield path
        else:
            yield from _list_leaves(node.selection_set, path)


def nest(values: dict[KeyPath, Any]) -> dict[str, Any]:
    """Return the values by path as an object."""
    nested: dict[str, Any] = {}
    for path, value in values.items():
        inner = nested
        for step in path[:-1]:
            inner = inner.setdefault(step, {})
        inner[path[-1]] = value
    return nested
