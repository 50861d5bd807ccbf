"""The validation rules: those of the specification, and what ours say beyond it."""

from __future__ import annotations

from typing import Any

from graphql import (
    SKIP,
    ArgumentNode,
    ASTValidationRule,
    GraphQLError,
    GraphQLInputType,
    ValueNode,
    VariableDefinitionNode,
    VisitorAction,
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


class NamedValuesOfCorrectTypeRule(ValuesOfCorrectTypeRule):
    """Values of correct type, with the argument or variable in the message, and the path in it."""

    _owner = ""

    def enter_argument(self, node: ArgumentNode, *_: Any) -> None:
        """Remember whose value comes next."""
        self._owner = f"Argument '{node.name.value}' has invalid value"

    def enter_variable_definition(self, node: VariableDefinitionNode, *_: Any) -> None:
        """Remember whose default comes next."""
        self._owner = f"Variable '${node.variable.name.value}' has invalid default value"

    def is_valid_value_node(
        self, node: ValueNode, input_type: GraphQLInputType | None
    ) -> VisitorAction:
        """Check the whole value; nothing below it is visited."""

        def tell(error: GraphQLError, path: list[str | int]) -> None:
            message = f"{self._owner}{print_path_list(path)}: {error.message}"
            self.report_error(GraphQLError(message, error.nodes if error.locations else node))

        if input_type:
            hide = self.context.hide_suggestions
            validate_input_literal(node, input_type, tell, hide_suggestions=hide)
        return SKIP


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

RULES = tuple(_OURS.get(rule, rule) for rule in specified_rules)
RULES_WITHOUT_INTROSPECTION = (*RULES, NoSchemaIntrospectionCustomRule)
