"""Query text → plan: parsed, measured, validated, planned, and kept.

Plans are kept with what callers see, so two callers share one exactly when nothing in the schema
could tell them apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphql import ASTValidationRule, DocumentNode, GraphQLError, validate

from docgraph.config.sections import Graphql
from docgraph.exchange import Account
from docgraph.graphql.app import VisibleApp
from docgraph.graphql.body import GraphqlRequest
from docgraph.graphql.errors import (
    MAX_ERRORS,
    Classification,
    GraphqlError,
    OperationRefused,
    name_null,
)
from docgraph.graphql.limits import check_limits, parse_query
from docgraph.graphql.plan import Plan, build_plan, select_operation
from docgraph.graphql.plans import Plans
from docgraph.graphql.rules import RULES, RULES_WITHOUT_INTROSPECTION

__all__ = ["Operations", "may_introspect"]

_MAX_PLANS = 1_000
_LONGEST_KEPT = 16_384  # characters: with the number of plans it bounds the memory
_SUGGESTION = re.compile(r" Did you mean .*\?$", re.DOTALL)


class Operations:
    """The plans of this process."""

    def __init__(self, settings: Graphql) -> None:
        self._settings = settings
        self._plans = Plans(_MAX_PLANS)

    def find(
        self, app: VisibleApp, request: GraphqlRequest, *, introspection: bool
    ) -> tuple[Plan, bool]:
        """The plan of an operation, and whether it was kept from an earlier request."""
        key = (introspection, request.operation_name, request.query)
        plan = self._plans.get(app, key)
        if plan is not None:
            return plan, True
        plan = self._build(app, request, introspection=introspection)
        if len(request.query) <= _LONGEST_KEPT:
            self._plans.put(app, key, plan)
        return plan, False

    def _build(self, app: VisibleApp, request: GraphqlRequest, *, introspection: bool) -> Plan:
        document = parse_query(request.query, app.limits)
        check_limits(document, app.limits)
        select_operation(document, request.operation_name)  # says more of mutations than the rules
        _check_validity(app, document, RULES if introspection else RULES_WITHOUT_INTROSPECTION)
        return build_plan(app, document, request.operation_name, self._settings)


def may_introspect(setting: str | Sequence[str], account: Account | None) -> bool:
    """`graphql.introspection`: everybody, known callers, nobody, or those with a role."""
    match setting:
        case "all":
            return True
        case "authenticated":
            return account is not None
        case "off":
            return False
        case roles:
            return account is not None and not set(roles).isdisjoint(account.roles)


def _check_validity(
    app: VisibleApp, document: DocumentNode, rules: Sequence[type[ASTValidationRule]]
) -> None:
    """The rules of the specification, without suggestions, which would name what is hidden."""
    errors = validate(app.schema, document, rules, max_errors=MAX_ERRORS, hide_suggestions=True)
    if errors:
        raise OperationRefused([_describe(error) for error in errors])


def _describe(error: GraphQLError) -> GraphqlError:
    locations = tuple((place.line, place.column) for place in error.locations or ())
    message = _SUGGESTION.sub("", error.message)  # some rules suggest, whatever they are told
    return GraphqlError(name_null(message), Classification.VALIDATION, "invalid-query", locations)
