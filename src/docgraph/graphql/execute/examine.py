"""Completing values, the slow path: keep valid values and report the invalid ones.

As in the GraphQL specification: an invalid value is null with an error, and a null where none is
allowed makes its list or object null. Only blocks with an invalid value come here; the usual path
is generated code (`plan/leaves.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from graphql import GraphQLOutputType, is_list_type, is_non_null_type

from docgraph.graphql.errors import Classification, Damaged, Errors, FieldFailure, FieldPosition
from docgraph.graphql.plan.leaves import LeafField, TypenameField, UnmappedField, is_nullable
from docgraph.graphql.plan.plan_tree import Block

Finish = Callable[[Any], Any]

# The errors that a serializer raises for a value that does not match the schema.
MISFITS = (ValueError, TypeError, AttributeError, ArithmeticError, LookupError)


def examine_object(block: Block, document: Any, row: Iterator[Any]) -> Any:
    """Complete one object, field by field in the order of the response."""
    errors = Errors()
    result: dict[str, Any] = {}
    for field in block.fields:
        value: Any
        match field:
            case TypenameField():
                value = field.value
            case UnmappedField():
                value = examine(field.type, field.failure, _never, field.position)
            case LeafField():
                finish = finish_leaf(field.serialize, field.position)
                value = examine(field.type, field.get(document), finish, field.position)
            case _:
                value = next(row)
        if type(value) is Damaged:
            errors.absorb(value.errors, field.key)
            value = value.value
            if (
                value is None
                and not isinstance(field, TypenameField)
                and not is_nullable(field.type)
            ):
                return Damaged(None, errors)
        result[field.key] = value
    return Damaged(result, errors) if errors else result


def _never(value: Any) -> Any:
    raise AssertionError(value)


def finish_leaf(serialize: Finish, position: FieldPosition) -> Finish:
    """Build the function that completes a scalar or enum value (decision 16).

    A value that does not fit is null with an error.
    """

    def finish(value: Any) -> Any:
        try:
            return serialize(value)
        except MISFITS as error:
            reason = str(error) if isinstance(error, ValueError) else "it is of another type"
            text = f"the stored value of {position.coordinates} does not fit: {reason}"
            return Damaged(None, FieldFailure(text, "value-does-not-fit").at(position))

    return finish


def examine(type_: GraphQLOutputType, value: Any, finish: Finish, position: FieldPosition) -> Any:
    """Return the completed value, or `Damaged` with everything that is wrong with it."""
    if isinstance(value, FieldFailure):
        return Damaged(None, value.at(position))
    if is_non_null_type(type_):
        completed = examine(type_.of_type, value, finish, position)
        if completed is None:
            text = f"{position.coordinates} is declared as non-null and has no value"
            failure = FieldFailure(text, "null-in-non-null", Classification.NULL)
            return Damaged(None, failure.at(position))
        return completed
    if value is None:
        return None
    if is_list_type(type_):
        return _examine_list(type_.of_type, value, finish, position)
    return finish(value)


def _examine_list(item_type: Any, value: Any, finish: Finish, position: FieldPosition) -> Any:
    if type(value) is not list:
        text = f"the stored value of {position.coordinates} does not fit: it is not a list"
        return Damaged(None, FieldFailure(text, "value-does-not-fit").at(position))
    errors = Errors()
    completed = []
    for index, item in enumerate(value):
        element = examine(item_type, item, finish, position)
        if type(element) is Damaged:
            errors.absorb(element.errors, index)
            element = element.value
            if element is None and is_non_null_type(item_type):
                return Damaged(None, errors)
        completed.append(element)
    return Damaged(completed, errors) if errors else completed
