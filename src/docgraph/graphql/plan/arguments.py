"""The arguments of a field, coerced as far as they are known.

What the query text says is coerced once, when the plan is made; what comes from variables, at
each execution. Both as the GraphQL specification has it: absent, null and default are three
different things.
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
from docgraph.graphql.wording import phrase

__all__ = ["Arguments", "build_arguments", "find_variables"]


@dataclass(frozen=True, slots=True)
class Arguments:
    """The values that are `fixed`, and the variables that the others simply are.

    `is_simple` is false when a variable stands inside a list or object: graphql-core's business.
    """

    definition: GraphQLField
    node: FieldNode
    fixed: Mapping[str, Any]
    direct: tuple[tuple[str, str], ...] = ()
    is_simple: bool = True

    def coerce(self, variables: VariableValues) -> Mapping[str, Any]:
        """The values; raises `FieldFailure` for what does not fit the argument's type."""
        if not self.is_simple:
            return self._coerce_fully(variables)
        if not self.direct:
            return self.fixed
        values = dict(self.fixed)
        for name, variable in self.direct:
            value = variables.coerced.get(variable)
            if value is None:  # null or absent: the subtle cases
                return self._coerce_fully(variables)
            values[name] = value
        return values

    def _coerce_fully(self, variables: VariableValues) -> Mapping[str, Any]:
        try:
            return get_argument_values(self.definition, self.node, variables, hide_suggestions=True)
        except GraphQLError as error:
            raise FieldFailure(phrase(error.message), "bad-argument") from None


def build_arguments(definition: GraphQLField, node: FieldNode) -> Arguments:
    """Coerce what does not depend on variables."""
    direct: dict[str, str] = {}
    for argument in node.arguments or ():
        if isinstance(argument.value, VariableNode):
            direct[argument.name.value] = argument.value.name.value
        elif find_variables(argument.value):
            return Arguments(definition, node, {}, is_simple=False)
    rest = GraphQLField(
        definition.type,
        args={name: arg for name, arg in definition.args.items() if name not in direct},
    )
    fixed = get_argument_values(rest, node, hide_suggestions=True)
    named = ((definition.args[name].out_name or name, direct[name]) for name in direct)
    return Arguments(definition, node, fixed, tuple(named))


class _VariableFinder(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def enter_variable(self, node: VariableNode, *_: Any) -> None:
        """Remember the name."""
        self.names.add(node.name.value)


def find_variables(node: Node) -> frozenset[str]:
    """The names of the variables used in a node."""
    finder = _VariableFinder()
    visit(node, finder)
    return frozenset(finder.names)
