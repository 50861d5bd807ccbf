"""Plan of an operation: the commands to the database, and how results become JSON.

A plan is a pure, printable value. It does not depend on the values of variables. Only the selected
fields depend on those in `@skip` and `@include`, so a plan builds a tree for each outcome of its
conditions that occurs. Almost all plans have no conditions, and one tree.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any

from graphql import (
    DirectiveNode,
    DocumentNode,
    OperationDefinitionNode,
    OperationType,
    Visitor,
    print_ast,
    visit,
)

from docgraph.graphql.apps.compiled_app import VisibleApp
from docgraph.graphql.definition.mapping import AggregationMapping, QueryMapping
from docgraph.graphql.definition.schema import LIVE
from docgraph.graphql.errors import Classification, OperationRefused
from docgraph.graphql.plan.arguments import VariableReader, find_variables
from docgraph.graphql.plan.build import TreeBuilder
from docgraph.graphql.plan.collect import Collector, Flags
from docgraph.graphql.plan.leaves import LeafField, TypenameField, UnmappedField
from docgraph.graphql.plan.plan_tree import (
    Block,
    Embedded,
    Entities,
    Fetch,
    Introspection,
    PlannedField,
    PlanTree,
    Selection,
)
from docgraph.graphql.related import RelationSpec
from docgraph.runtime import Lane, LruDict, run_blocking

_KEPT_TREES = 16
_REMEMBERED = 100  # executions
_LONGEST_NAME = 200  # characters; callers choose names, and every command carries them


class LargeRelations:
    """Remembers the relations of a plan that have very many documents, or keys.

    Only the method of fetching depends on it, never the result. From time to time a relation is
    checked again.
    """

    def __init__(self) -> None:
        self._left: dict[int, int] = {}

    def remember(self, fetch: Fetch | RelationSpec) -> None:
        """Expect very many documents per parent for a number of executions."""
        self._left[id(fetch)] = _REMEMBERED

    def expects(self, fetch: Fetch | RelationSpec) -> bool:
        """Return whether very many documents per parent are expected this time."""
        left = self._left.get(id(fetch), 0)
        if left:
            self._left[id(fetch)] = left - 1
        return left > 0


@dataclass(frozen=True, eq=False)
class Plan:
    """How one operation is executed for callers who see the same part of an app."""

    app: VisibleApp
    document: DocumentNode
    operation: OperationDefinitionNode
    conditions: tuple[str, ...]  # the variables of @skip and @include
    is_large: bool = False  # building a tree takes long
    large_relations: LargeRelations = field(default_factory=LargeRelations, repr=False)
    _trees: LruDict[Hashable, PlanTree] = field(
        default_factory=lambda: LruDict(_KEPT_TREES), repr=False
    )

    @property
    def name(self) -> str:
        return self.operation.name.value if self.operation.name else ""

    @cached_property
    def identity(self) -> bytes:
        """The digest that differs for plans whose answers from the same data can differ."""
        text = self.document.loc.source.body if self.document.loc else print_ast(self.document)
        parts = (self.app.identity, self.name, text)
        return blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=32).digest()

    @cached_property
    def is_live(self) -> bool:
        """Whether the operation has `@live`, which only callers who may use it can write."""
        return any(
            directive.name.value == LIVE.name for directive in self.operation.directives or ()
        )

    @cached_property
    def variables(self) -> VariableReader:
        return VariableReader(self.app.schema, self.operation)

    @cached_property
    def comment(self) -> dict[str, str]:
        """The comment of every command to the database, which shows its origin."""
        return {"app": str(self.app.app.definition.id), "operation": self.name[:_LONGEST_NAME]}

    @cached_property
    def only_tree(self) -> PlanTree | None:
        """The tree of a plan without conditions."""
        return None if self.conditions else self.tree({})

    def tree(self, variables: Mapping[str, Any]) -> PlanTree:
        """Return the tree for the conditions as these (coerced) variables decide them."""
        tree = self.kept_tree(variables)
        if tree is None:
            outcome = self._decide(variables)
            tree = self._build(dict(zip(self.conditions, outcome, strict=True)))
            self._trees.put(outcome, tree)
        return tree

    def kept_tree(self, variables: Mapping[str, Any]) -> PlanTree | None:
        return self._trees.get(self._decide(variables))

    async def grow(self, variables: Mapping[str, Any], lane: Lane | None) -> PlanTree:
        """Return the tree, built outside of the event loop if that would take long."""
        if lane is None or not self.is_large:
            return self.tree(variables)
        return await run_blocking(lane, self.tree, variables)

    def _decide(self, variables: Mapping[str, Any]) -> tuple[Any, ...]:
        if not self.conditions:
            return ()
        return tuple([variables.get(name) for name in self.conditions])

    def explain(self) -> str:
        """Return the plan as text, as if every condition held."""
        title = f"{self.operation.operation.value} {self.name}".rstrip()
        return explain(title, self.widest_tree())

    def widest_tree(self) -> PlanTree:
        """Return the tree as if every condition held."""
        return self._build(None)

    def _build(self, flags: Flags | None) -> PlanTree:
        collector = Collector.of(self.app.schema, self.document, flags)
        return TreeBuilder(self.app, self.operation, collector).build()


def build_plan(
    app: VisibleApp, document: DocumentNode, operation_name: str | None, *, is_large: bool = False
) -> Plan:
    """Build the plan of an operation of a valid document; raise `OperationRefused`."""
    operation = select_operation(document, operation_name)
    finder = _Conditions()
    visit(document, finder)
    plan = Plan(app, document, operation, tuple(sorted(finder.names)), is_large)
    if not plan.conditions:
        plan.tree({})
    return plan


def select_operation(document: DocumentNode, operation_name: str | None) -> OperationDefinitionNode:
    """Return the operation to run; raise `OperationRefused` if there is none or it is no query."""
    operations = [d for d in document.definitions if isinstance(d, OperationDefinitionNode)]
    if operation_name:
        operations = [d for d in operations if d.name and d.name.value == operation_name]
        if not operations:
            raise OperationRefused.because(
                f"Unknown operation named '{operation_name}'.", "unknown-operation"
            )
    if not operations:
        raise OperationRefused.because("Must provide an operation.", "no-operation")
    if len(operations) > 1:
        raise OperationRefused.because(
            "Must provide operation name if query contains multiple operations.",
            "operation-name-required",
        )
    kind = operations[0].operation
    if kind is not OperationType.QUERY:
        raise OperationRefused.because(
            f"Schema is not configured for {kind.value}s.",
            "operation-not-supported",
            Classification.UNSUPPORTED,
        )
    return operations[0]


class _Conditions(Visitor):
    """Finds the variables of @skip and @include."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def enter_directive(self, node: DirectiveNode, *_: Any) -> None:
        if node.name.value in ("skip", "include"):
            self.names |= find_variables(node)


