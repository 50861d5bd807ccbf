"""Schema validation in bounded time: the GraphQL rules stop at the first few dozen errors.

graphql-core finds the line of each error by scanning the text, and searches all names for a
suggestion, so that a schema full of mistakes would take hours. Checking that types satisfy their
interfaces compares each with each: the number of comparisons is limited.
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

MAX_ERRORS: Final = 50
_LONG_TEXT: Final = 16_384  # a longer text gets no suggestions of similar names

_Implementing = (
    InterfaceTypeDefinitionNode
    | InterfaceTypeExtensionNode
    | ObjectTypeDefinitionNode
    | ObjectTypeExtensionNode
)


class _Enough(Exception):
    """Enough errors were found: more are not useful."""


def find_sdl_errors(document: DocumentNode, base: GraphQLSchema) -> list[GraphQLError]:
    """Return violations of the rules for definitions that extend `base`, up to `MAX_ERRORS`."""
    errors: list[GraphQLError] = []
    context = _SdlContext(document, base, _collector(errors))
    rules = [rule(context) for rule in specified_sdl_rules]
    with suppress(_Enough):
        visit(document, ParallelVisitor(rules))
    return errors


def find_schema_errors(schema: GraphQLSchema) -> list[GraphQLError]:
    """Return where types contradict each other, up to `MAX_ERRORS`."""
    context = _SchemaContext(schema)
    with suppress(_Enough):
        context.validate_root_types()
        context.validate_directives()
        context.validate_types()
    schema._validation_errors = context.errors  # otherwise every query would validate it again
    return context.errors


def count_comparisons(document: DocumentNode) -> int:
    """Count the comparisons needed to check that types satisfy their interfaces."""
    above: dict[str, int] = defaultdict(int)  # interfaces of each type
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
        if len(errors) >= MAX_ERRORS:
            raise _Enough

    return collect


class _SdlContext(SDLValidationContext):
    @property
    def hide_suggestions(self) -> bool:
        """Whether suggestions of similar names are left out."""
        place = self.document.loc
        return place is not None and place.end > _LONG_TEXT


class _SchemaContext(SchemaValidationContext):
    def report_error(
        self, message: str, nodes: Node | Collection[Node | None] | None = None
    ) -> None:
        """Record the error with its first location: the others are not reported."""
        if nodes and not isinstance(nodes, Node):
            nodes = [next((node for node in nodes if node), None)]
        super().report_error(message, nodes)
        if len(self.errors) >= MAX_ERRORS:
            raise _Enough
