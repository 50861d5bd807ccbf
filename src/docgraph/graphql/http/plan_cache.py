"""Plan cache: query text to plan (parse, measure, validate, plan).

A plan is stored with its visible app: two callers share one exactly when the schema is the same for
both, and an app that was replaced, deleted or evicted from its cache takes its plans along. The
validation rules are those of the GraphQL specification, with clearer messages and bounds.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Sequence
from math import isfinite
from typing import Any
from weakref import ref

from graphql import (
    SKIP,
    ArgumentNode,
    ASTValidationRule,
    DocumentNode,
    FieldNode,
    FloatValueNode,
    GraphQLError,
    GraphQLInputType,
    IntValueNode,
    ValidationRule,
    ValueNode,
    VariableDefinitionNode,
    VisitorAction,
    get_named_type,
    specified_rules,
    validate,
)
from graphql.pyutils import print_path_list
from graphql.utilities import validate_input_literal
from graphql.validation import (
    NoSchemaIntrospectionCustomRule,
    OverlappingFieldsCanBeMergedRule,
    ValidationContext,
    ValuesOfCorrectTypeRule,
)

from docgraph.exchange import Account
from docgraph.graphql.apps.compiled_app import App, VisibleApp
from docgraph.graphql.definition.query_limits import (
    MAX_COMPARISONS,
    MAX_FIELDS,
    check_limits,
    measure_merging,
    parse_query,
    reject_repetition,
)
from docgraph.graphql.errors import (
    MAX_ERRORS,
    Classification,
    GraphqlError,
    OperationRefused,
    count_more,
    find_locations,
    phrase,
)
from docgraph.graphql.federation.subgraph import SERVICE_FIELD
from docgraph.graphql.http.body import GraphqlRequest
from docgraph.graphql.plan.plan import Plan, build_plan, select_operation
from docgraph.runtime import Lane, LoadingCache, LruDict, run_blocking

_MAX_PLANS = 1_000
_LONGEST_KEPT = 16_384  # characters: with the number of plans this bounds the memory
_SHORT = 600  # characters; the most expensive text of this length takes about 30 ms
_SMALL = 5_000  # characters, counted for each type that they may have to be planned for
_UNKNOWN_CALLER, _KNOWN_CALLER = "$unauthenticated", "$authenticated"
_ABORTED = "Validation aborted."
_SUGGESTION = re.compile(r" Did you mean .*\?$", re.DOTALL)


PlanKey = tuple[bool, str | None, str]
"""Whether introspection is allowed, the name of the operation, the text."""


class Plans:
    """At most `size` plans of all apps together (LRU), which it knows by weak references only."""

    def __init__(self, size: int) -> None:
        self._used: LruDict[ref[Plan], PlanKey] = LruDict(size)
        # The garbage collector may call from anywhere, even in the middle of a change of `_used`.
        self._gone: deque[ref[Plan]] = deque()

    def get(self, app: VisibleApp, key: PlanKey) -> Plan | None:
        """Return the plan and mark it as used, or None."""
        plan: Plan | None = app.plans.get(key)
        if plan is not None:
            self._used.get(ref(plan))
        return plan

    def put(self, app: VisibleApp, key: PlanKey, plan: Plan) -> None:
        """Add a plan of an app; evict the least recently used one of any app if necessary."""
        self._sweep()
        replaced: Plan | None = app.plans.get(key)
        if replaced is not None:
            self._used.pop(ref(replaced))
        app.plans[key] = plan
        dropped = self._used.put(ref(plan, self._gone.append), key)
        if dropped is not None and (oldest := dropped[0]()) is not None:
            del oldest.app.plans[dropped[1]]

    def _sweep(self) -> None:
        """Drop the entries of plans that were freed with their apps."""
        while self._gone:
            self._used.pop(self._gone.popleft())

    def __len__(self) -> int:
        self._sweep()
        return len(self._used)


class Operations:
    """The plans of this process; work that would block the event loop runs in the `lane`."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._plans = Plans(_MAX_PLANS)
        self._building: LoadingCache[tuple[VisibleApp, PlanKey], Plan] = LoadingCache(0)

    async def view(self, app: App, roles: Collection[str]) -> VisibleApp:
        view = app.kept_view(roles)
        if view is None:
            view = await run_blocking(self._lane, app.visible_to, roles)
        return view

    async def find(
        self, app: VisibleApp, request: GraphqlRequest, *, introspection: bool
    ) -> tuple[Plan, bool]:
        """Return the plan of an operation, and whether it was cached."""
        key = (introspection, request.operation_name, request.query)
        plan = self._plans.get(app, key)
        if plan is not None:
            return plan, True
        if _is_large(app, request.query):
            plan = await self._building.get((app, key), self._build_aside)
        else:
            plan = self._build(app, key)
        if len(request.query) <= _LONGEST_KEPT:
            self._plans.put(app, key, plan)
        return plan, False

    async def close(self) -> None:
        """Cancel plans in progress."""
        await self._building.close()

    async def _build_aside(self, work: tuple[VisibleApp, PlanKey]) -> Plan:
        """Build the plan in a thread, once for concurrent requests."""
        return await run_blocking(self._lane, self._build, *work)

    def _build(self, app: VisibleApp, key: PlanKey) -> Plan:
        introspection, operation_name, query = key
        document = parse_query(query, app.app.limits)
        check_limits(document, app.app.limits)
        select_operation(document, operation_name)  # has a clearer message for mutations
        _check_validity(app, document, introspection=introspection)
        is_large = _is_large(app, query)
        return build_plan(app, document, operation_name, is_large=is_large)


