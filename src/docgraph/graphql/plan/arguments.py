"""Arguments of a field, coerced as far as they are known.

Literals in the query text are coerced once, when the plan is built; variables, at each execution.
Both follow the GraphQL specification: absent, null and default are three different things.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphql import (
    FieldNode,
    GraphQLError,
    GraphQLField,
    VariableNode,
    Visitor,
    get_argument_values,
    visit,
)
from graphql.execution.values import VariableValues
from graphql.language import Node

from docgraph.graphql.errors import FieldFailure
from docgraph.graphql.parser_messages import phrase


@dataclass(frozen=True, slots=True)
class FieldArguments:
    """The `fixed` values, and the variables whose values are passed unchanged.

    `is_simple` is false if a variable is inside a list or object: graphql-core coerces those.
    """

    definition: GraphQLField
    node: FieldNode
    fixed: Mapping[str, Any]
    direct: tuple[tuple[str, str], ...] = ()
    is_simple: bool = True

    def coerce(self, variables: VariableValues) -> Mapping[str, Any]:
        """Return the values; raise `FieldFailure` for one that does not fit the argument's type."""
        if not self.is_simple:
            return self._coerce_fully(variables)
        if not self.direct:
            return self.fixed
        values = dict(self.fixed)
        for name, variable in self.direct:
            value = variables.coerced.get(variable)
            if value is None:  # null or absent: the special cases
                return self._coerce_fully(variables)
            values[name] = value
        return values

    def _coerce_fully(self, variables: VariableValues) -> Mapping[str, Any]:
        try:
            return get_argument_values(self.definition, self.node, variables, hide_suggestions=True)
        except GraphQLError as error:
            raise FieldFailure(phrase(error.message), "bad-argument") from None


def build_arguments(definition: GraphQLField, node: FieldNode) -> FieldArguments:
    """Coerce the arguments that do not depend on variables."""
    direct: dict[str, str] = {}
    for argument in node.arguments or ():
        if isinstance(argument.value, VariableNode):
            direct[argument.name.value] = argument.value.name.value
        elif find_variables(argument.value):
            return FieldArguments(definition, node, {}, is_simple=False)
    rest = GraphQLField(
        definition.type,
        args={name: arg for name, arg in definition.args.items() if name not in direct},
    )
    fixed = get_argument_values(rest, node, hide_suggestions=True)
    named = ((definition.args[name].out_name or name, direct[name]) for name in direct)
    return FieldArguments(definition, node, fixed, tuple(named))


class _VariableFinder(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def enter_variable(self, node: VariableNode, *_: Any) -> None:
        """Record the name."""
        self.names.add(node.name.value)


def find_variables(node: Node) -> frozenset[str]:
    """Return the names of the variables used in a node."""
    finder = _VariableFinder()
    visit(node, finder)
    return frozenset(finder.names)
