"""`__schema` and `__type`: the one thing that graphql-core's own executor answers.

The answer depends on nothing but the visible schema, the query and the variables it uses, so it is
kept, encoded, with the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from graphql import DocumentNode, GraphQLError, GraphQLSchema
from graphql import execute_sync as answer

from docgraph.graphql.errors import FieldFailure
from docgraph.graphql.planning.collect import Collector
from docgraph.graphql.planning.tree import Introspection

__all__ = ["Introspections"]

_KEPT = 8  # answers of one plan, for different variables


class Introspections:
    """The answers to the introspection fields of one plan."""

    def __init__(self, schema: GraphQLSchema, collector: Collector) -> None:
        self._schema = schema
        self._fragments = tuple(collector.fragments.values())
        self._answers: dict[Any, Any] = {}

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        answers = self._answers.values()
        return sum(len(value) for value in answers if isinstance(value, bytes))

    def answer(self, field: Introspection, variables: Mapping[str, Any]) -> Any:
        """The value of the field: encoded JSON, null, or a failure."""
        used = sorted((name, repr(variables[name])) for name in field.variables & variables.keys())
        # Nodes of the document, which live as long as the plan: their ids name the selection.
        nodes = tuple(map(id, field.operation.selection_set.selections))
        key = (field.key, nodes, tuple(used))
        value = self._answers.get(key)
        if value is None:
            value = self._compute(field, variables)
            if len(self._answers) < _KEPT:
                self._answers[key] = value
        return orjson.Fragment(value) if isinstance(value, bytes) else value

    def _compute(
        self, field: Introspection, variables: Mapping[str, Any]
    ) -> bytes | FieldFailure | None:
        document = DocumentNode(definitions=(field.operation, *self._fragments))
        try:
            result = answer(self._schema, document, variable_values=dict(variables))
        except GraphQLError as error:
            return FieldFailure(error.message, "introspection-failed")
        if result.errors or result.data is None:
            return FieldFailure("the schema cannot be shown", "introspection-failed")
        value = result.data[field.key]
        return None if value is None else orjson.dumps(value)
