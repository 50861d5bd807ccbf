"""Plan as text: a tree of fields, with the commands of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphql import print_ast

from docgraph.graphql.definition.mapping import AggregationMapping, QueryMapping
from docgraph.graphql.plan.plan_tree import (
    Block,
    ConnectionParts,
    Embedded,
    Fetch,
    Introspection,
    LeafField,
    PlannedField,
    PlanTree,
    Selection,
    TypenameField,
    UnmappedField,
)

_MAX_LENGTH = 200  # of one filter or pipeline


def explain(title: str, tree: PlanTree) -> str:
    """Return the tree as text, one line per field and one per detail of a command."""
    return "\n".join([title, *_explain_block(tree.block, "", {})])


def _explain_block(block: Block, indent: str, shown: dict[int, str]) -> Iterator[str]:
    plain = [_describe(field, block) for field in block.fields if not _has_lines(field)]
    rows: list[tuple[str, PlannedField | None]] = []
    if plain:
        rows.append((", ".join(plain), None))
    rows += [(_describe(field, block), field) for field in block.fields if _has_lines(field)]
    for number, (text, field) in enumerate(rows):
        is_last = number == len(rows) - 1
        yield f"{indent}{'└─ ' if is_last else '├─ '}{text}"
        below = indent + ("   " if is_last else "│  ")
        if isinstance(field, Fetch):
            for line in _explain_fetch(field):
                yield f"{below}  {line}"
        if isinstance(field, Fetch | Embedded) and field.selection is not None:
            yield from _explain_selection(field.selection, below, shown)


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
    return isinstance(field, Embedded | Fetch | Introspection)


def _describe(field: PlannedField, block: Block) -> str:
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
        case Fetch():
            kind = "aggregate" if isinstance(field.mapping, AggregationMapping) else "find"
            name = f"{field.mapping.db}.{field.mapping.collection}"
            text = f"{field.key}: {kind} {name}, {describe_way(field)}"
    return text + condition


def describe_way(fetch: Fetch) -> str:
    """Return how many commands a field takes, and why."""
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
    if fetch.connection is not None:
        yield from _explain_connection(fetch.connection)


def _explain_connection(parts: ConnectionParts) -> Iterator[str]:
    if parts.has_rows:
        yield "page by keyset: first, after, last, before; ties by _id"
    if parts.total:
        yield "totalCount: one more command, for all parents"
    if parts.next_page or parts.previous_page:
        yield "items on the other side of a cursor: one more command, for all parents"


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
