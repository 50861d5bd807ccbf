"""Plan builder: which field is read from a document, and which is fetched.

Selections are shared: two fields whose sub-selections are the same nodes of the query get the same
blocks. So the size of a plan is bounded by that of the query and not by the number of paths through
its interfaces. A plan that would still grow too large is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

from graphql import (
    FieldNode,
    GraphQLField,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLUnionType,
    OperationDefinitionNode,
    SelectionSetNode,
    get_location,
    get_named_type,
    get_nullable_type,
    is_abstract_type,
    is_composite_type,
    is_enum_type,
    is_leaf_type,
    is_list_type,
)

from docgraph.codec import JsonMode
from docgraph.graphql.apps.compiled_app import VisibleApp
from docgraph.graphql.definition.entity_mappings import EntityMapping, find_leaf_type
from docgraph.graphql.definition.mapping import (
    AggregationMapping,
    GroupMapping,
    QueryMapping,
    TypeResolver,
)
from docgraph.graphql.definition.scalars import serializer
from docgraph.graphql.errors import FieldFailure, FieldFault, FieldPosition, OperationRefused
from docgraph.graphql.federation.subgraph import ENTITIES_FIELD
from docgraph.graphql.plan.arguments import build_arguments, find_variables
from docgraph.graphql.plan.collect import Collector
from docgraph.graphql.plan.leaves import LeafField, TypenameField, UnmappedField
from docgraph.graphql.plan.plan_tree import (
    Block,
    ConnectionParts,
    Embedded,
    Entities,
    EntityLookup,
    Fetch,
    Fold,
    Introspection,
    PlannedField,
    PlanTree,
    Selection,
)
from docgraph.graphql.plan.relation import WHOLE, analyse, build_projection, cut_path

MAX_FIELDS = 10_000

# Stored values of these types are already the JSON of the scalar.
_UNCHANGED: dict[str, type] = {"String": str, "ID": str, "Int": int, "Boolean": bool}


@dataclass
class TreeBuilder:
    """Builds one tree; `collector` has the query and the outcome of its conditions."""

    app: VisibleApp
    operation: OperationDefinitionNode
    collector: Collector
    _selections: dict[Any, Selection] = field(default_factory=dict)
    _count: int = 0

    def build(self) -> PlanTree:
        """Return the tree of the operation; raise `OperationRefused` if it cannot be executed."""
        query = self.app.schema.query_type
        assert query is not None  # noqa: S101 - a schema without Query is no app
        try:
            block = self._build_block(query, [self.operation.selection_set], is_root=True)
        except FieldFailure as failure:
            raise OperationRefused.because(failure.message, failure.code) from None
        return PlanTree(block)

    def _build_block(
        self,
        type_: GraphQLObjectType,
        selection_sets: Sequence[SelectionSetNode],
        *,
        is_root: bool = False,
    ) -> Block:
        collected = self.collector.collect(type_, selection_sets)
        self._count += len(collected.fields)
        if self._count > MAX_FIELDS:
            raise OperationRefused.because(
                f"the query selects more than {MAX_FIELDS} fields", "query-too-complex"
            )
        fields = tuple(
            self._build_field(type_, key, nodes, is_root=is_root)
            for key, nodes in collected.fields.items()
        )
        return Block(type_.name, fields, notes=collected.notes, mode=self.app.app.mode)

    def _build_field(
        self, parent: GraphQLObjectType, key: str, nodes: list[FieldNode], *, is_root: bool
    ) -> PlannedField:
        name = nodes[0].name.value
        if name == "__typename":
            return TypenameField(key, parent.name)
        definition = self.app.schema.get_field(parent, name)
        assert definition is not None  # noqa: S101 - the query is valid
        places = [get_location(n.loc.source, n.loc.start) for n in nodes if n.loc is not None]
        locations = tuple((place.line, place.column) for place in places)
        position = FieldPosition(f"{parent.name}.{name}", locations)
        if definition.resolve is not None:  # of the schema itself, or the SDL of a subgraph
            parts = (*nodes, *self.collector.fragments.values())
            variables = frozenset[str]().union(*map(find_variables, parts))
            return Introspection(key, definition, position, tuple(nodes), variables)
        if is_root and self.app.app.entities and name == ENTITIES_FIELD:
            return self._build_entities(key, definition, position, nodes)
        fault = self.app.find_fault(parent.name, name)
        if fault is not None:
            # It is invalid as it is stored (decision 8); only the root role sees why.
            text = "the definition of this field is invalid"
            failure = FieldFailure(text, "invalid-definition", cause=FieldFault(fault))
            return UnmappedField(key, definition.type, position, failure)
        mapping = self.app.app.mappings.get(parent.name, {}).get(name)
        if isinstance(mapping, QueryMapping | AggregationMapping):
            return self._build_fetch(key, definition, position, nodes, mapping, is_root=is_root)
        if mapping is None or is_root:
            return UnmappedField(key, definition.type, position)
        type_, named = definition.type, get_named_type(definition.type)
        if is_composite_type(named):
            selection = self._build_selection(named, position, nodes)
            return Embedded(
                key, type_, position, mapping.path, mapping.get, selection, mapping.is_wrapper
            )
        unchanged = _UNCHANGED.get(named.name)
        if (
            unchanged is None
            and named.name == "Float"
            and self.app.app.mode is not JsonMode.GRAPHQL_CANONICAL
        ):
            unchanged = float
        return LeafField(
            key,
            type_,
            position,
            mapping.path,
            mapping.get,
            self._find_serializer(named),
            unchanged,
            is_date=named.name == "DateTime" and self.app.app.mode is not JsonMode.GRAPHQL_PLAIN,
            names=self.app.app.enums[named.name].names if is_enum_type(named) else None,
        )

    def _build_fetch(
        self,
        key: str,
        definition: GraphQLField,
        position: FieldPosition,
        nodes: list[FieldNode],
        mapping: QueryMapping | AggregationMapping,
        *,
        is_root: bool,
    ) -> Fetch:
        named = get_named_type(definition.type)
        relation = analyse(mapping)
        selection = serialize = None
        if is_leaf_type(named):
            serialize = show = self._find_serializer(named)
            if isinstance(mapping, GroupMapping):
                serialize = partial(_serialize_count, show)
        else:
            selection = self._build_selection(named, position, nodes)
        connection = None
        if selection is not None and getattr(mapping, "connection", None) is not None:
            connection = _read_parts(selection)
        items = (selection,) if connection is None else connection.items
        # What joins compare, what is selected, what `$fk` and `rootDoc` below use, and what a
        # `$typeResolver` reads (decision 15).
        paths = {cut_path(join.path) for join in relation.joins}
        for item in items:
            paths.update(_needed_paths(item))
            for block in item.blocks.values() if is_root and item is not None else ():
                paths.update(_root_paths(block))
        fetch = Fetch(
            key=key,
            type=definition.type,
            position=position,
            mapping=mapping,
            arguments=build_arguments(definition, nodes[0]),
            relation=relation,
            selection=selection,
            serialize=serialize,
            projection=build_projection(paths),
            is_root=is_root,
            connection=connection,
        )
        return _find_folds(fetch)

    def _build_entities(
        self, key: str, definition: GraphQLField, position: FieldPosition, nodes: list[FieldNode]
    ) -> Entities:
        union = cast("GraphQLUnionType", get_named_type(definition.type))
        plain = [replace(node, arguments=()) for node in nodes]
        lookups: dict[str, tuple[EntityLookup, ...]] = {}
        blocks: dict[str, Block] = {}
        for type_ in self.app.schema.get_possible_types(union):
            blocks |= self._build_selection(type_, position, nodes).blocks
            lookups[type_.name] = tuple(
                self._build_lookup(key, type_, position, plain, entity)
                for entity in self.app.app.entities.get(type_.name, ())
            )
        selection = Selection(union.name, position, blocks)
        arguments = build_arguments(definition, nodes[0])
        return Entities(key, definition.type, position, arguments, selection, lookups)

    def _build_lookup(
        self,
        key: str,
        type_: GraphQLObjectType,
        position: FieldPosition,
        nodes: list[FieldNode],
        entity: EntityMapping,
    ) -> EntityLookup:
        field = GraphQLField(type_)
        fetch = self._build_fetch(key, field, position, nodes, entity.mapping, is_root=True)
        # Values of several joins would be combined with each other: one query for each of these.
        relation, is_composite = fetch.relation, len(entity.paths) > 1
        relation = replace(relation, is_per_parent=relation.is_per_parent or is_composite)
        fetch = replace(fetch, is_root=False, folds=(), is_entity=True, relation=relation)
        keys = tuple((path, find_leaf_type(type_, path)) for path in entity.paths)
        return EntityLookup(keys, fetch)

    def _build_selection(
        self, named: GraphQLNamedType, position: FieldPosition, nodes: list[FieldNode]
    ) -> Selection:
        """Return the blocks below a field, shared by all fields with the same nodes."""
        sets = [node.selection_set for node in nodes if node.selection_set is not None]
        shared = (named.name, tuple(map(id, sets)))
        selection = self._selections.get(shared)
        if selection is not None:
            return selection
        resolver: TypeResolver | None = None
        types: Sequence[GraphQLObjectType]
        if isinstance(named, GraphQLObjectType):
            types = [named]
        else:
            assert is_abstract_type(named)  # noqa: S101 - leaves have no selection
            types = self.app.schema.get_possible_types(named)
            resolver = self.app.app.type_resolvers[named.name]
        blocks: dict[str, Block] = {}
        for type_ in types:
            try:
                blocks[type_.name] = self._build_block(type_, sets)
            except FieldFailure as failure:
                blocks[type_.name] = Block(type_.name, (), failure.at(position))
        selection = Selection(named.name, position, blocks)
        if resolver is not None:
            resolve, paths = resolver.resolve, resolver.needed_paths
            selection = Selection(named.name, position, blocks, resolve, paths)
        self._selections[shared] = selection
        return selection

    def _find_serializer(self, named: GraphQLNamedType) -> Callable[[Any], Any]:
        if is_enum_type(named):
            return self.app.app.enums[named.name].name_of
        return serializer(named.name, self.app.app.mode)


def _serialize_count(show: Callable[[Any], Any], result: Any) -> Any:
    return show(result["count"])


def _needed_paths(selection: Selection | None) -> Iterator[str]:
    """Yield the paths that the documents of a fetch must contain for a selection.

    A path is cut after its first step where a list may be wanted: projecting `a.b` drops elements
    of an array `a` that are not documents.
    """
    if selection is None:
        yield WHOLE
        return
    yield from (cut_path(tuple(path.split("."))) for path in selection.resolver_paths)
    for planned in (each for block in selection.blocks.values() for each in block.fields):
        match planned:
            case LeafField() | Embedded():  # an object is read whole to check its shape
                path = cut_path(planned.path)
                is_list = is_list_type(get_nullable_type(planned.type))
                yield path.split(".")[0] if is_list else path
            case Fetch():
                keys = planned.relation.foreign_keys
                yield from (cut_path((key.split(".")[0],)) for key in keys)


def _root_paths(block: Block) -> Iterator[str]:
    """Yield the paths that fetches in and below a block need of the root document."""
    for column in block.columns:
        if isinstance(column, Fetch):
            yield from (cut_path((path.split(".")[0],)) for path in column.relation.root_paths)
        if isinstance(column, Fetch | Embedded) and column.selection is not None:
            for inner in column.selection.blocks.values():
                if inner.needs_root:
                    yield from _root_paths(inner)


_ITEMS = frozenset({("nodes",), ("edges", "node")})
_TOTAL = ("totalCount",)


def _read_parts(selection: Selection) -> ConnectionParts:
    parts = list(_list_fields(selection.only_block, ()))
    paths = {path for path, _ in parts}
    return ConnectionParts(
        items=tuple(
            part.selection for path, part in parts if path in _ITEMS and isinstance(part, Embedded)
        ),
        has_rows=bool(paths - {_TOTAL}),
        edges=("edges",) in paths,
        nodes=("nodes",) in paths,
        edge_cursors=("edges", "cursor") in paths,
        start_cursor=("pageInfo", "startCursor") in paths,
        end_cursor=("pageInfo", "endCursor") in paths,
        next_page=("pageInfo", "hasNextPage") in paths,
        previous_page=("pageInfo", "hasPreviousPage") in paths,
        total=_TOTAL in paths,
    )


def _list_fields(
    block: Block, above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], LeafField | Embedded]]:
    """Yield the fields of a connection with their paths, down to its items."""
    for part in block.fields:
        if isinstance(part, LeafField | Embedded):
            path = above + part.path
            yield path, part
            if isinstance(part, Embedded) and path not in _ITEMS:
                yield from _list_fields(part.selection.only_block, path)


def _find_folds(parent: Fetch) -> Fetch:
    """Return the fetch, with the to-one joins that its command can include (`$lookup`).

    One document with its author costs one command instead of two if the database looks up the
    author. With many parents that is far slower than one `$in` for all, so only fields of a single
    root document are folded. Keys that `$lookup` would join differently (arrays, nulls) are
    detected in the fetched parent, and their relations are fetched separately.
    """
    selection = parent.selection
    if (
        not parent.is_root
        or parent.is_list
        or not isinstance(parent.mapping, QueryMapping)
        or parent.projection is None
        or selection is None
        or selection.resolve is not None
    ):
        return parent
    folds = tuple(
        Fold(fetch, f"__fold_{fetch.key}")
        for fetch in selection.only_block.fetches
        if _can_fold(fetch, parent)
    )
    return replace(parent, folds=folds) if folds else parent


def _can_fold(child: Fetch, parent: Fetch) -> bool:
    relation = child.relation
    return (
        isinstance(child.mapping, QueryMapping)
        and not child.is_list
        and child.selection is not None
        and child.mapping.db == parent.mapping.db
        and child.mapping.loader.batching
        and len(relation.joins) == 1
        and not relation.joins[0].many
        and not relation.is_per_parent
        and cut_path(relation.joins[0].path) == relation.joins[0].target
        and cut_path(tuple(relation.joins[0].key.split("."))) == relation.joins[0].key
    )
