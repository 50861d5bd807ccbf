"""Entities: the objects that a gateway asks for by their keys (`_entities`).

A representation is the parent of a lookup: its keys, coerced to the scalars of the schema, are the
foreign keys of a join. So equal representations are found once, and many by one command. Every
other field of a representation is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from graphql import GraphQLError
from graphql.execution.values import VariableValues

from docgraph.exchange.data import SeveralKinds
from docgraph.graphql.definition.query_limits import MAX_LIST
from docgraph.graphql.errors import (
    Classification,
    Damaged,
    Errors,
    FieldFailure,
    OperationRefused,
    phrase,
)
from docgraph.graphql.execute.complete import CompletedValues
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.federation.field_sets import KeyPath, nest
from docgraph.graphql.plan.plan_tree import Entities, EntityLookup, Fetch
from docgraph.graphql.plan.relation import freeze
from docgraph.runtime.tasks import concurrently

_TYPENAME: Final = "__typename"

ResolveFetch = Callable[[Fetch, Sequence[Any]], Coroutine[Any, Any, CompletedValues]]


@dataclass(slots=True)
class EntityParents:
    """The different parents of one lookup, and their numbers by their keys."""

    lookup: EntityLookup
    parents: list[Any] = field(default_factory=list)
    numbers: dict[Hashable, int] = field(default_factory=dict)

    def add(self, values: Mapping[KeyPath, Any]) -> int:
        """Return the number of the parent with these keys."""
        key = freeze(list(values.values()))
        number = self.numbers.setdefault(key, len(self.parents))
        if number == len(self.parents):
            self.parents.append(nest(dict(values)))
        return number


@dataclass(slots=True)
class PreparedEntities:
    """What is sought for each representation: a parent of a lookup, or why there is none."""

    lookups: dict[int, EntityParents] = field(default_factory=dict)
    sought: list[tuple[EntityParents, int] | FieldFailure] = field(default_factory=list)


def check_long_lists(columns: Sequence[Entities], values: Mapping[str, Any]) -> None:
    """Reject a longer list than variables may have, unless it has representations."""
    allowed = {variable for column in columns for _, variable in column.arguments.direct}
    for name, value in values.items():
        if type(value) is list and len(value) > MAX_LIST and name not in allowed:
            text = f"the list of the variable ${name} has more than {MAX_LIST} elements"
            raise OperationRefused.because(text, "bad-variable")


def prepare_entities(columns: Sequence[Entities], variables: VariableValues, run: Run) -> None:
    """Read the representations; a wrong one fails alone."""
    for column in columns:
        _prepare(column, variables, run)


def _prepare(column: Entities, variables: VariableValues, run: Run) -> None:
    prepared = PreparedEntities()
    try:
        given = column.arguments.coerce(variables)["representations"]
    except FieldFailure as failure:
        raise OperationRefused.because(failure.message, failure.code) from None
    run.representations += len(given)
    if run.representations > run.limits.representations:
        text = f"there are more than {run.limits.representations} representations"
        raise OperationRefused.because(text, "too-many-representations", Classification.ABORTED)
    for representation in given:
        try:
            prepared.sought.append(_read(column, representation, prepared.lookups))
        except FieldFailure as failure:
            prepared.sought.append(failure)
    for parents in prepared.lookups.values():
        run.parents[id(parents.lookup.fetch)] = len(parents.parents)
    run.entities[id(column)] = prepared


def _read(
    column: Entities, representation: Any, lookups_by_id: dict[int, EntityParents]
) -> tuple[EntityParents, int]:
    if not isinstance(representation, dict):
        raise _reject("a representation must be an object")
    name = representation.get(_TYPENAME)
    if not isinstance(name, str):
        raise _reject(f"a representation must have a {_TYPENAME}")
    lookups = column.lookups.get(name)
    if lookups is None:  # hidden types are as unknown as those that do not exist
        raise _reject(f"there is no entity of the type {name}")
    for lookup in lookups:
        values = {path: _get(representation, path) for path, _ in lookup.keys}
        if None not in values.values():
            coerced = {
                path: _coerce(name, path, type_, values[path]) for path, type_ in lookup.keys
            }
            parents = lookups_by_id.setdefault(id(lookup), EntityParents(lookup))
            return parents, parents.add(coerced)
    keys = " or ".join(" ".join(".".join(path) for path, _ in each.keys) for each in lookups)
    raise _reject(f"a representation of {name} needs {keys}")


def _reject(text: str) -> FieldFailure:
    return FieldFailure(text, "bad-representation", Classification.VALIDATION)


def _get(representation: Any, path: KeyPath) -> Any:
    value = representation
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _coerce(name: str, path: KeyPath, type_: Any, value: Any) -> Any:
    """Return a key as its scalar reads it: a value, never an operator (20a)."""
    try:
        coerced = type_.coerce_input_value(value)
    except (GraphQLError, ValueError, TypeError) as error:
        raise _reject(
            f"the key {name}.{'.'.join(path)} does not fit: {phrase(str(error))}"
        ) from None
    if isinstance(coerced, SeveralKinds) and len(coerced.candidates) == 1:
        return coerced.candidates[0]
    return coerced


async def resolve_entities(column: Entities, run: Run, resolve: ResolveFetch) -> CompletedValues:
    """Return the one value of the field: a list with an object or null per representation."""
    prepared: PreparedEntities = run.entities[id(column)]
    lookups = list(prepared.lookups.values())
    values_of_lookups = await concurrently(
        [resolve(each.lookup.fetch, each.parents) for each in lookups]
    )
    completed = {
        id(each): values.items for each, values in zip(lookups, values_of_lookups, strict=True)
    }
    errors, objects = Errors(), list[Any]()
    for index, sought in enumerate(prepared.sought):
        if isinstance(sought, FieldFailure):
            item: Any = Damaged(None, sought.at(column.position))
        else:
            item = completed[id(sought[0])][sought[1]]
        if type(item) is Damaged:
            errors.absorb(item.errors, index)
            item = item.value
        objects.append(item)
    return CompletedValues([Damaged(objects, errors) if errors else objects], bool(errors))