def _is_large(app: VisibleApp, query: str) -> bool:
    """Return whether parsing, validating and planning may block the event loop for too long."""
    return len(query) > _SHORT or len(query) * app.breadth > _SMALL


def may_introspect(setting: str | Sequence[str], account: Account | None) -> bool:
    """Apply `graphql.introspection`: everyone, authenticated users, no one, or a role."""
    match setting:
        case "all":
            return True
        case "authenticated":
            return account is not None
        case "off":
            return False
        case roles:
            return account is not None and not set(roles).isdisjoint(account.roles)


def is_bound(setting: Collection[str], account: Account | None, root_role: str | None) -> bool:
    """Apply `graphql.operations-only`: return whether a caller may run only persisted queries.

    One role that is not listed lifts the restriction, as one role is enough to be permitted
    elsewhere. A caller without roles is treated like an anonymous one.
    """
    if not setting:
        return False
    if account is None:
        return _UNKNOWN_CALLER in setting
    if account.owner is not None and is_bound(setting, account.owner, root_role):
        return True  # fewer roles do not lift it
    if _KNOWN_CALLER in setting:
        return root_role not in account.roles or root_role in setting
    if not account.roles:
        return _UNKNOWN_CALLER in setting
    return set(account.roles).issubset(setting)


def _check_validity(app: VisibleApp, document: DocumentNode, *, introspection: bool) -> None:
    """Validate by the rules of the specification, without suggestions, which name hidden fields."""
    merging = measure_merging(app.schema, document, MAX_FIELDS)
    if merging.comparisons > (MAX_COMPARISONS if merging.alike else COMPARISONS):
        raise reject_repetition()
    rules = choose_rules(introspection=introspection, alike=merging.alike)
    errors = validate(app.schema, document, rules, max_errors=MAX_ERRORS, hide_suggestions=True)
    if any(error.message == _ABORTED for error in errors):
        raise reject_repetition()
    if errors:
        shown = [_describe(error) for error in errors[:MAX_ERRORS]]
        raise OperationRefused([*shown, count_more()] if len(errors) > MAX_ERRORS else shown)


def _describe(error: GraphQLError) -> GraphqlError:
    message = phrase(_SUGGESTION.sub("", error.message))  # some rules suggest names anyway
    locations = find_locations(error)
    return GraphqlError(message, Classification.VALIDATION, "invalid-query", locations)


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

    def enter_float_value(self, node: IntValueNode | FloatValueNode, *_: Any) -> None:
        type_ = get_named_type(self.context.get_input_type())
        if (type_ is None or type_.name == "Float") and not isfinite(float(node.value)):
            message = f"{self.owner}: {node.value[:40]} is beyond the range of a double"
            self.report_error(GraphQLError(message, node))

    enter_int_value = enter_float_value  # an integer may be given for a Float


class BoundedMergingRule(OverlappingFieldsCanBeMergedRule):
    """Fields can be merged. The comparisons were counted before; this bound is a fallback."""

    def __init__(self, context: ValidationContext) -> None:
        super().__init__(context)
        self.rule_context.remaining_complexity_budget = _UNITS


class NoServiceRule(ValidationRule):
    """Rejects `_service` of a subgraph: its SDL is the schema."""

    def enter_field(self, node: FieldNode, *_: Any) -> None:
        """Report the field, unless it is one of the author's."""
        definition = self.context.get_field_def()
        if node.name.value == SERVICE_FIELD and definition and definition.resolve:
            message = f"GraphQL introspection has been disabled, and {SERVICE_FIELD} with it."
            self.report_error(GraphQLError(message, node))


_OURS: dict[type[ASTValidationRule], type[ASTValidationRule]] = {
    ValuesOfCorrectTypeRule: NamedValuesOfCorrectTypeRule,
    OverlappingFieldsCanBeMergedRule: BoundedMergingRule,
}

_RULES = (*(_OURS.get(rule, rule) for rule in specified_rules), FiniteNumbersRule)
_RULES_FOR_ALIKE = tuple(rule for rule in _RULES if rule is not BoundedMergingRule)


def choose_rules(*, introspection: bool, alike: bool) -> Sequence[type[ASTValidationRule]]:
    """Return the rules for a caller; fields of the same name that are `alike` need no merging."""
    rules = _RULES_FOR_ALIKE if alike else _RULES
    return rules if introspection else (*rules, NoSchemaIntrospectionCustomRule, NoServiceRule)
