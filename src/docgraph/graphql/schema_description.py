"""Schema descriptions for agents (LLM): SDL of the visible schema, JSON Schema of an operation."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from graphql import (
    FieldNode,
    GraphQLArgument,
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLInputType,
    GraphQLNamedType,
    GraphQLScalarType,
    GraphQLSchema,
    SelectionSetNode,
    VariableNode,
    get_named_type,
    get_nullable_type,
    is_list_type,
    is_non_null_type,
    is_required_input_field,
    is_specified_directive,
    print_type,
    specified_scalar_types,
    type_from_ast,
    value_from_ast_untyped,
)
from graphql.type import introspection_types
from graphql.utilities.print_schema import print_directive

from docgraph.codec import JsonMode
from docgraph.graphql.definition.definition_schema import JsonSchema
from docgraph.graphql.definition.scalars import SCALARS
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.plan.leaves import LeafField, TypenameField, UnmappedField
from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.plan.plan_tree import Block, Introspection, PlannedField

_MAX_SUGGESTED = 300


def render_schema(schema: GraphQLSchema, limit: int) -> str:
    """Return the whole schema, or `Query` and the names of the other types if it is too long."""
    # Queries first; scalars and directives, which are the same in every app, last.
    types = sorted(_own_types(schema), key=lambda type_: isinstance(type_, GraphQLScalarType))
    directives = [each for each in schema.directives if not is_specified_directive(each)]
    whole = "\n\n".join([*map(print_type, types), *map(print_directive, directives)])
    if len(whole.encode()) <= limit:
        return whole
    head = (
        "# The whole schema is too long. This is Query, and the names of the other types:\n"
        "# ask for those you need by name, or search for fields.\n\n"
    )
    others = [type_ for type_ in _own_types(schema) if type_.name != "Query"]
    names = "\n".join(map(_introduce, others[:_MAX_SUGGESTED]))
    more = len(others) - _MAX_SUGGESTED
    if more > 0:
        names += f"\n# … and {more} more"
    query = print_type(schema.type_map["Query"])
    return _shorten(f"{head}{query}\n\n{names}", limit)


def render_types(schema: GraphQLSchema, names: Collection[str], limit: int) -> str:
    """Return these types; a hidden type is as unknown as one that does not exist."""
    types = {type_.name: type_ for type_ in _own_types(schema)}
    for name in names:
        if name not in types:
            raise OperationRefused.because(f"Unknown type '{name}'.", "invalid-query")
    return _shorten("\n\n".join(print_type(types[name]) for name in dict.fromkeys(names)), limit)


def _own_types(schema: GraphQLSchema) -> Iterator[GraphQLNamedType]:
    """Yield `Query` first, then the types in the author's order."""
    for name, type_ in sorted(schema.type_map.items(), key=lambda entry: entry[0] != "Query"):
        if name not in introspection_types and name not in specified_scalar_types:
            yield type_


def _introduce(type_: GraphQLNamedType) -> str:
    kind = type(type_).__name__.removeprefix("GraphQL").removesuffix("Type").lower()
    lines = (type_.description or "").strip().splitlines()
    return f"# {type_.name} ({kind})" + (f": {lines[0][:100]}" if lines else "")


def _shorten(text: str, limit: int) -> str:
    """Return as many whole lines as fit into the limit."""
    content = text.encode()
    if len(content) <= limit:
        return text
    note = "\n# … cut here: ask for single types, or search for fields"
    kept = content[: max(0, limit - len(note.encode()))].decode(errors="ignore")
    return kept.rpartition("\n")[0] + note


_INPUTS: Final[dict[str, JsonSchema]] = {
    "Int": {"type": "integer"},
    "Float": {"type": "number"},
    "String": {"type": "string"},
    "Boolean": {"type": "boolean"},
    "ID": {"type": ["string", "integer"]},
}
_OUTPUTS: Final[dict[str, JsonSchema]] = {
    "Int": {"type": "integer"},
    "String": {"type": "string"},
    "Boolean": {"type": "boolean"},
    "ID": {"type": "string"},
}
_PLAIN_OUTPUTS: Final[dict[str, JsonSchema]] = {
    "Float": {"type": ["number", "string"]},  # "NaN", "Infinity"
    **{name: {**scalar.plain_schema} for name, scalar in SCALARS.items()},
}


def describe_variables(plan: Plan) -> JsonSchema:
    """Return an object schema with a property for each variable."""
    definitions: dict[str, JsonSchema] = {}
    properties: dict[str, JsonSchema] = {}
    required: list[str] = []
    for definition in plan.operation.variable_definitions or ():
        name = definition.variable.name.value
        type_: Any = type_from_ast(plan.app.schema, definition.type)
        properties[name] = _describe_input(type_, definitions)
        # Described as the argument that the variable is first used for.
        usages = _find_usages(plan.operation.selection_set, plan.app.schema.query_type, name)
        if text := next((usage.description for usage in usages if usage.description), None):
            properties[name] = {**properties[name], "description": text}
        if definition.default_value is not None:
            default = value_from_ast_untyped(definition.default_value)
            properties[name] = {**properties[name], "default": default}
        elif is_non_null_type(type_):
            required.append(name)
    schema: JsonSchema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return {**schema, "$defs": definitions} if definitions else schema


