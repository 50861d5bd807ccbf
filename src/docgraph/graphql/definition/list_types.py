"""The types that `filter` and `orderBy` generate, and what their fields mean for a compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from graphql import (
    InputObjectTypeDefinitionNode,
    InputValueDefinitionNode,
    NameNode,
    StringValueNode,
    TypeDefinitionNode,
)

from docgraph.graphql.definition.declared_fields import (
    DeclaredField,
    DeclaredRelation,
    FieldTree,
)
from docgraph.graphql.definition.generated_types import (
    GeneratedTypes,
    build_type,
    parse_definition,
)
from docgraph.graphql.related import QUANTIFIERS, RelatedOrder, RelationSpec
from docgraph.graphql.where import SEARCH, WhereField

_SORT_ORDER: Final = '"The direction of an order." enum SortOrder { ASC DESC }'
_NEAR: Final = """
"Within a distance of a point on the earth."
input GeoNear {
  "In degrees, from -180 to 180."
  longitude: Float!
  "In degrees, from -90 to 90."
  latitude: Float!
  "In meters."
  maxDistance: Float!
  "Order by distance: only at the top of where of a field of Query."
  nearestFirst: Boolean
}"""
_TEXTS: Final = {
    "and": "All of these hold.",
    "or": "One of these holds.",
    "not": "This does not hold.",
    "search": "Words, found by the text index: only at the top of where.",
    "eq": "Is this value; null: there is none.",
    "ne": "Is not this value.",
    "in": "Is one of these values.",
    "nin": "Is none of these values.",
    "exists": "Whether there is a value.",
    "prefix": "Begins with this text.",
    "contains": "Contains this text, of three characters or more.",
    "has": "Has this element.",
    "some": "One of the documents satisfies these conditions.",
    "none": "None of the documents satisfies these conditions.",
    "every": "Every document satisfies these conditions; holds without documents.",
    "near": "Is near a point.",
}


def capitalize(name: str) -> str:
    return name[:1].upper() + name[1:]


def follow_fields(generated: GeneratedTypes, base: str, tree: FieldTree) -> None:
    for name, declared in tree.fields.items():
        generated.follow((base, name), (tree.type_name, name))
        if declared.below is not None:
            inner = f"{base}{capitalize(name)}"
            follow_fields(generated, f"{inner}Any" if declared.is_list else inner, declared.below)
    for name, relation in tree.relations.items():
        generated.follow((base, name), (tree.type_name, name))
        if relation.tree is not None:
            inner = f"{base}{capitalize(name)}"
            follow_fields(
                generated, f"{inner}Item" if relation.spec.is_list else inner, relation.tree
            )


def build_where_types(base: str, tree: FieldTree, search: bool) -> list[TypeDefinitionNode]:
    """Return the types of a filter: the filter, and one for each of its fields."""
    logical = {"and": f"[{base}!]", "or": f"[{base}!]", "not": base}
    extra = logical | ({SEARCH: "String"} if search else {})
    text = f"Conditions on {tree.type_name}: all of them hold."
    near = [parse_definition(_NEAR)] if tree.has_operator("near") else []
    return [*_build_group(base, tree, extra, text), *near]


def _build_group(
    base: str, tree: FieldTree, extra: Mapping[str, str], text: str
) -> list[TypeDefinitionNode]:
    """Return the type with a field for each declared one, and the types of those."""
    fields = {name: f"{base}{capitalize(name)}" for name in (*tree.fields, *tree.relations)}
    nodes = [_build_input(base, {**fields, **extra}, text)] if fields or extra else []
    for name, declared in tree.fields.items():
        nodes += _build_operators(
            fields[name], declared, f"Conditions on {name}: all of them hold."
        )
    for name, relation in tree.relations.items():
        nodes += _build_related(fields[name], name, relation)
    return nodes


def _build_related(base: str, name: str, relation: DeclaredRelation) -> list[TypeDefinitionNode]:
    """Return the types of the conditions on a relation, or on a count."""
    if relation.tree is None:
        operands = {operator: relation.operand_type(operator) for operator in relation.operators}
        return [_build_input(base, operands, f"Conditions on {name}: all of them hold.")]
    if not relation.spec.is_list:
        text = f"Conditions on the document of {name}: all of them hold, and none without it."
        return _build_group(base, relation.tree, {"exists": "Boolean"}, text)
    item = f"{base}Item"
    logical = {"and": f"[{item}!]", "or": f"[{item}!]", "not": item}
    text = f"Conditions on one document of {name}: all of them hold."
    group = _build_group(item, relation.tree, logical, text)
    text = f"Conditions on the documents of {name}: all of them hold."
    return [_build_input(base, dict.fromkeys(QUANTIFIERS, item), text), *group]


def _build_operators(base: str, declared: DeclaredField, text: str) -> list[TypeDefinitionNode]:
    operands = {name: declared.operand_type(name) for name in declared.operators}
    if declared.below is None:
        return [_build_input(base, operands, text)]
    if not declared.is_list:
        return _build_group(base, declared.below, operands, text)
    inner = f"{base}Any"
    group = _build_group(
        inner, declared.below, {}, "One element satisfies all of these conditions."
    )
    return [_build_input(base, {"any": inner, **operands}, text), *group]


def _build_input(name: str, fields: Mapping[str, str], text: str) -> TypeDefinitionNode:
    """Return what the parser would return: most fields are those of other types, too."""
    return InputObjectTypeDefinitionNode(
        name=NameNode(value=name),
        description=StringValueNode(value=text, block=False),
        fields=tuple(build_input_field(key, type_) for key, type_ in fields.items()) or None,
    )


@lru_cache(maxsize=1_024)
def build_input_field(name: str, type_: str) -> InputValueDefinitionNode:
    about = _TEXTS.get(name)
    return InputValueDefinitionNode(
        name=NameNode(value=name),
        description=StringValueNode(value=about, block=False) if about else None,
        type=build_type(type_),
    )


def _build_spec(declared: DeclaredField) -> WhereField:
    below = {} if declared.below is None else declared.below.fields
    fields = {name: _build_spec(inner) for name, inner in below.items()}
    operators = frozenset(declared.operators)
    return WhereField(declared.path, operators, declared.is_list, fields, declared.fit)


def build_specs(tree: FieldTree | None) -> dict[str, WhereField]:
    return (
        {}
        if tree is None
        else {name: _build_spec(declared) for name, declared in tree.fields.items()}
    )


def build_relations(tree: FieldTree | None) -> dict[str, RelationSpec]:
    """Return the relations of a tree with all that conditions may use in them."""
    return {
        name: replace(
            relation.spec,
            operators=frozenset(relation.operators),
            fields=build_specs(relation.tree),
            relations=build_relations(relation.tree),
        )
        for name, relation in (tree.relations.items() if tree is not None else ())
    }


def build_order_types(base: str, tree: FieldTree) -> list[TypeDefinitionNode]:
    nodes = [parse_definition(_SORT_ORDER)]
    fields: dict[str, str] = {}
    for name, declared in tree.fields.items():
        fields[name] = "SortOrder" if declared.below is None else f"{base}{capitalize(name)}"
        if declared.below is not None:
            nodes += build_order_types(fields[name], declared.below)[1:]
    for name, relation in tree.relations.items():
        fields[name] = "SortOrder" if relation.tree is None else f"{base}{capitalize(name)}"
        if relation.tree is not None:
            nodes += build_order_types(fields[name], relation.tree)[1:]
    text = f"An order of {tree.type_name}: exactly one field."
    return [*nodes, _build_input(base, fields, text)]


def list_paths(tree: FieldTree, prefix: str) -> dict[str, Any]:
    return {
        name: f"{prefix}{declared.path}"
        if declared.below is None
        else list_paths(declared.below, f"{prefix}{declared.path}.")
        for name, declared in tree.fields.items()
    }


def list_orders(tree: FieldTree) -> list[tuple[tuple[str, ...], RelatedOrder]]:
    """Return the orders by related documents, by the names of their fields."""
    orders: list[tuple[tuple[str, ...], RelatedOrder]] = []
    for name, relation in tree.relations.items():
        if relation.tree is None:
            orders.append(((name,), RelatedOrder(relation.spec)))
        else:
            leaves = relation.tree.list_leaves()
            orders += [
                ((name, *f.split(".")), RelatedOrder(relation.spec, p)) for f, p, _ in leaves
            ]
    return orders


def place_order(orders: dict[str, Any], names: Sequence[str], computed: str) -> None:
    head, *rest = names
    if rest:
        place_order(orders.setdefault(head, {}), rest, computed)
    else:
        orders[head] = computed
