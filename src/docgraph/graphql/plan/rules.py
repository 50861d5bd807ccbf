"""The validation rules: those of the specification, and what ours say beyond it."""

from __future__ import annotations

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

__all__ = ["COMPARISONS", "RULES", "RULES_WITHOUT_INTROSPECTION"]

COMPARISONS = 50_000  # units of graphql-core, two for each pair of fields of the same name


class _Owner(ASTValidationRule):
    """Knows whose value is being looked at."""

    owner = ""

    def enter_argument(self, node: ArgumentNode, *_: Any) -> None:
        """Remember whose value comes next."""
        self.owner = f"Argument '{node.name.value}' has invalid value"

    def enter_variable_definition(self, node: VariableDefinitionNode, *_: Any) -> None:
        """Remember whose default comes next."""
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
    """Numbers that a double can hold, where one is wanted; they would become infinite in silence.

    Where the type is not known they stand inside a document, which holds doubles, too.
    """

    def enter_int_value(self, node: IntValueNode, *_: Any) -> None:
        """A whole number may be given for a Float."""
        self._check(node)

    def enter_float_value(self, node: FloatValueNode, *_: Any) -> None:
        """A number with a fraction or an exponent."""
        self._check(node)

    def _check(self, node: IntValueNode | FloatValueNode) -> None:
        type_ = get_named_type(self.context.get_input_type())
        if (type_ is None or type_ is GraphQLFloat) and not isfinite(float(node.value)):
            message = f"{self.owner}: {node.value[:40]} is beyond the range of a double"
            self.report_error(GraphQLError(message, node))


class BoundedMergingRule(OverlappingFieldsCanBeMergedRule):
    """Fields can be merged, decided with a tenth of graphql-core's own patience.

    Every field is compared with every other one of the same name, so that the cost grows with the
    square of their number. A query that people or their tools write spends next to nothing.
    """

    def __init__(self, context: ValidationContext) -> None:
        super().__init__(context)
        self.rule_context.remaining_complexity_budget = COMPARISONS


_OURS: dict[type[ASTValidationRule], type[ASTValidationRule]] = {
    ValuesOfCorrectTypeRule: NamedValuesOfCorrectTypeRule,
    OverlappingFieldsCanBeMergedRule: BoundedMergingRule,
}

RULES = (*(_OURS.get(rule, rule) for rule in specified_rules), FiniteNumbersRule)
RULES_WITHOUT_INTROSPECTION = (*RULES, NoSchemaIntrospectionCustomRule)
