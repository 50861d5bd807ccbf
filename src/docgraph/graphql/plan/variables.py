"""Variables of an operation: declarations, parsed once, and the values of a request.

graphql-core coerces the values and reports what is wrong. This module prepares what can be known
before: the types, and whether all variables are plain scalars or enums, whose values need no
inspection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from graphql import (
    GraphQLError,
    GraphQLInputType,
    GraphQLSchema,
    OperationDefinitionNode,
    Undefined,
    is_leaf_type,
    is_non_null_type,
)
from graphql.execution.get_variable_signature import (
    GraphQLVariableSignature,
    get_variable_signature,
)
from graphql.execution.values import VariableValues, VariableValueSource, get_variable_values
from graphql.utilities import coerce_input_value

from docgraph.graphql.errors import (
    MAX_ERRORS,
    Classification,
    GraphqlError,
    OperationRefused,
    count_more,
)
from docgraph.graphql.parser_messages import phrase


class _Plain(NamedTuple):
    """A variable whose type is a scalar or an enum, nullable or not."""

    name: str
    type: GraphQLInputType  # without its `!`
    signature: GraphQLVariableSignature


_NO_VARIABLES: Final = VariableValues({}, {})


class VariableReader:
    """Reads the values of the variables of one operation."""

    def __init__(self, schema: GraphQLSchema, operation: OperationDefinitionNode) -> None:
        self._schema = schema
        self._definitions = operation.variable_definitions or ()
        self._plain = self._find_plain()

    def read(self, values: Mapping[str, Any]) -> VariableValues:
        """Return the coerced variables; raise `OperationRefused` for those that do not fit."""
        quick = self._read_plain(values)
        return self._read_any(values) if quick is None else quick

    def _find_plain(self) -> tuple[_Plain, ...] | None:
        """Return the variables, if all of them are plain."""
        found: list[_Plain] = []
        for definition in self._definitions:
            signature = get_variable_signature(self._schema, definition)
            if isinstance(signature, GraphQLError):
                return None
            type_ = signature.type
            inner = type_.of_type if is_non_null_type(type_) else type_
            if not is_leaf_type(inner):
                return None
            found.append(_Plain(signature.name, inner, signature))
        return tuple(found)

    def _read_plain(self, values: Mapping[str, Any]) -> VariableValues | None:
        """Return the values if all are given and fit; None for all other cases."""
        if not self._plain:
            return None if self._plain is None else _NO_VARIABLES
        sources: dict[str, VariableValueSource] = {}
        coerced: dict[str, Any] = {}
        for name, type_, signature in self._plain:
            value = values.get(name)
            if value is None:  # absent or null: defaults, omissions, errors
                return None
            result = coerce_input_value(value, type_)
            if result is Undefined:
                return None
            sources[name] = VariableValueSource(signature, value)
            coerced[name] = result
        return VariableValues(sources, coerced)

    def _read_any(self, values: Mapping[str, Any]) -> VariableValues:
        coerced = get_variable_values(
            self._schema,
            self._definitions,
            dict(values),
            max_errors=MAX_ERRORS,
            hide_suggestions=True,
        )
        if isinstance(coerced, VariableValues):
            return coerced
        errors = [_describe(error) for error in coerced[:MAX_ERRORS]]
        if len(coerced) > MAX_ERRORS:  # the last one reports, in its own words, that there are more
            errors.append(count_more())
        raise OperationRefused(errors)


def _describe(error: GraphQLError) -> GraphqlError:
    locations = tuple((place.line, place.column) for place in error.locations or ())
    return GraphqlError(phrase(error.message), Classification.VALIDATION, "bad-variable", locations)
