"""Introspection: `__schema` and `__type`, answered by graphql-core's own executor.

The answer depends only on the visible schema, the query and the variables it uses, so it is cached,
encoded. For a large schema it takes seconds to build and megabytes to store: it is built outside of
the event loop, once for concurrent requests, and all answers of a process share one bound.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any
from weakref import ref

import orjson
from graphql import DocumentNode, FragmentDefinitionNode, GraphQLError
from graphql import execute_sync as execute

from docgraph.graphql.errors import FieldFailure
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.execute.introspection_cache import CachedAnswer, IntrospectionCache
from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.plan.plan_tree import Introspection
from docgraph.runtime import run_blocking

_NULL = b"null"


async def introspect(field: Introspection, run: Run) -> Any:
    """Return the value of the field: encoded JSON, null, or a failure."""
    plan, variables = run.plan, run.variable_values

    async def load(_: Hashable) -> CachedAnswer:
        if run.lane is None:
            return _compute(plan, field, variables)
        return await run_blocking(run.lane, _compute, plan, field, variables)

    answers = run.answers or IntrospectionCache()
    answer = await answers.get(_identify(plan, field, variables), load)
    if isinstance(answer, FieldFailure):
        return answer
    return None if answer == _NULL else orjson.Fragment(answer)


def _identify(plan: Plan, field: Introspection, variables: Mapping[str, Any]) -> Hashable:
    used = sorted((name, repr(variables[name])) for name in field.variables & variables.keys())
    # The document's nodes live as long as the plan, so their ids identify the selection.
    nodes = tuple(map(id, field.operation.selection_set.selections))
    return ref(plan), field.key, nodes, tuple(used)


def _compute(plan: Plan, field: Introspection, variables: Mapping[str, Any]) -> CachedAnswer:
    fragments = [d for d in plan.document.definitions if isinstance(d, FragmentDefinitionNode)]
    document = DocumentNode(definitions=(field.operation, *fragments))
    try:
        result = execute(plan.app.schema, document, variable_values=dict(variables))
    except GraphQLError as error:
        return FieldFailure(error.message, "introspection-failed")
    if result.errors or result.data is None:
        return FieldFailure("the schema cannot be shown", "introspection-failed")
    return orjson.dumps(result.data[field.key])
