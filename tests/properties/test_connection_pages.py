"""Pages of connections, put together, are the sorted list: forward and backward, root and below."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphql import parse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.database import Database

from docgraph.graphql.apps.compiled_app import VisibleApp, build_app
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.sections import Graphql
from tests.chance import examples
from tests.databases import drop, new_name
from tests.properties.engine_runner import Engine
from tests.properties.test_engine_join import scalars
from tests.properties.test_keyset import directions, orders, values

Document = dict[str, Any]
Read = Callable[[str], Document]
SETTINGS = Graphql(default_limit=3, count_time_limit=60_000)
SCHEMA = """
type Item { id: Int }
type Parent { id: Int items: [Item!]! }
type Query { items: [Item!]! parents: [Parent!]! }
"""
PAGE = "{ nodes { id } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } totalCount }"
PLAIN = st.lists(st.tuples(st.sampled_from("ab"), directions), max_size=2, unique_by=lambda o: o[0])


@given(
    stored=st.lists(
        st.dictionaries(st.sampled_from("ab"), values, max_size=2), min_size=1, max_size=9
    ),
    order=orders,
    size=st.integers(1, 4),
)
@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
def test_forward_pages_of_any_values_are_the_sorted_list(
    mongo_client: MongoClient[Document],
    engine: Engine,
    stored: list[Document],
    order: list[tuple[str, int]],
    size: int,
) -> None:
    with_parallel_arrays = has_parallel_arrays(stored, order)
    if with_parallel_arrays:  # the database has no order of them
        return
    name = new_name()
    database = mongo_client[name]
    try:
        wanted = store(database, stored, order)
        app = build(name, order)
        check_forward(wanted, size, lambda arguments: read_root(engine, app, arguments))
        for parent in (0, 1):
            own = [one for one in wanted if one % 2 == parent]
            read = bind_parent(engine, app, parent)
            check_forward(own, size, read)
    finally:
        drop(mongo_client, name)


@given(
    stored=st.lists(
        st.dictionaries(st.sampled_from("ab"), scalars, max_size=2), min_size=1, max_size=9
    ),
    order=PLAIN,
    size=st.integers(1, 4),
)
@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
def test_backward_pages_of_mixed_values_are_the_sorted_list(
    mongo_client: MongoClient[Document],
    engine: Engine,
    stored: list[Document],
    order: list[tuple[str, int]],
    size: int,
) -> None:
    name = new_name()
    try:
        wanted = store(mongo_client[name], stored, order)
        app = build(name, order)
        check_backward(wanted, size, lambda arguments: read_root(engine, app, arguments))
        for parent in (0, 1):
            own = [one for one in wanted if one % 2 == parent]
            check_backward(own, size, bind_parent(engine, app, parent))
    finally:
        drop(mongo_client, name)


@given(
    stored=st.lists(st.dictionaries(st.just("a"), values, max_size=1), min_size=1, max_size=9),
    direction=directions,
    size=st.integers(1, 4),
)
@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
def test_backward_pages_with_arrays_are_right_or_an_error(
    mongo_client: MongoClient[Document],
    engine: Engine,
    stored: list[Document],
    direction: int,
    size: int,
) -> None:
    name = new_name()
    try:
        order = [("a", direction)]
        wanted = store(mongo_client[name], stored, order)
        app = build(name, order)
        cursors = [
            edge["cursor"]
            for edge in ask(engine, app, "{ items(first: 9) { edges { cursor } } }")["items"][
                "edges"
            ]
        ]
        for place, cursor in enumerate(cursors):
            query = f'{{ items(last: {size}, before: "{cursor}") {{ nodes {{ id }} }} }}'
            expected = engine.answer(app, parse(query), {})
            if expected.problems:
                assert {code for _, code in expected.problems} == {"array-in-order"}
            else:
                found = [node["id"] for node in expected.data["items"]["nodes"]]
                assert found == wanted[max(0, place - size) : place]
    finally:
        drop(mongo_client, name)


def has_parallel_arrays(stored: list[Document], order: list[tuple[str, int]]) -> bool:
    """Whether two paths of the order lead to arrays in one document."""
    heads = {path.split(".")[0] for path, _ in order}
    return any(sum("[" in repr(one.get(head)) for head in heads) > 1 for one in stored) or any(
        "[" in repr(one.get(path[0])) for one in stored for path, _ in order if len(order) > 1
    )


def store(
    database: Database[Document], stored: list[Document], order: list[tuple[str, int]]
) -> list[int]:
    """Store the documents for two parents; return their ids in the order of the list."""
    database.parents.insert_many([{"_id": 0}, {"_id": 1}])
    database.items.insert_many([{**one, "_id": n, "p": n % 2} for n, one in enumerate(stored)])
    last = order[-1][1] if order else 1
    return [one["_id"] for one in database.items.find({}, {"_id": 1}, sort=[*order, ("_id", last)])]


def build(name: str, order: list[tuple[str, int]]) -> VisibleApp:
    """The app with connections in this order."""
    place = {"db": name, "collection": "items", "connection": {}, "sort": dict(order)}
    mappings = {
        "Item": {"id": "_id"},
        "Parent": {"id": "_id", "items": {**place, "find": {"p": {"$fk": "_id"}}}},
        "Query": {
            "items": place,
            "parents": {"db": name, "collection": "parents", "sort": {"_id": 1}},
        },
    }
    definition = {"_id": "test", "schema": SCHEMA, "mappings": mappings}
    return build_app(decode_definition(definition), SETTINGS).visible_to(())


def ask(engine: Engine, app: VisibleApp, query: str) -> Any:
    """The data of a query without errors."""
    expected = engine.answer(app, parse(query), {})
    assert expected.problems == frozenset(), query
    return expected.data


def read_root(engine: Engine, app: VisibleApp, arguments: str) -> Document:
    """A page of the root field."""
    page: Document = ask(engine, app, f"{{ items({arguments}) {PAGE} }}")["items"]
    return page


def bind_parent(engine: Engine, app: VisibleApp, parent: int) -> Read:
    """A function that reads the pages of one of two parents, which are fetched together."""

    def read(arguments: str) -> Document:
        data = ask(engine, app, f"{{ parents {{ items({arguments}) {PAGE} }} }}")
        page: Document = data["parents"][parent]["items"]
        return page

    return read


def check_forward(wanted: list[int], size: int, read: Read) -> None:
    """Read all pages from the beginning."""
    page, found = read(f"first: {size}"), list[int]()
    for number in range(len(wanted) + 1):
        found += [node["id"] for node in page["nodes"]]
        info = page["pageInfo"]
        assert page["totalCount"] == len(wanted)
        assert info["hasPreviousPage"] is (number > 0)
        assert info["hasNextPage"] is (len(found) < len(wanted))
        if not info["hasNextPage"]:
            break
        page = read(f'first: {size}, after: "{info["endCursor"]}"')
    assert found == wanted


def check_backward(wanted: list[int], size: int, read: Read) -> None:
    """Read all pages from the end."""
    page, found = read(f"last: {size}"), list[int]()
    for number in range(len(wanted) + 1):
        found = [node["id"] for node in page["nodes"]] + found
        info = page["pageInfo"]
        assert info["hasNextPage"] is (number > 0)
        assert info["hasPreviousPage"] is (len(found) < len(wanted))
        if not info["hasPreviousPage"]:
            break
        page = read(f'last: {size}, before: "{info["startCursor"]}"')
    assert found == wanted
