"""JSON Schema of an operation: its variables and its result."""

from __future__ import annotations

from typing import Any, Final

from graphql import (
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLInputType,
    GraphQLNamedType,
    is_list_type,
    is_non_null_type,
    is_required_input_field,
    is_type,
    type_from_ast,
    value_from_ast_untyped,
)

from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.plan.plan_tree import (
    Block,
    Introspection,
    LeafField,
    PlannedField,
    Selection,
    TypenameField,
    UnmappedField,
)

Schema = dict[str, Any]

_INPUTS: Final[dict[str, Schema]] = {
    "Int": {"type": "integer"},
    "Float": {"type": "number"},
    "String": {"type": "string"},
    "Boolean": {"type": "boolean"},
    "ID": {"type": ["string", "integer"]},
}
# BSON scalars and `Float` have several forms, by their values and by `json-mode`.
_OUTPUTS: Final[dict[str, Schema]] = {
    "Int": {"type": "integer"},
    "String": {"type": "string"},
    "Boolean": {"type": "boolean"},
    "ID": {"type": "string"},
}


# --- variables ------------------------------------------------------------------------------------


def describe_variables(plan: Plan) -> Schema:
    """Return an object schema with a property for each variable."""
    found: dict[str, Schema] = {}
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for definition in plan.operation.variable_definitions or ():
        name = definition.variable.name.value
        type_: Any = type_from_ast(plan.app.schema, definition.type)
        properties[name] = _describe_input(type_, found)
        if definition.default_value is not None:
            default = value_from_ast_untyped(definition.default_value)
            properties[name] = {**properties[name], "default": default}
        elif is_non_null_type(type_):
            required.append(name)
    schema: Schema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return {**schema, "$defs": found} if found else schema


def _describe_input(type_: GraphQLInputType, found: dict[str, Schema]) -> Schema:
    if is_non_null_type(type_):
        return _describe_named_input(type_.of_type, found)
    return {"anyOf": [_describe_named_input(type_, found), {"type": "null"}]}


def _describe_named_input(type_: GraphQLInputType, found: dict[str, Schema]) -> Schema:
    if is_list_type(type_):
        return {"type": "array", "items": _describe_input(type_.of_type, found)}
    if isinstance(type_, GraphQLEnumType):
        return _with_text({"type": "string", "enum": list(type_.values)}, type_)
    if isinstance(type_, GraphQLInputObjectType):
        if type_.name not in found:
            found[type_.name] = {}  # ends the recursion for a type that contains itself
            found[type_.name] = _describe_object(type_, found)
        return {"$ref": f"#/$defs/{type_.name}"}
    assert is_type(type_)  # noqa: S101 - a scalar
    name: str = getattr(type_, "name", "")
    known = _INPUTS.get(name)
    return {**known} if known is not None else _describe_scalar(type_, name)


def _describe_object(type_: GraphQLInputObjectType, found: dict[str, Schema]) -> Schema:
    fields = type_.fields.items()
    required = [name for name, field in fields if is_required_input_field(field)]
    schema: Schema = {
        "type": "object",
        "properties": {name: _describe_input(field.type, found) for name, field in fields},
        "required": required,
        "additionalProperties": False,
    }
    return _with_text(schema, type_)


def _describe_scalar(type_: Any, name: str) -> Schema:
    text = (type_.description or "").strip().splitlines()
    return {"description": f"{name}: {text[0]}" if text else name}


def _with_text(schema: Schema, type_: GraphQLNamedType) -> Schema:
    return {**schema, "description": type_.description} if type_.description else schema


# --- results --------------------------------------------------------------------------------------


def describe_result(plan: Plan) -> Schema:
    """Return the schema of `data`, as the selections say; a condition makes a field optional."""
    return _describe_block(plan.widest_tree().block, {})


def _describe_block(block: Block, known: dict[int, Schema]) -> Schema:
    properties = {field.key: _describe_field(field, known) for field in block.fields}
    required = [field.key for field in block.fields if field.key not in block.notes]
    return {"type": "object", "properties": properties, "required": required}


def _describe_field(field: PlannedField, known: dict[int, Schema]) -> Schema:
    match field:
        case TypenameField():
            return {"type": "string"}
        case UnmappedField():
            return {"type": "null"}
        case Introspection():
            return {"type": ["object", "null"]}
        case LeafField():
            return _wrap(field.type, _describe_value(field.type))
    if field.selection is None:
        return _wrap(field.type, {})
    return _wrap(field.type, _describe_selection(field.selection, known))


def _describe_selection(selection: Selection, known: dict[int, Schema]) -> Schema:
    schema = known.get(id(selection))
    if schema is None:
        blocks = [_describe_block(block, known) for block in selection.blocks.values()]
        schema = blocks[0] if len(blocks) == 1 else {"anyOf": blocks} if blocks else {}
        known[id(selection)] = schema
    return schema


def _describe_value(type_: Any) -> Schema:
    while hasattr(type_, "of_type"):
        type_ = type_.of_type
    if isinstance(type_, GraphQLEnumType):
        return {"type": "string", "enum": list(type_.values)}
    return _OUTPUTS.get(type_.name, {"description": type_.name})


def _wrap(type_: Any, inner: Schema) -> Schema:
    """Return the schema of a value inside its lists and nulls."""
    if is_non_null_type(type_):
        return _wrap_nullable(type_.of_type, inner)
    return {"anyOf": [_wrap_nullable(type_, inner), {"type": "null"}]}


def _wrap_nullable(type_: Any, inner: Schema) -> Schema:
    return {"type": "array", "items": _wrap(type_.of_type, inner)} if is_list_type(type_) else inner
