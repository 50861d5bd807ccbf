"""The rules of GraphQL for schemas, in bounded time: they stop at the first few dozen errors.

The library finds the line of each error by going through the text, and looks through all names for
one that might be meant, so that a schema full of mistakes would take hours. Whether types keep what
their interfaces promise is a comparison of each with each: there may be only so many of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from graphql import (
    DocumentNode,
    GraphQLError,
    GraphQLSchema,
    InterfaceTypeDefinitionNode,
    InterfaceTypeExtensionNode,
    Node,
    ObjectTypeDefinitionNode,
    ObjectTypeExtensionNode,
    ParallelVisitor,
    visit,
)
from graphql.type.validate import SchemaValidationContext
from graphql.validation.specified_rules import specified_sdl_rules
from graphql.validation.validation_context import SDLValidationContext

__all__ = ["MOST_ERRORS", "count_comparisons", "find_schema_errors", "find_sdl_errors"]

MOST_ERRORS: Final = 50
_LONG_TEXT: Final = 16_384  # in a longer one nobody looks for names that are spelt alike

_Implementing = (
    InterfaceTypeDefinitionNode
    | InterfaceTypeExtensionNode
    | ObjectTypeDefinitionNode
    | ObjectTypeExtensionNode
)


class _Enough(Exception):
    """There are as many errors as anybody reads."""


def find_sdl_errors(document: DocumentNode, base: GraphQLSchema) -> list[GraphQLError]:
    """What contradicts the rules for definitions that extend `base`, up to `MOST_ERRORS`."""
    errors: list[GraphQLError] = []
    context = _SdlContext(document, base, _collector(errors))
    rules = [rule(context) for rule in specified_sdl_rules]
    with suppress(_Enough):
        visit(document, ParallelVisitor(rules))
    return errors


def find_schema_errors(schema: GraphQLSchema) -> list[GraphQLError]:
    """Where types contradict each other, up to `MOST_ERRORS`."""
    context = _SchemaContext(schema)
    with suppress(_Enough):
        context.validate_root_types()
        context.validate_directives()
        context.validate_types()
    schema._validation_errors = context.errors  # else every query would look for them again
    return context.errors


def count_comparisons(document: DocumentNode) -> int:
    """How often something is compared to find whether types are what their interfaces promise."""
    above: dict[str, int] = defaultdict(int)  # interfaces that each type names
    promised: dict[str, int] = defaultdict(int)  # fields and arguments of each type
    owners = [node for node in document.definitions if isinstance(node, _Implementing)]
    for node in owners:
        above[node.name.value] += len(node.interfaces or ())
        fields = node.fields or ()
        promised[node.name.value] += sum(1 + len(field.arguments or ()) for field in fields)
    return sum(
        promised.get(one.name.value, 0) + above.get(one.name.value, 0) * above[node.name.value]
        for node in owners
        for one in node.interfaces or ()
    )


def _collector(errors: list[GraphQLError]) -> Callable[[GraphQLError], None]:
    def collect(error: GraphQLError) -> None:
        errors.append(error)
        if len(errors) >= MOST_ERRORS:
            raise _Enough

    return collect


class _SdlContext(SDLValidationContext):
    @property
    def hide_suggestions(self) -> bool:
        """Whether nobody is told what might be meant."""
        place = self.document.loc
        return place is not None and place.end > _LONG_TEXT


class _SchemaContext(SchemaValidationContext):
    def report_error(
        self, message: str, nodes: Node | Collection[Node | None] | None = None
    ) -> None:
        """Keep the error with its first place: the others are not told."""
        if nodes and not isinstance(nodes, Node):
            nodes = [next((node for node in nodes if node), None)]
        super().report_error(message, nodes)
        if len(self.errors) >= MOST_ERRORS:
            raise _Enough
