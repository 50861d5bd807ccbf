"""Plan tree: selections, blocks, and the kinds of fields in them.

A `Block` is a selection set on one object type. Its leaves are read from each document; its columns
(embedded objects, fetches, introspection) are resolved for all documents together. A `Selection` is
the sub-selection of a field: one block, or one per possible type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from graphql import (
    FieldNode,
    GraphQLField,
    GraphQLLeafType,
    GraphQLOutputType,
    get_nullable_type,
    is_list_type,
)

from docgraph.codec import JsonMode
from docgraph.exchange.data import FieldPath
from docgraph.graphql.definition.mapping import AggregationMapping, GroupMapping, QueryMapping
from docgraph.graphql.errors import Errors, FieldPosition
from docgraph.graphql.federation.field_sets import KeyPath
from docgraph.graphql.plan.arguments import FieldArguments
from docgraph.graphql.plan.leaves import (
    Described,
    Get,
    LeafField,
    Project,
    Serialize,
    TypenameField,
    UnmappedField,
    compile_projection,
    describe_type,
)
from docgraph.graphql.plan.relation import Relation
from docgraph.graphql.plan.type_choice import TypeChoice
from docgraph.graphql.related import RelationSpec, list_specs
from docgraph.runtime.native import NativeProgram, find_native
from docgraph.variables import Template, parse_path


@dataclass(frozen=True, eq=False)
class Embedded:
    """An object inside the document, or lists of them."""

    key: str
    type: GraphQLOutputType
    position: FieldPosition
    path: FieldPath
    get: Get
    selection: Selection
    is_wrapper: bool = False  # the edges of a connection, or where its page is

    def describe(self) -> Described | None:
        """Return the objects for an output program; None if they need more than the document."""
        inner = self.selection.only_block if self.selection.resolve is None else None
        if inner is None or inner.failure or inner.fetches:
            return None
        fields = inner.describe_fields()
        if fields is None:
            return None
        return self.key, "stored", self.path, describe_type(self.type, ("object", fields))

    @cached_property
    def is_list_type(self) -> bool:
        """Whether there are lists of objects, or lists of lists of them."""
        return _is_list(self.type)


@dataclass(frozen=True, slots=True)
class ConnectionParts:
    """The parts of a connection that are selected, and the selections on its items."""

    items: tuple[Selection, ...]
    has_rows: bool
    edges: bool
    nodes: bool
    edge_cursors: bool
    start_cursor: bool
    end_cursor: bool
    next_page: bool
    previous_page: bool
    total: bool

    @property
    def has_cursors(self) -> bool:
        """Whether positions of documents are selected."""
        return self.edge_cursors or self.start_cursor or self.end_cursor


@dataclass(frozen=True, eq=False)
class Fetch:
    """A field that is fetched once for all parents; `serialize`: its documents are values."""

    key: str
    type: GraphQLOutputType
    position: FieldPosition
    mapping: QueryMapping | AggregationMapping
    arguments: FieldArguments
    relation: Relation
    selection: Selection | None
    serialize: Serialize | None
    projection: Mapping[str, int] | None
    is_root: bool
    folds: tuple[Fold, ...] = ()
    connection: ConnectionParts | None = None
    is_entity: bool = False  # its parents are representations, which a gateway sends
    orders: dict[Any, Any] = field(default_factory=dict, repr=False)  # cached
    # Cached, one for requests that report limits and one for others: `KeptFetch`.
    kept: dict[int, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def namespace(self) -> str:
        return f"{self.mapping.db}.{self.mapping.collection}"

    @cached_property
    def is_list_type(self) -> bool:
        return _is_list(self.type)

    @cached_property
    def is_list(self) -> bool:
        """Whether the field has many documents or the first of them."""
        return self.is_list_type or self.connection is not None

    @property
    def is_wrapper(self) -> bool:
        """Whether the value is an object around documents."""
        return self.connection is not None

    @cached_property
    def related(self) -> tuple[RelationSpec, ...]:
        """The declared relations that the caller's conditions and order may use."""
        mapping, specs = self.mapping, list[RelationSpec]()
        given = {argument.name.value for argument in self.arguments.node.arguments or ()}
        if isinstance(mapping, QueryMapping) and mapping.where is not None and "where" in given:
            specs += list_specs(mapping.where.relations)
        if isinstance(mapping, QueryMapping) and mapping.order is not None and "orderBy" in given:
            specs += [order.spec for order in mapping.order.related.values()]
        return tuple(specs)

    @cached_property
    def templates(self) -> tuple[Template, ...]:
        """The templates of the mapping, and of the relations that conditions may use."""
        return (*self.mapping.templates, *(spec.rest for spec in self.related))

    @cached_property
    def empty(self) -> Any:
        """The value of a field that is no list, without any result."""
        return self.mapping.empty if isinstance(self.mapping, GroupMapping) else None

    @cached_property
    def is_plain_join(self) -> bool:
        """Whether one `$in` finds the documents of all parents."""
        relation = self.relation
        return bool(relation.joins) and not relation.is_per_parent and self.mapping.loader.batching

    @cached_property
    def is_renderable(self) -> bool:
        """Whether output programs render the documents, so that they need not be decoded."""
        selection = self.selection
        return (
            selection is not None
            and self.connection is None
            and all(block.program is not None for block in selection.blocks.values())
        )

    @cached_property
    def has_constant_window(self) -> bool:
        """Whether sort, skip and limit are constants of the mapping, and callers give no others."""
        mapping = self.mapping
        if not isinstance(mapping, QueryMapping):
            return False
        if mapping.where is not None or mapping.order is not None:
            return False
        parts = (mapping.sort, mapping.skip, mapping.limit)
        return all(part is None or part.is_constant for part in parts)

    @cached_property
    def has_own_windows(self) -> bool:
        """Whether sort, skip or limit may differ from parent to parent."""
        if not isinstance(self.mapping, QueryMapping | GroupMapping):
            return False
        parts = (self.mapping.sort, self.mapping.skip, self.mapping.limit)
        return any(part is not None and part.depends_on_parent for part in parts)