_MAX_LENGTH = 200  # of one filter or pipeline


def explain(title: str, tree: PlanTree) -> str:
    """Return the tree as text, one line per field and one per detail of a command."""
    return "\n".join([title, *_explain_block(tree.block, "", {})])


def _explain_block(block: Block, indent: str, shown: dict[int, str]) -> Iterator[str]:
    plain = [_describe_field(field, block) for field in block.fields if not _has_lines(field)]
    rows: list[tuple[str, PlannedField | None]] = []
    if plain:
        rows.append((", ".join(plain), None))
    rows += [(_describe_field(field, block), field) for field in block.fields if _has_lines(field)]
    for number, (text, row) in enumerate(rows):
        is_last = number == len(rows) - 1
        yield f"{indent}{'└─ ' if is_last else '├─ '}{text}"
        below = indent + ("   " if is_last else "│  ")
        if isinstance(row, Fetch):
            for line in _explain_fetch(row):
                yield f"{below}  {line}"
        if isinstance(row, Entities):
            yield from _explain_entities(row, below, shown)
        if isinstance(row, Fetch | Embedded) and row.selection is not None:
            yield from _explain_selection(row.selection, below, shown)


def _explain_entities(entities: Entities, indent: str, shown: dict[int, str]) -> Iterator[str]:
    for name, lookups in entities.lookups.items():
        for lookup in lookups:
            keys = " ".join(".".join(path) for path, _ in lookup.keys)
            way = describe_way(lookup.fetch)
            yield f"{indent}  {name} by {keys}: find {lookup.fetch.namespace}, {way}"
            for line in _explain_fetch(lookup.fetch):
                yield f"{indent}    {line}"
        yield from _explain_block(entities.selection.blocks[name], indent, shown)


