"""Validation rules: those of the GraphQL specification, with clearer messages and bounds."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from graphql import (
    SKIP,
    ArgumentNode,
    ASTValidationRule,
    FloatValueNode,
    GraphQLError,
    GraphQLFloat,
    GraphQLInputType,
    IntValueNode,
    ValidationRule,
    ValueNode,
    VariableDefinitionNode,
    VisitorAction,
    get_named_type,
    specified_rules,
)
from graphql.pyutils import print_path_list
from graphql.utilities import validate_input_literal
from graphql.validation import (
    NoSchemaIntrospectionCustomRule,
    OverlappingFieldsCanBeMergedRule,
    ValidationContext,
    ValuesOfCorrectTypeRule,
)

COMPARISONS = 5_000  # of fields of the same name, each with each: about 30 ms
_UNITS = 10 * COMPARISONS  # of graphql-core: two for each comparison, plus overhead


class _Owner(ASTValidationRule):
    """Tracks the argument or variable whose value is being checked."""

    owner = ""

    def enter_argument(self, node: ArgumentNode, *_: Any) -> None:
        """Record the argument of the next value."""
        self.owner = f"Argument '{node.name.value}' has invalid value"

    def enter_variable_definition(self, node: VariableDefinitionNode, *_: Any) -> None:
        """Record the variable of the next default."""
        self.owner = f"Variable '${node.variable.name.value}' has invalid default value"


class NamedValuesOfCorrectTypeRule(_Owner, ValuesOfCorrectTypeRule):
    """Values of correct type, with the argument or variable in the message, and the path in it."""

    def is_valid_value_node(
        self, node: ValueNode, input_type: GraphQLInputType | None
    ) -> VisitorAction:
        """Check the whole value; nothing below it is visited."""

        def report(error: GraphQLError, path: list[str | int]) -> None:
            message = f"{self.owner}{print_path_list(path)}: {error.message}"
            self.report_error(GraphQLError(message, error.nodes if error.locations else node))

        if input_type:
            hide = self.context.hide_suggestions
            validate_input_literal(node, input_type, report, hide_suggestions=hide)
        return SKIP


class FiniteNumbersRule(_Owner, ValidationRule):
    """Rejects numbers that a double cannot hold, which would silently become infinite.

    A number of unknown type is inside a document, which has doubles, too.
    """

    def enter_int_value(self, node: IntValueNode, *_: Any) -> None:
        """Check an integer, which may be given for a Float."""
        self._check(node)

    def enter_float_value(self, node: FloatValueNode, *_: Any) -> None:
        """Check a number with a fraction or an exponent."""
        self._check(node)

    def _check(self, node: IntValueNode | FloatValueNode) -> None:
        type_ = get_named_type(self.context.get_input_type())
        if (type_ is None or type_ is GraphQLFloat) and not isfinite(float(node.value)):
            message = f"{self.owner}: {node.value[:40]} is beyond the range of a double"
            self.report_error(GraphQLError(message, node))


class BoundedMergingRule(OverlappingFieldsCanBeMergedRule):
    """Fields can be merged. The comparisons were counted before; this bound is a fallback."""

    def __init__(self, context: ValidationContext) -> None:
        super().__init__(context)
        self.rule_context.remaining_complexity_budget = _UNITS


_OURS: dict[type[ASTValidationRule], type[ASTValidationRule]] = {
    ValuesOfCorrectTypeRule: NamedValuesOfCorrectTypeRule,
    OverlappingFieldsCanBeMergedRule: BoundedMergingRule,
}

_RULES = (*(_OURS.get(rule, rule) for rule in specified_rules), FiniteNumbersRule)
_RULES_FOR_ALIKE = tuple(rule for rule in _RULES if rule is not BoundedMergingRule)


def choose_rules(*, introspection: bool, alike: bool) -> Sequence[type[ASTValidationRule]]:
    """Return the rules for a caller; fields of the same name that are `alike` need no merging."""
    rules = _RULES_FOR_ALIKE if alike else _RULES
    return rules if introspection else (*rules, NoSchemaIntrospectionCustomRule)