@dataclass(frozen=True, slots=True)
class Fold:
    """A to-one relation that the command of its only parent can include by `$lookup`."""

    fetch: Fetch
    name: str  # the field of the parent's result that contains it


@dataclass(frozen=True, slots=True)
class Introspection:
    """`__schema` and `__type`: answered from the visible schema."""

    key: str
    definition: GraphQLField
    position: FieldPosition
    nodes: tuple[FieldNode, ...]
    variables: frozenset[str]

    @property
    def type(self) -> GraphQLOutputType:
        return self.definition.type


class EntityLookup(NamedTuple):
    """A way to find an entity: the keys that it needs, with their types."""

    keys: tuple[tuple[KeyPath, GraphQLLeafType], ...]
    fetch: Fetch


@dataclass(frozen=True, eq=False)
class Entities:
    """`_entities`: objects by the representations of the caller; `lookups` by type."""

    key: str
    type: GraphQLOutputType
    position: FieldPosition
    arguments: FieldArguments
    selection: Selection
    lookups: Mapping[str, tuple[EntityLookup, ...]]

    @cached_property
    def fetches(self) -> tuple[Fetch, ...]:
        return tuple(lookup.fetch for lookups in self.lookups.values() for lookup in lookups)

    def describe(self) -> Described | None:
        """Return None: no output program has representations."""
        return None


Column = Embedded | Fetch | Introspection | Entities
PlannedField = TypenameField | UnmappedField | LeafField | Column


