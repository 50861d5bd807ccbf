"""Shrinking: smaller queries that may still reproduce a leak."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    InlineFragmentNode,
    NameNode,
    Node,
    OperationDefinitionNode,
    SelectionSetNode,
    VariableNode,
    Visitor,
    parse,
    print_ast,
    visit,
)

from docgraph.workbench.fuzz.random_queries import Query


def shrink_query(query: Query) -> Iterator[Query]:
    """Yield the query without one part, for each part; the largest parts first."""
    try:
        document = parse(query.text)
    except GraphQLError:
        return
    for position in range(_count(document)):
        smaller = _prune(_Without(position).apply(document))
        text = print_ast(smaller)
        names = _used(smaller)
        variables = {name: one for name, one in query.variables.items() if name in names}
        if " ".join(text.split()) != " ".join(query.text.split()):
            yield Query(" ".join(text.split()), variables)


def _count(document: DocumentNode) -> int:
    counter = _Without(-1)
    counter.apply(document)
    return counter.seen


class _Without:
    """Walks over selections, aliases and arguments, and removes the one with this number."""

    def __init__(self, position: int) -> None:
        self._position = position
        self._fragments: dict[str, Any] = {}
        self.seen = 0

    def apply(self, document: DocumentNode) -> DocumentNode:
        """Return the document without that part."""
        self._fragments = {
            one.name.value: one.selection_set.selections
            for one in document.definitions
            if isinstance(one, FragmentDefinitionNode)
        }
        definitions = tuple(
            replace(one, selection_set=self._cut(one.selection_set))
            if isinstance(one, OperationDefinitionNode | FragmentDefinitionNode)
            else one
            for one in document.definitions
        )
        return replace(document, definitions=definitions)

    def _cut(self, several: SelectionSetNode) -> SelectionSetNode:
        kept: list[Any] = []
        for one in several.selections:
            if self._is_next():
                continue
            if isinstance(one, InlineFragmentNode) and self._is_next():
                kept += one.selection_set.selections
                continue
            if isinstance(one, FragmentSpreadNode) and self._is_next():
                kept += self._fragments.get(one.name.value, ())
                continue
            kept.append(self._cut_inside(one))
        blank = FieldNode(name=NameNode(value="__typename"), arguments=(), directives=())
        return replace(several, selections=tuple(kept or [blank]))

    def _cut_inside(self, one: Any) -> Any:
        changes: dict[str, Any] = {}
        if isinstance(one, FieldNode):
            arguments = tuple(item for item in one.arguments or () if not self._is_next())
            changes["arguments"] = arguments
            if one.alias is not None and self._is_next():
                changes["alias"] = None
        if getattr(one, "selection_set", None) is not None:
            changes["selection_set"] = self._cut(one.selection_set)
        return replace(one, **changes) if changes else one

    def _is_next(self) -> bool:
        self.seen += 1
        return self.seen - 1 == self._position


class _FreshNames(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.variables: set[str] = set()
        self.fragments: set[str] = set()
        self._declared = 0

    def enter_variable_definition(self, *_: Any) -> Any:
        return self.SKIP

    def enter_variable(self, node: VariableNode, *_: Any) -> None:
        self.variables.add(node.name.value)

    def enter_fragment_spread(self, node: FragmentSpreadNode, *_: Any) -> None:
        self.fragments.add(node.name.value)


def _used(node: Node) -> set[str]:
    names = _FreshNames()
    visit(node, names)
    return names.variables


def _prune(document: DocumentNode) -> DocumentNode:
    """Return the document without fragments and variables that are no longer used."""
    names = _FreshNames()
    visit(document, names)
    definitions: list[Any] = []
    for one in document.definitions:
        if isinstance(one, FragmentDefinitionNode) and one.name.value not in names.fragments:
            continue
        if isinstance(one, OperationDefinitionNode):
            kept = tuple(
                item
                for item in one.variable_definitions or ()
                if item.variable.name.value in names.variables
            )
            one = replace(one, variable_definitions=kept, name=None)  # noqa: PLW2901 - the same, smaller
        definitions.append(one)
    return replace(document, definitions=tuple(definitions))
