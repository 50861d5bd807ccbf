"""Related documents that change: while pages are read, and after an answer (decision 73)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphql import parse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo.database import Database

from tests.chance import examples
from tests.properties.changes import follow
from tests.properties.engine_runner import Engine
from tests.properties.related_oracle import Document, World
from tests.properties.test_dependencies import Watch
from tests.properties.test_relations import (
    ALWAYS,
    SETTINGS,
    Target,
    Word,
    conditions,
    fars,
    find_value,
    nears,
    orders,
    place,
    show,
    sort_naively,
    target,
    worlds,
)

__all__ = ["SETTINGS", "target"]

Order = list[tuple[str, int]]
TRIED = settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))


def writes_to(name: str, documents: st.SearchStrategy[Document]) -> st.SearchStrategy[Any]:
    """A document that is written or deleted (None)."""
    return st.tuples(st.just(name), st.integers(0, 9), documents | st.none())


writes = writes_to("near", nears) | writes_to("far", fars)


def write(database: Database[Document], change: tuple[str, int, Document | None]) -> None:
    name, number, document = change
    if document is None:
        database[name].delete_one({"_id": number})
    else:
        database[name].replace_one({"_id": number}, document, upsert=True)


def render_order(order: Order) -> str:
    parts = [
        {head: {rest: Word(direction)} if rest else Word(direction)}
        for path, direction in order
        for head, _, rest in [path.partition(".")]
    ]
    return f"orderBy: {show(parts)}"


class History:
    """The values that each document was sorted by, while pages are read."""

    def __init__(self, database: Database[Document], order: Order) -> None:
        self._database, self._order = database, order
        self._values: list[dict[int, list[Any]]] = []

    def record(self) -> None:
        world = self._load()
        documents = world.find("Near", {})
        paths = [path for path, _ in self._order]
        self._values.append(
            {each["_id"]: [find_value(world, each, path) for path in paths] for each in documents}
        )

    def list_unchanged(self) -> list[int]:
        """The documents that never changed their place, in order."""
        first, *others = self._values
        same = {id_ for id_, values in first.items() if all(o.get(id_) == values for o in others)}
        world = self._load()
        ordered = sort_naively(world, world.find("Near", {}), self._order)
        return [each["_id"] for each in ordered if each["_id"] in same]

    def _load(self) -> World:
        names = ("Near", "Far")
        stored = {name: list(self._database[name.lower()].find().sort("_id")) for name in names}
        return World(stored, frozenset())


@given(
    world=worlds,
    order=orders,
    size=st.integers(1, 3),
    changes=st.lists(writes, min_size=1, max_size=10),
    is_forward=st.booleans(),
)
@TRIED
def test_pages_have_what_keeps_its_place_once(  # noqa: PLR0917 - what is generated
    engine: Engine,
    target: Target,
    world: tuple[list[Document], list[Document]],
    order: Order,
    size: int,
    changes: list[Any],
    is_forward: bool,
) -> None:
    """Documents change between pages; most have equal values in the order."""
    place(target.database, engine, world, frozenset())
    history = History(target.database, order)
    history.record()
    seen: list[int] = []
    for page in read_pages(engine, target, order, size, is_forward=is_forward):
        seen = [*seen, *page] if is_forward else [*page, *seen]
        assert len(seen) < 100, "the pages do not end"
        if changes:
            write(target.database, changes.pop())
            history.record()
    unchanged = history.list_unchanged()
    assert [each for each in seen if each in unchanged] == unchanged


def read_pages(
    engine: Engine, target: Target, order: Order, size: int, *, is_forward: bool
) -> Iterator[list[int]]:
    names = ("first", "after", "endCursor", "hasNextPage")
    first, after, end, more = (
        names if is_forward else ("last", "before", "startCursor", "hasPreviousPage")
    )
    cursor = ""
    while True:
        query = (
            f"{{ pages({render_order(order)} {first}: {size} {cursor})"
            f" {{ nodes {{ id }} pageInfo {{ {more} {end} }} }} }}"
        )
        reply = engine.answer(target.app, parse(query), {})
        assert not reply.problems, (query, reply.problems)
        page = reply.data["pages"]
        yield [each["id"] for each in page["nodes"]]
        if not page["pageInfo"][more]:
            return
        cursor = f'{after}: "{page["pageInfo"][end]}"'


@given(
    world=worlds,
    where=conditions("Near", 2),
    order=orders,
    changes=st.lists(writes_to("far", fars) | writes, min_size=3, max_size=5),
    has_rows=st.booleans(),
)
@TRIED
def test_answers_that_related_documents_change_were_invalidated(  # noqa: PLR0917 - what is generated
    engine: Engine,
    target: Target,
    world: tuple[list[Document], list[Document]],
    where: Document,
    order: Order,
    changes: list[Any],
    has_rows: bool,
) -> None:
    database = target.database
    place(database, engine, world, frozenset())
    rows = {f"{database.name}.far": {"c": {"$ne": 2}}} if has_rows else {}
    arguments = [*(f"where: {show(each)}" for each in [*ALWAYS, where]), render_order(order)]
    queries = [(f"{{ near({each}) {{ id }} }}", dict[str, Any]()) for each in arguments]
    with follow(database) as events:
        watch = Watch(engine, target.app, events, rows)
        entries = [watch.answer(query) for query in queries]
        for change in changes:
            write(database, change)
            for facts in events.read():
                watch.index.apply(facts)
            for number, (query, entry) in enumerate(zip(queries, entries, strict=True)):
                entries[number] = watch.answer(query)
                if entries[number].answer != entry.answer:
                    assert entry.is_outdated, (query, entry.dependencies, change)
