"""Arguments of a field and variables of an operation, coerced as far as they are known.

Literals in the query text are coerced once, when the plan is built; variables, at each execution.
Both follow the GraphQL specification: absent, null and default are three different things.
graphql-core coerces the values and reports what is wrong. What can be known before is prepared
here: the types, and whether all variables are plain scalars or enums, whose values need no
inspection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from graphql import (
    FieldNode,
    GraphQLError,
    GraphQLField,
    GraphQLInputObjectType,
    GraphQLInputType,
    GraphQLLeafType,
    GraphQLSchema,
    ListValueNode,
    ObjectValueNode,
    OperationDefinitionNode,
    Undefined,
    ValueNode,
    VariableNode,
    Visitor,
    get_argument_values,
    get_nullable_type,
    is_leaf_type,
    is_list_type,
    visit,
)
from graphql.execution.get_variable_signature import (
    GraphQLVariableSignature,
    get_variable_signature,
)
from graphql.execution.values import VariableValues, VariableValueSource, get_variable_values
from graphql.language import Node
from graphql.utilities import coerce_input_literal

from docgraph.graphql.definition.visibility import HIDDEN_DEFAULTS
from docgraph.graphql.errors import (
    MAX_ERRORS,
    Classification,
    FieldFailure,
    GraphqlError,
    OperationRefused,
    count_more,
    find_locations,
    phrase,
)

ReadArgument = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class FieldArguments:
    """The `fixed` values, and the variables whose values are passed unchanged.

    `built` are lists and objects with variables inside. `is_simple` is false if one of them cannot
    be built here: graphql-core coerces those.
    """

    definition: GraphQLField
    node: FieldNode
    fixed: Mapping[str, Any]
    direct: tuple[tuple[str, str], ...] = ()
    is_simple: bool = True
    built: tuple[tuple[str, ReadArgument], ...] = ()

    @property
    def is_fixed(self) -> bool:
        """Whether the values do not depend on variables."""
        return self.is_simple and not self.direct and not self.built

    def coerce(self, variables: VariableValues) -> Mapping[str, Any]:
        """Return the values; raise `FieldFailure` for one that does not fit the argument's type."""
        if not self.is_simple:
            return self._coerce_fully(variables)
        if not self.direct and not self.built:
            return self.fixed
        values = dict(self.fixed)
        for name, variable in self.direct:
            value = variables.coerced.get(variable)
            if value is None:  # null or absent: the special cases
                return self._coerce_fully(variables)
            values[name] = value
        try:
            for name, read in self.built:
                values[name] = read(variables.coerced)
        except _NoValue:
            return self._coerce_fully(variables)
        return values

    def _coerce_fully(self, variables: VariableValues) -> Mapping[str, Any]:
        try:
            return _get_values(self.definition, self.node, variables)
        except GraphQLError as error:
            raise FieldFailure(phrase(error.message), "bad-argument") from None


def build_arguments(definition: GraphQLField, node: FieldNode) -> FieldArguments:
    """Coerce the arguments that do not depend on variables."""
    direct: dict[str, str] = {}
    built: dict[str, ReadArgument] = {}
    for argument in node.arguments or ():
        name, value = argument.name.value, argument.value
        if isinstance(value, VariableNode):
            direct[name] = value.name.value
        elif find_variables(value):
            read = _build_reader(value, definition.args[name].type)
            if read is None:
                return FieldArguments(definition, node, {}, is_simple=False)
            built[name] = read
    others = {*direct, *built}
    rest = GraphQLField(
        definition.type,
        args={name: arg for name, arg in definition.args.items() if name not in others},
    )
    rest.extensions = definition.extensions
    fixed = _get_values(rest, node)
    names = {name: definition.args[name].out_name or name for name in others}
    return FieldArguments(
        definition,
        node,
        fixed,
        tuple((names[name], variable) for name, variable in direct.items()),
        built=tuple((names[name], read) for name, read in built.items()),
    )


