"""Introspection: `__schema` and `__type`, answered from the visible schema.

graphql-core has the resolvers. Its executor treats each of the hundred thousand values of a large
schema like the result of a database: here a selection is compiled once, and a type that many fields
refer to is rendered once.

The answer depends only on the visible schema, the query and the variables it uses, so it is cached,
encoded. For a large schema it takes megabytes to store: it is built outside of the event loop, once
for concurrent requests, and all answers of a process share one bound.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple
from weakref import ref

from graphql import (
    FieldNode,
    GraphQLEnumType,
    GraphQLError,
    GraphQLField,
    GraphQLList,
    GraphQLNamedType,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLSchema,
)
from graphql.execution.values import VariableValues, get_argument_values

from docgraph.graphql.errors import FieldFailure, reject_length
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.execute.introspection_cache import IntrospectionAnswer, IntrospectionCache
from docgraph.graphql.plan.collect import Collector
from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.plan.plan_tree import Introspection
from docgraph.runtime import allocations, run_blocking

_NULL = b"null"

_Resolve = Callable[..., Any]
_Complete = Callable[[Any], Any] | None  # None: the value is JSON already


async def introspect(field: Introspection, run: Run) -> Any:
    """Return the value of the field: encoded JSON, null, or a failure."""
    plan, variables = run.plan, run.variable_values

    async def load(_: Hashable) -> IntrospectionAnswer:
        if run.lane is None:
            return _compute(plan, field, variables)
        return await run_blocking(run.lane, _compute, plan, field, variables)

    used = sorted((name, repr(variables[name])) for name in field.variables & variables.keys())
    # The document's nodes live as long as the plan, so their ids identify the selection.
    key = ref(plan), field.key, tuple(map(id, field.nodes)), tuple(used)
    answers = run.answers or IntrospectionCache()
    answer = await answers.get(key, load)
    if isinstance(answer, FieldFailure):
        return answer
    return None if answer == _NULL else answer


def _compute(plan: Plan, field: Introspection, variables: Mapping[str, Any]) -> IntrospectionAnswer:
    values = plan.variables.read(variables)
    flags = {name: values.coerced.get(name) for name in plan.conditions}
    collector = Collector.of(plan.app.schema, plan.document, flags)
    compiler = _SelectionCompiler(collector, values)
    try:
        resolve, complete = compiler.compile(field.definition, field.nodes)
        value = resolve(None, compiler.info)
        if value is not None and complete is not None:
            value = complete(value)
        limit = plan.app.app.limits.response_bytes
        if _measure(value, {}) > limit:
            raise reject_length(limit)
        return allocations.dumps(value)
    except FieldFailure as failure:
        return failure
    except GraphQLError:
        return FieldFailure("the schema cannot be shown", "introspection-failed")


def _measure(value: Any, sizes: dict[int, int]) -> int:
    """Return the minimum length of the JSON; an object that fields share counts once."""
    match value:
        case str():
            return len(value) + 2
        case list():
            return 2 + sum([_measure(item, sizes) + 1 for item in value])
        case dict():
            size = sizes.get(id(value))
            if size is None:
                size = sum([len(key) + 3 + _measure(item, sizes) for key, item in value.items()])
                sizes[id(value)] = size
            return size
    return 1


class _Info(NamedTuple):
    """The part of an execution that graphql-core's introspection resolvers use."""

    schema: GraphQLSchema


@dataclass
class _SelectionCompiler:
    """Compiles the fields of one operation to functions."""

    collector: Collector
    variables: VariableValues

    @cached_property
    def info(self) -> _Info:
        return _Info(self.collector.schema)

    def compile(
        self, definition: GraphQLField, nodes: Sequence[FieldNode]
    ) -> tuple[_Resolve, _Complete]:
        """Return the resolver of a field, and how its value becomes JSON."""
        assert definition.resolve is not None  # noqa: S101 - graphql-core defines these fields
        resolve: _Resolve = definition.resolve
        if definition.args:
            resolve = partial(resolve, **get_argument_values(definition, nodes[0], self.variables))
        return resolve, self._complete(definition.type, nodes)

    def _complete(self, type_: GraphQLOutputType, nodes: Sequence[FieldNode]) -> _Complete:
        match type_:
            case GraphQLNonNull():
                return self._complete(type_.of_type, nodes)
            case GraphQLList():
                complete = self._complete(type_.of_type, nodes)
                if complete is None:
                    return list
                return lambda values: [complete(value) for value in values]
            case GraphQLObjectType():
                return _Objects(self, type_, nodes).build
            case GraphQLEnumType():
                return {value.value: name for name, value in type_.values.items()}.__getitem__
        return None


@dataclass
class _Objects:
    """The objects of one selection; it is compiled for the first of them."""

    compiler: _SelectionCompiler
    type: GraphQLObjectType
    nodes: Sequence[FieldNode]
    _known: dict[GraphQLNamedType, dict[str, Any]] = field(default_factory=dict)

    def build(self, source: Any) -> dict[str, Any]:
        """Return the object; that of a named type is built once."""
        if not isinstance(source, GraphQLNamedType):
            return self._build(source)
        if source not in self._known:
            self._known[source] = self._build(source)
        return self._known[source]

    def _build(self, source: Any) -> dict[str, Any]:
        info, answer = self.compiler.info, {}
        for key, resolve, complete in self._fields:
            value = resolve(source, info)
            answer[key] = value if value is None or complete is None else complete(value)
        return answer

    @cached_property
    def _fields(self) -> list[tuple[str, _Resolve, _Complete]]:
        selections = [node.selection_set for node in self.nodes if node.selection_set]
        collected = self.compiler.collector.collect(self.type, selections)
        return [(key, *self._compile(nodes)) for key, nodes in collected.fields.items()]

    def _compile(self, nodes: Sequence[FieldNode]) -> tuple[_Resolve, _Complete]:
        name = nodes[0].name.value
        if name == "__typename":
            return lambda *_: self.type.name, None
        return self.compiler.compile(self.type.fields[name], nodes)
