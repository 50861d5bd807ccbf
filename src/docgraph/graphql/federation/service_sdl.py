"""The SDL of `_service`: what a gateway composes.

It has what the caller sees, with the directives of federation, and the scalars that it uses. It has
neither the declarations of the specification nor `@visible`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from graphql import (
    REMOVE,
    DefinitionNode,
    DirectiveNode,
    DocumentNode,
    NamedTypeNode,
    ObjectTypeDefinitionNode,
    ObjectTypeExtensionNode,
    ScalarTypeDefinitionNode,
    Visitor,
    VisitorAction,
    print_ast,
    visit,
)

from docgraph.graphql.federation.subgraph import OWN_FIELDS, Subgraph


def print_service_sdl(document: DocumentNode, subgraph: Subgraph, scalars: Collection[str]) -> str:
    """Return the SDL of a visible document; `scalars` are those that it may use undeclared."""
    nodes = tuple(_list_own(document, subgraph))
    finder = _ScalarFinder(scalars)
    printed = visit(DocumentNode(definitions=nodes), finder)
    declared = {node.name.value for node in nodes if isinstance(node, ScalarTypeDefinitionNode)}
    lines = [f"scalar {name}" for name in sorted(finder.used - declared)]
    return "\n\n".join([print_ast(printed), *lines])


def _list_own(document: DocumentNode, subgraph: Subgraph) -> Iterator[DefinitionNode]:
    """Yield the definitions without those of the specification."""
    for node in document.definitions:
        if subgraph.is_declared(node):
            continue
        if not isinstance(node, ObjectTypeDefinitionNode | ObjectTypeExtensionNode) or (
            node.name.value != "Query"
        ):
            yield node
            continue
        before = node.fields or ()
        fields = tuple(field for field in before if field.name.value not in OWN_FIELDS)
        if fields or (isinstance(node, ObjectTypeDefinitionNode) and node.directives):
            yield replace(node, fields=fields)


class _ScalarFinder(Visitor):
    """Removes `@visible`, and finds the scalars that are used."""

    def __init__(self, scalars: Collection[str]) -> None:
        super().__init__()
        self._scalars = scalars
        self.used: set[str] = set()

    def enter_directive(self, node: DirectiveNode, *_: Any) -> VisitorAction:
        """Remove `@visible`, which is no directive of gateways."""
        return REMOVE if node.name.value == "visible" else None

    def enter_named_type(self, node: NamedTypeNode, *_: Any) -> None:
        """Record a scalar."""
        if node.name.value in self._scalars:
            self.used.add(node.name.value)