def _get_values(
    definition: GraphQLField, node: FieldNode, variables: VariableValues | None = None
) -> dict[str, Any]:
    """Return the values of all arguments; one that is hidden from the caller has its default."""
    given = get_argument_values(definition, node, variables, hide_suggestions=True)
    return {**definition.extensions.get(HIDDEN_DEFAULTS, {}), **given}


class _NoValue(Exception):
    """A variable inside a value is null or absent: the special cases."""


def _build_reader(node: ValueNode, type_: GraphQLInputType) -> ReadArgument | None:
    """Return the function that builds a literal from the variables in it; None: not possible.

    The values of variables are coerced already, and those of other parts here, once.
    """
    inner: Any = get_nullable_type(type_)
    if isinstance(node, VariableNode):
        return _read_variable(node.name.value)
    if not find_variables(node):
        constant = coerce_input_literal(node, type_)
        return None if constant is Undefined else lambda _: constant
    if isinstance(node, ListValueNode) and is_list_type(inner):
        items = [_build_reader(item, inner.of_type) for item in node.values]
        readers = [item for item in items if item is not None]
        return (lambda given: [read(given) for read in readers]) if readers == items else None
    if isinstance(node, ObjectValueNode) and isinstance(inner, GraphQLInputObjectType):
        return _build_object(node, inner)
    return None


def _build_object(node: ObjectValueNode, type_: GraphQLInputObjectType) -> ReadArgument | None:
    fields = type_.fields.values()
    if type_.is_one_of or any(each.out_name or each.default is not None for each in fields):
        return None
    if type_.out_type is not GraphQLInputObjectType.out_type:
        return None  # it adds the defaults of hidden fields
    parts = {
        part.name.value: _build_reader(part.value, type_.fields[part.name.value].type)
        for part in node.fields
    }
    readers = [(name, read) for name, read in parts.items() if read is not None]
    if len(readers) < len(parts):
        return None
    return lambda given: {name: read(given) for name, read in readers}


def _read_variable(name: str) -> ReadArgument:
    def read(given: Mapping[str, Any]) -> Any:
        value = given.get(name)
        if value is None:
            raise _NoValue
        return value

    return read


class _VariableFinder(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def enter_variable(self, node: VariableNode, *_: Any) -> None:
        self.names.add(node.name.value)


def find_variables(node: Node) -> frozenset[str]:
    """Return the names of the variables used in a node."""
    finder = _VariableFinder()
    visit(node, finder)
    return frozenset(finder.names)


class _Plain(NamedTuple):
    """A variable whose type is a scalar or an enum, nullable or not."""

    name: str
    type: GraphQLLeafType  # without its `!`
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
        if not self._plain:
            return self._read_any(values) if self._plain is None else _NO_VARIABLES
        sources: dict[str, VariableValueSource] = {}
        coerced: dict[str, Any] = {}
        for name, type_, signature in self._plain:
            value = values.get(name)
            if value is None:  # absent or null: defaults, omissions, errors
                return self._read_any(values)
            try:
                result = type_.coerce_input_value(value)
            except Exception:  # the full reading reports it, with its location
                return self._read_any(values)
            if result is Undefined:
                return self._read_any(values)
            sources[name] = VariableValueSource(signature, value)
            coerced[name] = result
        return VariableValues(sources, coerced)

    def _find_plain(self) -> tuple[_Plain, ...] | None:
        """Return the variables, if all of them are plain."""
        plain: list[_Plain] = []
        for definition in self._definitions:
            signature = get_variable_signature(self._schema, definition)
            if isinstance(signature, GraphQLError):
                return None
            inner = get_nullable_type(signature.type)
            if not is_leaf_type(inner):
                return None
            plain.append(_Plain(signature.name, inner, signature))
        return tuple(plain)

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
        errors = [
            GraphqlError(
                phrase(error.message),
                Classification.VALIDATION,
                "bad-variable",
                find_locations(error),
            )
            for error in coerced[:MAX_ERRORS]
        ]
        if len(coerced) > MAX_ERRORS:  # the last one reports, in its own words, that there are more
            errors.append(count_more())
        raise OperationRefused(errors)
