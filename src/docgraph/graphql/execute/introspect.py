"""`__schema` and `__type`: the one thing that graphql-core's own executor answers.

The answer depends on nothing but the visible schema, the query and the variables it uses, so it is
kept, encoded. That of a large schema takes seconds to make and megabytes to keep: it is made
outside of the event loop, once for all who ask at the same time, and all answers of a process
share one bound.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any
from weakref import ref

import orjson
from graphql import DocumentNode, FragmentDefinitionNode, GraphQLError
from graphql import execute_sync as execute

from docgraph.graphql.errors import FieldFailure
from docgraph.graphql.execute.answers import Answer, Answers
from docgraph.graphql.execute.run import Run
from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.plan.tree import Introspection
from docgraph.runtime import run_blocking

__all__ = ["introspect"]

_NULL = b"null"


async def introspect(field: Introspection, run: Run) -> Any:
    """The value of the field: encoded JSON, null, or a failure."""
    plan, variables = run.plan, run.variable_values

    async def load(_: Hashable) -> Answer:
        if run.lane is None:
            return _compute(plan, field, variables)
        return await run_blocking(run.lane, _compute, plan, field, variables)

    answers = run.answers or Answers()
    answer = await answers.get(_identify(plan, field, variables), load)
    if isinstance(answer, FieldFailure):
        return answer
    return None if answer == _NULL else orjson.Fragment(answer)


def _identify(plan: Plan, field: Introspection, variables: Mapping[str, Any]) -> Hashable:
    used = sorted((name, repr(variables[name])) for name in field.variables & variables.keys())
    # Nodes of the document, which live as long as the plan: their ids name the selection.
    nodes = tuple(map(id, field.operation.selection_set.selections))
    return ref(plan), field.key, nodes, tuple(used)


def _compute(plan: Plan, field: Introspection, variables: Mapping[str, Any]) -> Answer:
    fragments = [d for d in plan.document.definitions if isinstance(d, FragmentDefinitionNode)]
    document = DocumentNode(definitions=(field.operation, *fragments))
    try:
        result = execute(plan.app.schema, document, variable_values=dict(variables))
    except GraphQLError as error:
        return FieldFailure(error.message, "introspection-failed")
    if result.errors or result.data is None:
        return FieldFailure("the schema cannot be shown", "introspection-failed")
    return orjson.dumps(result.data[field.key])