@dataclass(frozen=True, eq=False)
class Block:
    """The fields selected on one object type, in the order of the response.

    `failure` is what every object of this block fails with (a condition that is null).
    """

    type_name: str
    fields: tuple[PlannedField, ...]
    failure: Errors | None = None
    notes: Mapping[str, str] = field(default_factory=dict)  # response key → its conditions
    mode: JsonMode = JsonMode.GRAPHQL

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The fields that are resolved for all documents together."""
        return tuple(f for f in self.fields if isinstance(f, Column))

    @cached_property
    def needs_fetch(self) -> bool:
        """Whether something in or below this block is fetched."""
        return any(needs_fetch(column) for column in self.columns)

    @cached_property
    def is_concurrent(self) -> bool:
        """Whether several columns wait for the database."""
        return sum(map(needs_fetch, self.columns)) > 1

    @cached_property
    def project(self) -> Project:
        """The generated function that builds the objects of this block."""
        return compile_projection(self.type_name, self.fields)

    @cached_property
    def fetches(self) -> tuple[Fetch, ...]:
        return tuple(column for column in self.columns if isinstance(column, Fetch))

    @cached_property
    def key_names(self) -> frozenset[str]:
        """The fields of a document that its `fetches` depend on; "": all of them."""
        keys = (key for fetch in self.fetches for key in fetch.relation.foreign_keys)
        return frozenset(map(_first_step, keys))

    @cached_property
    def program(self) -> NativeProgram | None:
        """The output program, with a slot for each of the `fetches`; None: it needs documents."""
        native = find_native()
        if native is None or self.failure or self.needs_root:
            return None
        fields = self.describe_fields()
        try:
            return None if fields is None else native.build_program(fields, self.mode.value)
        except ValueError:
            return None  # it cannot render one of the types

    def describe_fields(self) -> list[Described] | None:
        """Return the fields of the output program."""
        slots = {id(fetch): number for number, fetch in enumerate(self.fetches)}
        fields: list[Described] = []
        for planned in self.fields:
            if isinstance(planned, Fetch):
                fields.append((planned.key, "slot", slots[id(planned)]))
                continue
            described = None if isinstance(planned, Introspection) else planned.describe()
            if described is None:
                return None
            fields.append(described)
        return fields

    @cached_property
    def needs_root(self) -> bool:
        """Whether something in or below this block uses `rootDoc`."""
        for column in self.columns:
            if isinstance(column, Introspection):
                continue
            if isinstance(column, Fetch) and column.relation.root_paths:
                return True
            if column.selection is not None and column.selection.needs_root:
                return True
        return False


@dataclass(frozen=True, eq=False)
class Selection:
    """The sub-selection of a field: a block for each object type that a document may have."""

    type_name: str
    position: FieldPosition
    blocks: Mapping[str, Block]
    resolve: Callable[[Any], str | None] | None = None  # for interfaces and unions
    resolver_paths: frozenset[str] = frozenset()  # that it reads; "": the whole value
    choice: TypeChoice = field(default_factory=TypeChoice, repr=False)  # cached

    @cached_property
    def resolver_names(self) -> frozenset[str]:
        """The fields of a document that its type depends on; "": all of them."""
        return frozenset(map(_first_step, self.resolver_paths))

    @cached_property
    def needs_root(self) -> bool:
        return any(block.needs_root for block in self.blocks.values())

    @cached_property
    def only_block(self) -> Block:
        """The block of an object type."""
        return next(iter(self.blocks.values()))


def _first_step(path: str) -> str:
    return parse_path(path)[0] if path else ""


def _is_list(type_: GraphQLOutputType) -> bool:
    return is_list_type(get_nullable_type(type_))


def needs_fetch(column: Column) -> bool:
    """Return whether a column waits for the database."""
    if isinstance(column, Embedded):
        return any(block.needs_fetch for block in column.selection.blocks.values())
    return isinstance(column, Fetch | Entities)


@dataclass(frozen=True, eq=False)
class PlanTree:
    """A plan for one outcome of its conditions (`@skip`, `@include`)."""

    block: Block
    estimates: dict[tuple[int, ...], int] = field(default_factory=dict, repr=False)
    untrackable: dict[Any, str] = field(default_factory=dict, repr=False)  # by resolvers

    @cached_property
    def fetches(self) -> tuple[Fetch, ...]:
        """Every fetch once, parents before children."""
        fetches: dict[int, Fetch] = {}
        seen: set[int] = set()

        def visit(block: Block) -> None:
            if id(block) in seen:
                return
            seen.add(id(block))
            for column in block.columns:
                if isinstance(column, Fetch):
                    fetches.setdefault(id(column), column)
                if isinstance(column, Entities):
                    fetches.update((id(fetch), fetch) for fetch in column.fetches)
                if isinstance(column, Embedded | Fetch | Entities) and column.selection is not None:
                    for inner in column.selection.blocks.values():
                        visit(inner)

        visit(self.block)
        return tuple(fetches.values())

    @cached_property
    def entities(self) -> tuple[Entities, ...]:
        """The fields that find entities; only Query has one."""
        return tuple(column for column in self.block.columns if isinstance(column, Entities))

    @cached_property
    def sorted_fetches(self) -> tuple[Fetch, ...]:
        """The queries among them that have a sort, or may get one from the caller."""
        return tuple(
            fetch
            for fetch in self.fetches
            if isinstance(fetch.mapping, QueryMapping)
            and (fetch.mapping.sort is not None or fetch.mapping.order is not None)
        )

    @cached_property
    def listed_fetches(self) -> tuple[tuple[Fetch, QueryMapping], ...]:
        """The queries among them that callers may filter or order, with their mappings."""
        return tuple(
            (fetch, mapping)
            for fetch in self.fetches
            if isinstance(mapping := fetch.mapping, QueryMapping)
            and (mapping.where is not None or mapping.order is not None)
        )

    @cached_property
    def connections(self) -> tuple[Fetch, ...]:
        return tuple(f for f in self.fetches if f.connection is not None)

    @cached_property
    def variables(self) -> frozenset[str]:
        """The predefined variables (`@…`) that the mappings of this tree use."""
        names = (n for f in self.fetches for t in f.templates for n in t.names)
        return frozenset(name for name in names if name.startswith("@"))

    @cached_property
    def collections(self) -> Mapping[str, frozenset[str]]:
        """The collections that the mappings of this tree name, by database."""
        collections: dict[str, set[str]] = {}
        for fetch in self.fetches:
            collections.setdefault(fetch.mapping.db, set()).add(fetch.mapping.collection)
            for spec in fetch.related:
                collections.setdefault(spec.place[0], set()).add(spec.place[1])
        return {db: frozenset(names) for db, names in collections.items()}