def _find_usages(selections: SelectionSetNode, type_: Any, name: str) -> Iterator[GraphQLArgument]:
    """Yield the arguments in the operation itself whose value is the variable."""
    fields = getattr(get_named_type(type_), "fields", {})
    for node in selections.selections:
        field = fields.get(node.name.value) if isinstance(node, FieldNode) else None
        if field is None or not isinstance(node, FieldNode):
            continue
        for argument in node.arguments or ():
            value = argument.value
            if isinstance(value, VariableNode) and value.name.value == name:
                yield field.args[argument.name.value]
        if node.selection_set is not None:
            yield from _find_usages(node.selection_set, field.type, name)


def _describe_input(type_: GraphQLInputType, definitions: dict[str, JsonSchema]) -> JsonSchema:
    if is_non_null_type(type_):
        return _describe_named_input(type_.of_type, definitions)
    return {"anyOf": [_describe_named_input(type_, definitions), {"type": "null"}]}


def _describe_named_input(
    type_: GraphQLInputType, definitions: dict[str, JsonSchema]
) -> JsonSchema:
    if is_list_type(type_):
        return {"type": "array", "items": _describe_input(type_.of_type, definitions)}
    if isinstance(type_, GraphQLEnumType):
        return _with_text({"type": "string", "enum": list(type_.values)}, type_)
    if isinstance(type_, GraphQLInputObjectType):
        if type_.name not in definitions:
            definitions[type_.name] = {}  # ends the recursion for a type that contains itself
            fields = type_.fields.items()
            schema: JsonSchema = {
                "type": "object",
                "properties": {
                    name: _describe_input(field.type, definitions) for name, field in fields
                },
                "required": [name for name, field in fields if is_required_input_field(field)],
                "additionalProperties": False,
            }
            definitions[type_.name] = _with_text(schema, type_)
        return {"$ref": f"#/$defs/{type_.name}"}
    assert isinstance(type_, GraphQLScalarType)  # noqa: S101 - no other type is left
    if type_.name in _INPUTS:
        return {**_INPUTS[type_.name]}
    text = (type_.description or "").strip().splitlines()
    described = {"description": f"{type_.name}: {text[0]}" if text else type_.name}
    return {**described, **(SCALARS[type_.name].input_schema if type_.name in SCALARS else {})}


def _with_text(schema: JsonSchema, type_: GraphQLNamedType) -> JsonSchema:
    return {**schema, "description": type_.description} if type_.description else schema


def describe_result(plan: Plan) -> JsonSchema:
    """Return the schema of `data`, as the selections say; a condition makes a field optional."""
    described = _DescribedSelections(is_plain=plan.app.app.mode is JsonMode.GRAPHQL_PLAIN)
    return _describe_block(plan.widest_tree().block, described)


@dataclass(slots=True)
class _DescribedSelections:
    """The schemas of selections that were described already."""

    is_plain: bool
    schemas: dict[int, JsonSchema] = field(default_factory=dict)


def _describe_block(block: Block, described: _DescribedSelections) -> JsonSchema:
    properties = {field.key: _describe_field(field, described) for field in block.fields}
    required = [field.key for field in block.fields if field.key not in block.notes]
    return {"type": "object", "properties": properties, "required": required}


def _describe_field(field: PlannedField, described: _DescribedSelections) -> JsonSchema:
    match field:
        case TypenameField():
            return {"type": "string"}
        case UnmappedField():
            return {"type": "null"}
        case Introspection():
            return {"type": ["object", "null"]}
    if isinstance(field, LeafField) or field.selection is None:
        named = get_named_type(field.type)
        if isinstance(named, GraphQLEnumType):
            return _wrap(field.type, {"type": "string", "enum": list(named.values)})
        plain = _PLAIN_OUTPUTS.get(named.name) if described.is_plain else None
        value = plain or _OUTPUTS.get(named.name, {"description": named.name})
        return _wrap(field.type, value)
    schema = described.schemas.get(id(field.selection))
    if schema is None:
        blocks = [_describe_block(block, described) for block in field.selection.blocks.values()]
        schema = blocks[0] if len(blocks) == 1 else {"anyOf": blocks} if blocks else {}
        described.schemas[id(field.selection)] = schema
    return _wrap(field.type, schema)


def _wrap(type_: Any, inner: JsonSchema) -> JsonSchema:
    """Return the schema of a value inside its lists and nulls."""
    named = get_nullable_type(type_)
    if is_list_type(named):
        inner = {"type": "array", "items": _wrap(named.of_type, inner)}
    return inner if is_non_null_type(type_) else {"anyOf": [inner, {"type": "null"}]}
