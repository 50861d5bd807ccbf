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
    ConstArgumentNode,
    ConstDirectiveNode,
    DocumentNode,
    FieldDefinitionNode,
    NamedTypeNode,
    NameNode,
    ObjectTypeDefinitionNode,
    StringValueNode,
    TypeDefinitionNode,
    Visitor,
    visit,
)

from docgraph.graphql.federation.subgraph import Subgraph, build_directive, read_text

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
    paged = {
        node.name.value
        for node in document.definitions
        if isinstance(node, ObjectTypeDefinitionNode)
        and node.name.value in types
        and any(field.name.value == "edges" for field in node.fields or ())
    }
    if "provides" in subgraph.names and paged:
        styled = visit(styled, _Providing(paged, subgraph))
    return visit(styled, _Renaming(names)) if names else styled


def _share(node: ObjectTypeDefinitionNode, subgraph: Subgraph) -> ObjectTypeDefinitionNode:
    local = subgraph.names.get("shareable")
    if local is None:  # of Federation 1, where object types without a key are shared anyway
        return node
    return replace(node, directives=(*(node.directives or ()), build_directive(local)))


class _Providing(Visitor):
    """Lets `@provides` of a list that became a connection name fields of its items."""

    def __init__(self, paged: Collection[str], subgraph: Subgraph) -> None:
        super().__init__()
        self._paged = paged
        self._subgraph = subgraph

    def enter_field_definition(self, node: FieldDefinitionNode, *_: Any) -> Any:
        """Return a field of a connection with the fields as they are reached from there."""
        uses = self._subgraph.find(node, "provides")
        if not uses or _name_of(node.type) not in self._paged:
            return False
        changed = {id(use): _provide_items(use) for use in uses}
        directives = tuple(changed.get(id(use), use) for use in node.directives or ())
        return replace(node, directives=directives)


def _name_of(type_: Any) -> str:
    while not isinstance(type_, NamedTypeNode):
        type_ = type_.type
    return type_.name.value


def _provide_items(use: ConstDirectiveNode) -> ConstDirectiveNode:
    fields = read_text(use, "fields").strip()
    inner = fields if fields.startswith("{") else f"{{ {fields} }}"
    value = StringValueNode(value=f"nodes {inner} edges {{ node {inner} }}", block=False)
    argument = ConstArgumentNode(name=NameNode(value="fields"), value=value)
    return replace(use, arguments=(argument,))


class _Renaming(Visitor):
    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self._names = names

    def leave(self, node: Any, *_: Any) -> Any:
        """Return definitions and uses of a renamed type with the new name."""
        if isinstance(node, NamedTypeNode | TypeDefinitionNode) and node.name.value in self._names:
            return replace(node, name=NameNode(value=self._names[node.name.value]))
        return None
