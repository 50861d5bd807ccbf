"""Validation rules: those of the GraphQL specification, with clearer messages and bounds.

The rule that fields merge compares all fields with the same response key, each with each, and does
so for everything below them: its cost is the square of what the text repeats. `measure_merging`
counts the comparisons before any is made, in one pass that is linear in the fields written out. The
same pass detects whether all fields of each name are equal, as in queries that tools generate from
many fragments: those merge, and the rule has nothing left to find.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from graphql import (
    SKIP,
    ArgumentNode,
    ASTValidationRule,
    DocumentNode,
    FieldNode,
    FloatValueNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLCompositeType,
    GraphQLError,
    GraphQLFloat,
    GraphQLInputType,
    GraphQLNamedType,
    GraphQLOutputType,
    GraphQLSchema,
    InlineFragmentNode,
    IntValueNode,
    OperationDefinitionNode,
    SelectionSetNode,
    ValidationRule,
    ValueNode,
    VariableDefinitionNode,
    VisitorAction,
    get_named_type,
    is_composite_type,
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


Parent = GraphQLCompositeType | None
Signature = tuple[str, str, GraphQLOutputType | None]


@dataclass(slots=True)
class Merging:
    """The cost of checking whether the fields of a document merge."""

    comparisons: int = 0
    alike: bool = True  # fields of one name have the same arguments and types everywhere


@dataclass(slots=True)
class _Group:
    """The fields of one name at one position of the response."""

    signature: Signature
    count: int = 0
    below: list[tuple[Parent, SelectionSetNode]] = field(default_factory=list)


def measure_merging(schema: GraphQLSchema, document: DocumentNode, most_fields: int) -> Merging:
    """Count the comparisons; stop at more fields than that, which only cyclic fragments have."""
    fragments = {
        node.name.value: node
        for node in document.definitions
        if isinstance(node, FragmentDefinitionNode)
    }
    walk = _MergeWalk(schema, fragments, most_fields)
    for node in document.definitions:
        if isinstance(node, OperationDefinitionNode):
            walk.run(schema.get_root_type(node.operation), node.selection_set)
    return walk.found


class _MergeWalk:
    """Walks from the root down; fields that merge are visited together."""

    def __init__(
        self,
        schema: GraphQLSchema,
        fragments: dict[str, FragmentDefinitionNode],
        most_fields: int,
    ) -> None:
        self.found = Merging()
        self._schema = schema
        self._fragments = fragments
        self._fields_left = most_fields

    def run(self, root: Parent, selection_set: SelectionSetNode) -> None:
        pending = [[(root, selection_set)]]
        while pending:
            for group in self._collect(pending.pop()).values():
                self._fields_left -= group.count
                self.found.comparisons += group.count * (group.count - 1) // 2
                if group.below:
                    pending.append(group.below)
            if self._fields_left < 0:
                self.found.alike = False  # the rules report what is wrong
                return

    def _collect(self, merged: list[tuple[Parent, SelectionSetNode]]) -> dict[str, _Group]:
        """Return the groups of selection sets that are merged; a fragment counts once."""
        groups: dict[str, _Group] = {}
        spread: set[str] = set()
        pending = merged
        while pending:
            parent, selection_set = pending.pop()
            for selection in selection_set.selections:
                match selection:
                    case FieldNode():
                        self._add(groups, parent, selection)
                    case InlineFragmentNode(type_condition=condition):
                        inner = self._find(condition.name.value) if condition else parent
                        pending.append((inner, selection.selection_set))
                    case FragmentSpreadNode():
                        name = selection.name.value
                        fragment = self._fragments.get(name)
                        if fragment is not None and name not in spread:
                            spread.add(name)
                            inner = self._find(fragment.type_condition.name.value)
                            pending.append((inner, fragment.selection_set))
        return groups

    def _find(self, name: str) -> Parent:
        return _composite(self._schema.get_type(name))

    def _add(self, groups: dict[str, _Group], parent: Parent, node: FieldNode) -> None:
        name = node.name.value
        known = self._schema.get_field(parent, name) if parent is not None else None
        type_ = known.type if known is not None else None
        signature = (name, _arguments_text(node), type_)
        key = node.alias.value if node.alias else name
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group(signature)
        elif group.signature != signature:
            self.found.alike = False
        group.count += 1
        if node.selection_set is not None:
            inner = _composite(get_named_type(type_)) if type_ is not None else None
            group.below.append((inner, node.selection_set))


def _composite(type_: GraphQLNamedType | None) -> Parent:
    return type_ if is_composite_type(type_) else None


def _arguments_text(node: FieldNode) -> str:
    """Return the arguments as written, which is enough to see that they are the same."""
    if not node.arguments:
        return ""
    first, last = node.arguments[0].loc, node.arguments[-1].loc
    return first.source.body[first.start : last.end] if first and last else ""
