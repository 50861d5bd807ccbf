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
    is_type,
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

_MAX_SUGGESTED = 300


def render_schema(schema: GraphQLSchema, limit: int) -> str:
    """Return the whole schema, or `Query` and the names of the other types if it is too long."""
    whole = _print_all(schema)
    if len(whole.encode()) <= limit:
        return whole
    head = (
        "# The whole schema is too long. This is Query, and the names of the other types:\n"
        "# ask for those you need by name, or search for fields.\n\n"
    )
    others = [type_ for type_ in _own_types(schema) if type_.name != "Query"]
    names = "\n".join(_introduce(type_) for type_ in others[:_MAX_SUGGESTED])
    more = len(others) - _MAX_SUGGESTED
    if more > 0:
        names += f"\n# … and {more} more"
    query = print_type(schema.type_map["Query"])
    return _shorten(f"{head}{query}\n\n{names}", limit)


def render_types(schema: GraphQLSchema, names: Collection[str], limit: int) -> str:
    """Return these types; a hidden type is as unknown as one that does not exist."""
    known = {type_.name: type_ for type_ in _own_types(schema)}
    for name in names:
        if name not in known:
            raise OperationRefused.because(f"Unknown type '{name}'.", "invalid-query")
    return _shorten("\n\n".join(print_type(known[name]) for name in dict.fromkeys(names)), limit)


def _print_all(schema: GraphQLSchema) -> str:
    """Print queries first; scalars and directives, which are the same in every app, last."""
    types = sorted(_own_types(schema), key=lambda one: isinstance(one, GraphQLScalarType))
    directives = [one for one in schema.directives if not is_specified_directive(one)]
    return "\n\n".join([*map(print_type, types), *map(print_directive, directives)])


def _own_types(schema: GraphQLSchema) -> Iterator[GraphQLNamedType]:
    """Yield `Query` first, then the types in the author's order."""
    for name, type_ in sorted(schema.type_map.items(), key=lambda one: one[0] != "Query"):
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
    found: dict[str, JsonSchema] = {}
    properties: dict[str, JsonSchema] = {}
    required: list[str] = []
    for definition in plan.operation.variable_definitions or ():
        name = definition.variable.name.value
        type_: Any = type_from_ast(plan.app.schema, definition.type)
        properties[name] = {**_describe_input(type_, found), **_find_text(plan, name)}
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
    return {**schema, "$defs": found} if found else schema


def _find_text(plan: Plan, name: str) -> JsonSchema:
    """Return the description of the argument that the variable is first used for."""
    for usage in _find_usages(plan.operation.selection_set, plan.app.schema.query_type, name):
        if usage.description:
            return {"description": usage.description}
    return {}


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


def _describe_input(type_: GraphQLInputType, found: dict[str, JsonSchema]) -> JsonSchema:
    if is_non_null_type(type_):
        return _describe_named_input(type_.of_type, found)
    return {"anyOf": [_describe_named_input(type_, found), {"type": "null"}]}


def _describe_named_input(type_: GraphQLInputType, found: dict[str, JsonSchema]) -> JsonSchema:
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


def _describe_object(type_: GraphQLInputObjectType, found: dict[str, JsonSchema]) -> JsonSchema:
    fields = type_.fields.items()
    required = [name for name, field in fields if is_required_input_field(field)]
    schema: JsonSchema = {
        "type": "object",
        "properties": {name: _describe_input(field.type, found) for name, field in fields},
        "required": required,
        "additionalProperties": False,
    }
    return _with_text(schema, type_)


def _describe_scalar(type_: Any, name: str) -> JsonSchema:
    text = (type_.description or "").strip().splitlines()
    described = {"description": f"{name}: {text[0]}" if text else name}
    return {**described, **(SCALARS[name].input_schema if name in SCALARS else {})}


def _with_text(schema: JsonSchema, type_: GraphQLNamedType) -> JsonSchema:
    return {**schema, "description": type_.description} if type_.description else schema


def describe_result(plan: Plan) -> JsonSchema:
    """Return the schema of `data`, as the selections say; a condition makes a field optional."""
    known = _KnownSelections(is_plain=plan.app.app.mode is JsonMode.GRAPHQL_PLAIN)
    return _describe_block(plan.widest_tree().block, known)


@dataclass(slots=True)
class _KnownSelections:
    """The schemas of selections that were described already."""

    is_plain: bool
    schemas: dict[int, JsonSchema] = field(default_factory=dict)


def _describe_block(block: Block, known: _KnownSelections) -> JsonSchema:
    properties = {field.key: _describe_field(field, known) for field in block.fields}
    required = [field.key for field in block.fields if field.key not in block.notes]
    return {"type": "object", "properties": properties, "required": required}


def _describe_field(field: PlannedField, known: _KnownSelections) -> JsonSchema:
    match field:
        case TypenameField():
            return {"type": "string"}
        case UnmappedField():
            return {"type": "null"}
        case Introspection():
            return {"type": ["object", "null"]}
    if isinstance(field, LeafField) or field.selection is None:
        return _wrap(field.type, _describe_value(field.type, is_plain=known.is_plain))
    return _wrap(field.type, _describe_selection(field.selection, known))


def _describe_selection(selection: Selection, known: _KnownSelections) -> JsonSchema:
    schema = known.schemas.get(id(selection))
    if schema is None:
        blocks = [_describe_block(block, known) for block in selection.blocks.values()]
        schema = blocks[0] if len(blocks) == 1 else {"anyOf": blocks} if blocks else {}
        known.schemas[id(selection)] = schema
    return schema


def _describe_value(type_: Any, *, is_plain: bool) -> JsonSchema:
    while hasattr(type_, "of_type"):
        type_ = type_.of_type
    if isinstance(type_, GraphQLEnumType):
        return {"type": "string", "enum": list(type_.values)}
    own = _PLAIN_OUTPUTS.get(type_.name) if is_plain else None
    return own or _OUTPUTS.get(type_.name, {"description": type_.name})


def _wrap(type_: Any, inner: JsonSchema) -> JsonSchema:
    """Return the schema of a value inside its lists and nulls."""
    named = get_nullable_type(type_)
    if is_list_type(named):
        inner = {"type": "array", "items": _wrap(named.of_type, inner)}
    return inner if is_non_null_type(type_) else {"anyOf": [inner, {"type": "null"}]}