def _explain_selection(selection: Selection, indent: str, shown: dict[int, str]) -> Iterator[str]:
    if id(selection) in shown:
        yield f"{indent}└─ as above"
        return
    shown[id(selection)] = selection.type_name
    if selection.resolve is None:
        yield from _explain_block(selection.only_block, indent, shown)
        return
    names = list(selection.blocks)
    for name in names:
        is_last = name == names[-1]
        yield f"{indent}{'└─ ' if is_last else '├─ '}… on {name}"
        below = indent + ("   " if is_last else "│  ")
        yield from _explain_block(selection.blocks[name], below, shown)


def _has_lines(field: PlannedField) -> bool:
    return isinstance(field, Embedded | Fetch | Introspection | Entities)


def _describe_field(field: PlannedField, block: Block) -> str:
    note = block.notes.get(field.key)
    condition = f" {note}" if note else ""
    match field:
        case TypenameField():
            text = field.key
        case UnmappedField():
            reason = "no mapping: null" if field.failure is None else "invalid definition: error"
            text = f"{field.key} ({reason})"
        case LeafField() | Embedded():
            path = ".".join(field.path)
            text = field.key if path == field.key else f"{field.key} = {path}"
        case Introspection():
            text = f"{field.key} from the schema"
        case Entities():
            text = f"{field.key}: entities by their keys"
        case Fetch():
            kind = "aggregate" if isinstance(field.mapping, AggregationMapping) else "find"
            name = f"{field.mapping.db}.{field.mapping.collection}"
            text = f"{field.key}: {kind} {name}, {describe_way(field)}"
    return text + condition


def describe_way(fetch: Fetch) -> str:
    """Describe how many commands a field takes, and why."""
    relation = fetch.relation
    if fetch.is_root:
        if fetch.folds:
            names = ", ".join(fold.fetch.key for fold in fetch.folds)
            return f"one command, {names} looked up in it"
        return "one command"
    if relation.is_independent:
        return "one command, the same for all parents"
    if not fetch.mapping.loader.batching:
        return "one command per parent (batching is off)"
    if relation.joins and not relation.is_per_parent:
        return "one command for all parents, joined in memory"
    return "equal queries once, different ones together"


def _explain_fetch(fetch: Fetch) -> Iterator[str]:
    relation, mapping = fetch.relation, fetch.mapping
    for join in relation.joins:
        yield f"join {join.target} {'in' if join.many else '='} parent's {join.key}"
    if isinstance(mapping, AggregationMapping):
        yield f"stages {_show(mapping.stages.source)}"
    else:
        yield from _explain_query(fetch, mapping)
    parts = fetch.connection
    if parts is not None and parts.has_rows:
        yield "page by keyset: first, after, last, before; ties by _id"
    if parts is not None and parts.total:
        yield "totalCount: one more command, for all parents"
    if parts is not None and (parts.next_page or parts.previous_page):
        yield "items on the other side of a cursor: one more command, for all parents"
    shown = fetch.projection
    fields = "all" if shown is None else ", ".join(name for name, on in shown.items() if on)
    yield f"fields {fields}"
    if relation.root_paths:
        paths = ", ".join(path or "all of it" for path in relation.root_paths)
        yield f"of rootDoc {paths}"


def _explain_query(fetch: Fetch, mapping: QueryMapping) -> Iterator[str]:
    rest = fetch.relation.rest
    if rest is not None and rest.source:
        yield f"filter {_show(rest.source)}"
    generated = {"where": mapping.where, "orderBy": mapping.order}
    for argument in fetch.arguments.node.arguments or ():
        if generated.get(argument.name.value) is not None:
            yield f"{argument.name.value} {_shorten(print_ast(argument.value))}"
    parts = {"sort": mapping.sort, "skip": mapping.skip, "limit": mapping.limit}
    for name, template in parts.items():
        if template is not None:
            yield f"{name} {_show(template.source)}"


def _show(source: Any) -> str:
    return _shorten(_render(source))


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"


def _render(value: Any) -> str:
    """Return JSON where possible; other stored values as Python prints them."""
    match value:
        case {"$arg": str(name)}:
            return f"${name}"
        case {"$arg": [str(name), default]}:
            return f"(${name} or {_render(default)})"
        case dict():
            return "{" + ", ".join(f"{key}: {_render(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_render, value)) + "]"
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case _:
            return str(value)
