"""Generated types of a subgraph: named with a prefix, and shareable between subgraphs.

Gateways merge types of one name. Two apps may generate `PostWhere` with other fields, so an app can
put a prefix before all generated names. Generated object types are the same wherever they have the
same name, which `@shareable` declares.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from graphql import (
    DocumentNode,
    NamedTypeNode,
    NameNode,
    ObjectTypeDefinitionNode,
    TypeDefinitionNode,
    Visitor,
    visit,
)

from docgraph.graphql.federation.subgraph import Subgraph, build_directive

T = TypeVar("T")

_UNPREFIXED: Final = "PageInfo"  # the Relay specification gives it its name


def find_new_names(types: Collection[str], prefix: str) -> dict[str, str]:
    """Return the new name of each generated type that gets one."""
    return {name: f"{prefix}{name}" for name in types if prefix and name != _UNPREFIXED}


@dataclass(frozen=True, slots=True)
class StyledTypes:
    """The document with the styled types, their new `names`, and what generated parts follow."""

    document: DocumentNode
    names: Mapping[str, str]
    follows: Mapping[tuple[str, ...], frozenset[tuple[str, str]]]

    def rename(self, mappings: Mapping[str, T]) -> dict[str, T]:
        """Return the mappings by the new names."""
        return {self.names.get(name, name): fields for name, fields in mappings.items()}


def style_generated(
    document: DocumentNode,
    types: Collection[str],
    follows: Mapping[tuple[str, ...], frozenset[tuple[str, str]]],
    prefix: str,
    subgraph: Subgraph,
) -> StyledTypes:
    """Style the generated types of this document, which has them."""
    names = find_new_names(types, prefix)
    renamed = {
        (names.get(part[0], part[0]), *part[1:]): frozenset(
            (names.get(type_, type_), field) for type_, field in fields
        )
        for part, fields in follows.items()
    }
    return StyledTypes(restyle(document, types, names, subgraph), names, renamed)


def restyle(
    document: DocumentNode, types: Collection[str], names: Mapping[str, str], subgraph: Subgraph
) -> DocumentNode:
    """Return the document with new names of generated types, and `@shareable` at their objects."""
    definitions = [
        _share(node, subgraph)
        if isinstance(node, ObjectTypeDefinitionNode) and node.name.value in types
        else node
        for node in document.definitions
    ]
    styled = DocumentNode(definitions=tuple(definitions), loc=document.loc)
    return visit(styled, _Renaming(names)) if names else styled


def _share(node: ObjectTypeDefinitionNode, subgraph: Subgraph) -> ObjectTypeDefinitionNode:
    local = subgraph.names.get("shareable")
    if local is None:  # of Federation 1, where object types without a key are shared anyway
        return node
    return replace(node, directives=(*(node.directives or ()), build_directive(local)))


class _Renaming(Visitor):
    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self._names = names

    def leave(self, node: Any, *_: Any) -> Any:
        """Return definitions and uses of a renamed type with the new name."""
        if isinstance(node, NamedTypeNode | TypeDefinitionNode) and node.name.value in self._names:
            return replace(node, name=NameNode(value=self._names[node.name.value]))
        return None
