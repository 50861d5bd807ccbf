"""GraphQL's CollectFields, with the outcome of every condition given (`@skip`, `@include`).

A plan does not depend on the values of variables; which fields it has depends on those of `@skip`
and `@include`. So fields are collected for one outcome of the conditions (`flags`), or, with
`flags` None, as if every condition held: for printing the plan with its conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from graphql import (
    BooleanValueNode,
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLObjectType,
    GraphQLSchema,
    InlineFragmentNode,
    SelectionNode,
    SelectionSetNode,
    VariableNode,
    is_abstract_type,
    print_ast,
    type_from_ast,
)

from docgraph.graphql.definition.query_limits import find_fragments
from docgraph.graphql.errors import FieldFailure

Flags = Mapping[str, bool | None]


@dataclass(slots=True)
class Collected:
    """The field nodes of each response key, and the conditions of the conditional ones."""

    fields: dict[str, list[FieldNode]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Collector:
    """Collects the fields of one document; `flags` as in the module's description."""

    schema: GraphQLSchema
    fragments: Mapping[str, FragmentDefinitionNode]
    flags: Flags | None

    @classmethod
    def of(cls, schema: GraphQLSchema, document: DocumentNode, flags: Flags | None) -> Collector:
        return cls(schema, find_fragments(document), flags)

    def collect(
        self, type_: GraphQLObjectType, selection_sets: Iterable[SelectionSetNode]
    ) -> Collected:
        """Return the fields that apply to the type; raise `FieldFailure` if a condition is null."""
        collected = Collected()
        visited: set[str] = set()
        for selection_set in selection_sets:
            self._visit(type_, selection_set, collected, visited, ())
        return collected

    def _visit(
        self,
        type_: GraphQLObjectType,
        selection_set: SelectionSetNode,
        collected: Collected,
        visited: set[str],
        conditions: tuple[str, ...],
    ) -> None:
        for node in selection_set.selections:
            skip, include = self._decide(node, "skip"), self._decide(node, "include")
            if skip is True or include is False:
                continue
            directives = [
                print_ast(directive)
                for directive in node.directives or ()
                if directive.name.value in ("skip", "include")
            ]
            notes = (*conditions, *directives)
            if isinstance(node, FieldNode):
                _add_field(collected, node, notes)
                continue
            inner = self._enter(type_, node, visited)
            if inner is not None:
                self._visit(type_, inner, collected, visited, notes)

    def _enter(
        self, type_: GraphQLObjectType, node: SelectionNode, visited: set[str]
    ) -> SelectionSetNode | None:
        """Return the selections of a fragment, if it applies and was not visited before."""
        fragment: InlineFragmentNode | FragmentDefinitionNode | None = None
        if isinstance(node, FragmentSpreadNode):
            name = node.name.value
            if name not in visited:
                visited.add(name)
                fragment = self.fragments.get(name)
        elif isinstance(node, InlineFragmentNode):
            fragment = node
        if fragment is None:
            return None
        if fragment.type_condition is not None:
            condition = type_from_ast(self.schema, fragment.type_condition)
            if condition is not type_ and not (
                is_abstract_type(condition) and self.schema.is_sub_type(condition, type_)
            ):
                return None
        return fragment.selection_set

    def _decide(self, node: SelectionNode, name: str) -> bool | None:
        """Return the outcome of a condition; None if there is none, or all are assumed to hold."""
        directives = node.directives or ()
        directive = next((each for each in directives if each.name.value == name), None)
        if directive is None:
            return None
        (argument,) = directive.arguments or ()
        value = argument.value
        if isinstance(value, BooleanValueNode):
            return value.value
        if self.flags is None or not isinstance(value, VariableNode):
            return None
        outcome = self.flags.get(value.name.value)
        if outcome is None:
            raise FieldFailure(f"the condition of @{name} must not be null", "null-condition")
        return outcome


def _add_field(collected: Collected, node: FieldNode, conditions: tuple[str, ...]) -> None:
    key = node.alias.value if node.alias else node.name.value
    nodes = collected.fields.get(key)
    if nodes is not None:
        nodes.append(node)
        if not conditions:
            collected.notes.pop(key, None)
        return
    collected.fields[key] = [node]
    if conditions:
        collected.notes[key] = " ".join(conditions)
