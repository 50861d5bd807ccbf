"""What the engine answers: limits, relations, root documents, values that do not fit, errors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pymongo import MongoClient

from docgraph.codec.bson_types import Regex
from docgraph.exchange import Account, Deadline, Permission
from docgraph.exchange.errors import StoreUnavailable, TimeLimitExceeded
from docgraph.graphql.errors import Classification, OperationRefused
from docgraph.graphql.execute import fetch_by_in
from docgraph.graphql.sections import Graphql
from tests.http.engine.harness import Engine, codes, only_error
from tests.http.harness import UNREACHABLE, eventually, failing

pytestmark = [pytest.mark.anyio, pytest.mark.json]

Client = MongoClient[dict[str, Any]]


def listing(**parts: Any) -> dict[str, Any]:
    """A mapping of a list of items, in the order of their ids."""
    return {"collection": "items", "find": {}, "sort": {"_id": 1}, **parts}


def insert(client: Client, engine: Engine, *documents: dict[str, Any]) -> None:
    client[engine.database].items.insert_many(list(documents))


# --- limits: decision 12 ------------------------------------------------------------------------

LIMITED = "type Query { items(limit: Int, skip: Int): [Item] } type Item { _id: Int }"
LIMITS = {"Query": {"items": listing(limit={"$arg": ["limit", None]}, skip={"$arg": ["skip", 0]})}}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", [0, 1, 2]),
        ("(limit: 0)", [0, 1, 2]),
        ("(limit: null)", [0, 1, 2]),
        ("(limit: 5)", [0, 1, 2, 3, 4]),
        ("(limit: 2, skip: 3)", [3, 4]),
    ],
)
async def test_no_limit_zero_and_null_mean_the_default_limit(
    engine: Engine, mongo_client: Client, arguments: str, expected: list[int]
) -> None:
    """Decision 12."""
    engine.settings = Graphql(default_limit=3, max_limit=5)
    insert(mongo_client, engine, *({"_id": n} for n in range(10)))

    data = await engine.data(engine.app(LIMITED, LIMITS), f"{{ items{arguments} {{ _id }} }}")

    assert [item["_id"] for item in data["items"]] == expected


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("limit: 6", "limit-too-high", "limit cannot be greater than 5"),
        ("limit: -1", "negative-limit", "limit cannot be negative"),
        ("skip: -1", "negative-skip", "skip cannot be negative"),
    ],
)
async def test_limit_that_is_not_allowed_fails_the_field_without_a_command(
    engine: Engine, arguments: str, code: str, message: str
) -> None:
    """Decision 12: partial data, since the field is nullable."""
    engine.settings = Graphql(default_limit=3, max_limit=5)

    result = await engine.run(engine.app(LIMITED, LIMITS), f"{{ items({arguments}) {{ _id }} }}")

    assert result.data == {"items": None}
    assert (only_error(result).code, only_error(result).message) == (code, message)
    assert engine.commands == []


async def test_aggregation_with_too_many_results_is_an_error_that_says_so(
    engine: Engine, mongo_client: Client
) -> None:
    """Decision 12."""
    engine.settings = Graphql(default_limit=3, max_limit=5)
    insert(mongo_client, engine, *({"_id": n} for n in range(6)))
    app = engine.app(
        "type Query { all: [Item] five: [Item] } type Item { _id: Int }",
        {
            "Query": {
                "all": {"collection": "items", "stages": [{"$sort": {"_id": 1}}]},
                "five": {"collection": "items", "stages": [{"$sort": {"_id": 1}}, {"$limit": 5}]},
            }
        },
    )

    result = await engine.run(app, "{ all { _id } five { _id } }")

    assert result.data is not None
    assert result.data["all"] is None
    assert len(result.data["five"]) == 5
    assert only_error(result).message == "the aggregation gives more than 5 results"


async def test_more_documents_than_allowed_end_the_request(
    engine: Engine, mongo_client: Client
) -> None:
    insert(mongo_client, engine, *({"_id": n} for n in range(20)))
    app = engine.app(LIMITED, LIMITS, fetched_documents=10)

    with pytest.raises(OperationRefused) as refused:
        await engine.run(app, "{ a: items(limit: 8) { _id } b: items(limit: 8) { _id } }")

    assert refused.value.errors[0].code == "too-many-documents"


async def test_a_document_that_several_parents_share_counts_once(
    engine: Engine, mongo_client: Client
) -> None:
    insert(mongo_client, engine, *({"_id": n, "tag": "x"} for n in range(4)))
    schema = "type Query { items: [Item] } type Item { _id: Int same: [Item] }"
    same = {"collection": "items", "find": {"tag": {"$fk": "tag"}}}
    mappings: Any = {"Query": {"items": {"collection": "items"}}, "Item": {"same": same}}
    app = engine.app(schema, mappings, fetched_documents=8)

    data = await engine.data(app, "{ items { same { _id } } }")

    assert [len(item["same"]) for item in data["items"]] == [4] * 4


# --- relations -----------------------------------------------------------------------------------


async def test_documents_belong_to_their_own_parents_beside_parents_without_a_key(
    engine: Engine, mongo_client: Client
) -> None:
    """Decision 11: whatever the position of parents without a key is."""
    schema = """
        type Query { items: [Item] }
        type Item { _id: Int, one: Item, many: [Item] }
    """
    related = {"find": {"_id": {"$fk": "key"}}}
    mappings = {
        "Query": {"items": listing(find={"_id": {"$lt": 10}})},
        "Item": {"one": listing(**related), "many": listing(**related)},
    }
    insert(mongo_client, engine, {"_id": 11}, {"_id": 12})
    insert(mongo_client, engine, {"_id": 0}, {"_id": 1, "key": 11}, {"_id": 2, "key": None})
    insert(mongo_client, engine, {"_id": 3, "key": 12}, {"_id": 4, "key": 11})

    data = await engine.data(
        engine.app(schema, mappings), "{ items { _id one { _id } many { _id } } }"
    )

    keys = [None, 11, None, 12, 11]
    assert data["items"] == [
        {"_id": n, "one": key and {"_id": key}, "many": [{"_id": key}] if key else []}
        for n, key in enumerate(keys)
    ]


@pytest.mark.parametrize(
    ("key", "targets", "found"),
    [
        (1, [1.0], True),
        (1, [True], False),
        (True, [1], False),
        ("1", [1], False),
        (2, [[1, 2]], True),
        ([1, 2], [[1, 2]], True),
        ([1, 2], [1], False),
        ({"a": 1, "b": 2}, [{"a": 1.0, "b": 2}], True),
        ({"a": 1, "b": 2}, [{"b": 2, "a": 1}], False),
        (float("nan"), [float("nan")], True),
        (None, [None], False),
    ],
)
async def test_joins_in_memory_use_the_equality_of_the_database(
    engine: Engine, mongo_client: Client, key: Any, targets: list[Any], found: bool
) -> None:
    """Decisions 11 and 13; a second parent keeps the join in memory."""
    db = mongo_client[engine.database]
    db.items.insert_many([{"_id": 1, "key": key}, {"_id": 2, "key": "other"}])
    db.targets.insert_many([{"target": target} for target in targets])
    app = engine.app(
        "type Query { items: [Item] } type Item { found: [Target] } type Target { _id: ObjectId }",
        {
            "Query": {"items": listing()},
            "Item": {"found": {"collection": "targets", "find": {"target": {"$fk": "key"}}}},
        },
    )

    data = await engine.data(app, "{ items { found { _id } } }")

    assert bool(data["items"][0]["found"]) is found
    assert data["items"][1]["found"] == []


async def test_each_level_one_document_is_the_root_of_what_is_below_it(
    engine: Engine, mongo_client: Client
) -> None:
    """Decision 14: the children are shared, their roots are not."""
    insert(
        mongo_client,
        engine,
        {"_id": 1, "kind": "root", "child": 9, "tone": "low"},
        {"_id": 2, "kind": "root", "child": 9, "tone": "high"},
        {"_id": 9, "kind": "child"},
        {"_id": 11, "kind": "leaf", "tone": "low"},
        {"_id": 12, "kind": "leaf", "tone": "high"},
    )
    app = engine.app(
        "type Query { roots: [Root] } type Root { child: Child } "
        "type Child { leaves: [Leaf] told: Told } "
        "type Leaf { _id: Int } type Told { tone: String }",
        {
            "Query": {"roots": listing(find={"kind": "root"})},
            "Root": {"child": {"collection": "items", "find": {"_id": {"$fk": "child"}}}},
            "Child": {
                "leaves": listing(find={"kind": "leaf", "tone": {"$arg": "rootDoc.tone"}}),
                "told": {
                    "collection": "items",
                    "stages": [{"$limit": 1}, {"$project": {"tone": {"$arg": "rootDoc.tone"}}}],
                },
            },
        },
    )

    data = await engine.data(app, "{ roots { child { leaves { _id } told { tone } } } }")

    assert [root["child"]["leaves"] for root in data["roots"]] == [[{"_id": 11}], [{"_id": 12}]]
    assert [root["child"]["told"]["tone"] for root in data["roots"]] == ["low", "high"]
    assert len(engine.commands) == 4


async def test_relations_of_embedded_documents_are_batched_too(
    engine: Engine, mongo_client: Client
) -> None:
    insert(
        mongo_client,
        engine,
        {"_id": 1, "lines": [{"product": 3}, {"product": 4}], "ship": {"to": 4}},
        {"_id": 2, "lines": [{"product": 4}, None], "ship": None},
        {"_id": 3, "name": "three"},
        {"_id": 4, "name": "four"},
    )
    product = {"collection": "items", "find": {"_id": {"$fk": "product"}}}
    app = engine.app(
        "type Query { orders: [Order] } type Order { lines: [Line] ship: Ship } "
        "type Line { product: Product } type Ship { to: Product } type Product { name: String }",
        {
            "Query": {"orders": listing(find={"lines": {"$exists": True}})},
            "Line": {"product": product},
            "Ship": {"to": {"collection": "items", "find": {"_id": {"$fk": "to"}}}},
        },
    )

    data = await engine.data(app, "{ orders { lines { product { name } } ship { to { name } } } }")

    three, four = {"product": {"name": "three"}}, {"product": {"name": "four"}}
    assert data["orders"] == [
        {"lines": [three, four], "ship": {"to": {"name": "four"}}},
        {"lines": [four, None], "ship": None},
    ]
    assert len(engine.commands) == 3


async def test_row_filters_of_the_permission_reach_every_way_of_fetching(
    engine: Engine, mongo_client: Client
) -> None:
    """Decision 40."""
    insert(mongo_client, engine, {"_id": 1, "next": 2}, {"_id": 2, "next": 3, "hidden": True})
    app = engine.app(
        "type Query { one: Item all: [Item] } type Item { _id: Int next: Item later: [Item] }",
        {
            "Query": {"one": listing(find={"_id": 1}), "all": listing()},
            "Item": {
                "next": {"collection": "items", "find": {"_id": {"$fk": "next"}}},
                "later": listing(find={"_id": {"$gt": {"$fk": "_id"}}}),
            },
        },
    )
    namespace = f"{engine.database}.items"
    permission = Permission("rule", read_filters={namespace: {"hidden": {"$ne": True}}})

    result = await engine.run(
        app,
        "{ one { next { _id } } all { _id next { _id } later { _id } } }",
        permission=permission,
    )

    assert result.data == {"one": {"next": None}, "all": [{"_id": 1, "next": None, "later": []}]}


@pytest.mark.parametrize("batching", [True, False])
async def test_too_many_foreign_keys_fail_their_own_parent_only(
    engine: Engine, mongo_client: Client, batching: bool
) -> None:
    """A key that is no list is one key."""
    insert(
        mongo_client,
        engine,
        {"_id": 1, "keys": list(range(10_001))},
        {"_id": 2, "keys": [1, 2]},
        {"_id": 3, "keys": list(range(10_000))},
        {"_id": 4, "keys": 2},
    )
    app = engine.app(
        "type Query { items: [Item] } type Item { _id: Int found: [Item] }",
        {
            "Query": {"items": listing()},
            "Item": {
                "found": listing(
                    find={"_id": {"$in": {"$fk": "keys"}}}, dataLoader={"batching": batching}
                )
            },
        },
    )

    result = await engine.run(app, "{ items { found { _id } } }")

    all_found = [{"_id": number} for number in range(1, 5)]
    found = [None, all_found[:2], all_found, all_found[1:2]]
    assert result.data == {"items": [{"found": one} for one in found]}
    assert codes(result) == {("items", 0, "found"): "too-many-keys"}


async def test_query_that_the_database_refuses_fails_its_own_parents_only(
    engine: Engine, mongo_client: Client
) -> None:
    insert(mongo_client, engine, {"_id": 1, "p": "("}, {"_id": 2, "p": "^b"}, {"_id": 3, "n": "bo"})
    app = engine.app(
        "type Query { items: [Item] } type Item { found: [Item] n: String }",
        {
            "Query": {"items": listing(find={"p": {"$exists": True}})},
            "Item": {"found": listing(find={"n": {"$regex": {"$fk": "p"}}})},
        },
    )

    result = await engine.run(app, "{ items { found { n } } }")

    assert result.data == {"items": [{"found": None}, {"found": [{"n": "bo"}]}]}
    assert codes(result) == {("items", 0, "found"): "rejected-by-database"}


@pytest.mark.parametrize("parents", [1, 2])
async def test_stored_regular_expressions_join_by_equality_and_match_no_texts(
    engine: Engine, mongo_client: Client, parents: int
) -> None:
    """Decisions 13 and 20a; the same for one parent and for many."""
    pattern = Regex("^a")
    keys = {"key": pattern, "keys": [pattern, "b"]}
    insert(
        mongo_client,
        engine,
        *({"_id": n, "is_parent": True, **keys} for n in range(parents)),
        {"_id": 10, "value": "abc"},
        {"_id": 11, "value": pattern},
        {"_id": 12, "value": "b"},
        {"_id": 13, "value": [pattern, 1]},
    )
    joins = {
        "one": {"value": {"$fk": "key"}},
        "some": {"value": {"$fk": "key"}},
        "any": {"value": {"$in": {"$fk": "keys"}}},
        "first": {"value": {"$in": [{"$fk": "key"}]}},
        "either": {"$or": [{"value": {"$fk": "key"}}, {"value": {"$in": {"$fk": "keys"}}}]},
        "later": {"_id": {"$gt": 10}, "value": {"$arg": "rootDoc.key"}},
    }
    fields = " ".join(f"{name}: [Item]" for name in joins if name != "one")
    app = engine.app(
        f"type Query {{ items: [Item] }} type Item {{ _id: Int one: Item {fields} }}",
        {
            "Query": {"items": listing(find={"is_parent": True})},
            "Item": {name: listing(find=find) for name, find in joins.items()},
        },
    )

    selections = " ".join(f"{name} {{ _id }}" for name in joins)
    data = await engine.data(app, f"{{ items {{ {selections} }} }}")

    found = [
        {name: [one["_id"] for one in item[name]] for name in joins if name != "one"}
        for item in data["items"]
    ]
    assert found == parents * [
        {
            "some": [11, 13],
            "any": [11, 12, 13],
            "first": [11, 13],
            "either": [11, 12, 13],
            "later": [11, 13],
        }
    ]
    assert [item["one"] for item in data["items"]] == parents * [{"_id": 11}]


async def test_regex_argument_is_a_pattern(engine: Engine, mongo_client: Client) -> None:
    insert(mongo_client, engine, {"_id": 1, "value": "abc"}, {"_id": 2, "value": "xyz"})
    app = engine.app(
        "type Query { items(re: Regex): [Item] } type Item { _id: Int }",
        {"Query": {"items": listing(find={"value": {"$arg": "re"}})}},
    )

    data = await engine.data(app, '{ items(re: "^a") { _id } }')

    assert data == {"items": [{"_id": 1}]}


# --- values and errors ---------------------------------------------------------------------------


async def test_value_that_does_not_fit_is_null_with_its_path(
    engine: Engine, mongo_client: Client
) -> None:
    """Decision 16."""
    insert(mongo_client, engine, {"_id": 1, "n": 1, "l": [1, "x"]}, {"_id": 2, "n": "x", "l": 7})
    app = engine.app(
        "type Query { items: [Item] } type Item { n: Int l: [Int] }",
        {"Query": {"items": listing()}},
    )

    result = await engine.run(app, "{\n  items { n l }\n}")

    assert result.data == {"items": [{"n": 1, "l": [1, None]}, {"n": None, "l": None}]}
    assert codes(result) == dict.fromkeys(
        [("items", 0, "l", 1), ("items", 1, "n"), ("items", 1, "l")], "value-does-not-fit"
    )
    assert {error.locations for error in result.errors} == {((2, 11),), ((2, 13),)}


async def test_null_where_none_may_be_takes_its_parent_with_it(
    engine: Engine, mongo_client: Client
) -> None:
    insert(mongo_client, engine, {"_id": 1, "n": 1}, {"_id": 2}, {"_id": 3, "n": 3})
    app = engine.app(
        "type Query { soft: [Item] hard: [Item!] hardest: [Item!]! } type Item { n: Int! }",
        {"Query": dict.fromkeys(("soft", "hard", "hardest"), listing())},
    )

    soft = await engine.run(app, "{ soft { n } hard { n } }")
    hardest = await engine.run(app, "{ soft { n } hardest { n } }")

    assert soft.data == {"soft": [{"n": 1}, None, {"n": 3}], "hard": None}
    assert codes(soft) == dict.fromkeys([("soft", 1, "n"), ("hard", 1, "n")], "null-in-non-null")
    assert soft.errors[0].classification is Classification.NULL
    assert hardest.data is None


@pytest.mark.parametrize("below", ["key", "others { key }"], ids=["plain", "rootDoc below"])
@pytest.mark.parametrize("place", ["part", "union"])
async def test_null_of_an_embedded_object_takes_its_parent_with_it(
    engine: Engine, mongo_client: Client, place: str, below: str
) -> None:
    parts = [{"key": 1}, None, {"key": 3}]
    insert(mongo_client, engine, *({"_id": n, place: one} for n, one in enumerate(parts)))
    app = engine.app(
        "type Query { items: [Item] } type Item { part: Part! union: Any! } union Any = Part"
        " type Part { key: Int others: [Part] }",
        {
            "Query": {"items": listing()},
            "Any": {"$typeResolver": {"Part": "field-exists(key)"}},
            "Part": {"others": listing(find={"_id": {"$arg": "rootDoc._id"}})},
        },
    )

    result = await engine.run(app, f"{{ items {{ {place} {{ ... on Part {{ {below} }} }} }} }}")

    items = (result.data or {})["items"]
    assert result.data is not None
    assert [one and place in one for one in items] == [True, None, True]
    assert codes(result) == {("items", 1, place): "null-in-non-null"}


async def test_union_without_a_fitting_type_is_null_with_an_error(
    engine: Engine, mongo_client: Client
) -> None:
    """Decision 18: predicates in the order of the definition."""
    insert(mongo_client, engine, {"_id": 1, "a": 1, "b": 1}, {"_id": 2, "b": 2}, {"_id": 3})
    app = engine.app(
        "type Query { things: [Thing] } union Thing = A | B type A { a: Int } type B { b: Int }",
        {
            "Query": {"things": listing()},
            "Thing": {"$typeResolver": {"A": "field-exists(a)", "B": "field-exists(b)"}},
        },
    )

    result = await engine.run(app, "{ things { __typename ... on A { a } ... on B { b } } }")

    assert result.data == {
        "things": [{"__typename": "A", "a": 1}, {"__typename": "B", "b": 2}, None]
    }
    assert codes(result) == {("things", 2): "type-not-resolved"}


async def test_unbound_variable_fails_its_field_only(engine: Engine, mongo_client: Client) -> None:
    """Decision 9."""
    insert(mongo_client, engine, {"_id": 1, "owner": "ada"})
    app = engine.app(
        "type Query { items: [Item] mine: [Item] } type Item { _id: Int }",
        {
            "Query": {
                "items": listing(),
                "mine": listing(find={"owner": {"$arg": "@user.userid"}}),
            }
        },
    )

    anonymous = await engine.run(app, "{ items { _id } mine { _id } }")
    known = await engine.run(
        app, "{ mine { _id } }", account=Account("ada", properties={"userid": "ada"})
    )

    assert anonymous.data == {"items": [{"_id": 1}], "mine": None}
    assert only_error(anonymous).message == "variable not bound: @user.userid"
    assert known.data == {"mine": [{"_id": 1}]}


async def test_operators_in_a_document_argument_that_run_code_are_refused(engine: Engine) -> None:
    app = engine.app(
        "type Query { items(f: BsonDocument): [Item] } type Item { _id: Int }",
        {"Query": {"items": listing(find={"$arg": "f"})}},
    )

    result = await engine.run(
        app,
        "query ($f: BsonDocument) { items(f: $f) { _id } }",
        {"f": {"$where": "sleep(1000) || true"}},
    )

    assert only_error(result).message.startswith(
        "GraphQL aggregation pipeline security violation: "
    )
    assert engine.commands == []


async def test_errors_are_bounded_and_the_rest_is_counted(
    engine: Engine, mongo_client: Client
) -> None:
    insert(mongo_client, engine, *({"_id": n, "n": "x"} for n in range(50)))
    app = engine.app(
        "type Query { items: [Item] } type Item { n: Int }", {"Query": {"items": listing()}}
    )

    result = await engine.run(app, "{ items { n } }")

    assert len(result.errors) == 21
    assert result.errors[20].message == "30 more errors are not shown"
    assert result.total_errors == 50


async def test_documents_as_values_need_no_selection(engine: Engine, mongo_client: Client) -> None:
    insert(mongo_client, engine, {"_id": 1, "deep": {"x": [1, None]}})
    app = engine.app(
        "type Query { raw: [BsonDocument] one: BsonDocument wrong: [Int] }",
        {"Query": dict.fromkeys(("raw", "one", "wrong"), listing())},
    )

    data = await engine.data(app, "{ raw one }")
    wrong = await engine.run(app, "{ wrong }")

    assert data == {
        "raw": [{"_id": 1, "deep": {"x": [1, None]}}],
        "one": {"_id": 1, "deep": {"x": [1, None]}},
    }
    assert codes(wrong) == {("wrong", 0): "value-does-not-fit"}


# --- the whole request ---------------------------------------------------------------------------

ENDLESS = [
    {"$project": {"n": {"$range": [0, 100_000]}}},
    {"$unwind": "$n"},
    {"$project": {"m": {"$range": [0, 100_000]}}},
    {"$unwind": "$m"},
    {"$match": {"m": -1}},
]


async def test_time_limit_ends_the_request(engine: Engine, mongo_client: Client) -> None:
    """Decision 25."""
    insert(mongo_client, engine, {"_id": 1})
    app = engine.app(
        "type Query { slow: [Item] items: [Item] } type Item { _id: Int }",
        {"Query": {"slow": {"collection": "items", "stages": ENDLESS}, "items": listing()}},
    )

    await engine.store.ping(30)  # or there might be no server yet, which is another error

    with pytest.raises(TimeLimitExceeded):
        await engine.run(app, "{ items { _id } slow { _id } }", deadline=Deadline.after_ms(100))


async def test_cancelling_stops_the_work_of_the_database(
    engine: Engine, mongo_client: Client
) -> None:
    insert(mongo_client, engine, {"_id": 1})
    app = engine.app(
        "type Query { slow: [Item] } type Item { _id: Int }",
        {"Query": {"slow": {"collection": "items", "stages": ENDLESS}}},
    )
    task = asyncio.create_task(engine.run(app, "{ a: slow { _id } b: slow { _id } }"))
    await eventually(lambda: count_running(mongo_client, engine.database) == 2)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await eventually(lambda: not count_running(mongo_client, engine.database))


def count_running(client: Client, database: str) -> int:
    """How many aggregations run in a database."""
    stages: list[dict[str, Any]] = [
        {"$currentOp": {}},
        {"$match": {"ns": f"{database}.items", "op": "command"}},
    ]
    return len(list(client.admin.aggregate(stages)))


async def test_unreachable_database_ends_the_request(engine: Engine, mongo_client: Client) -> None:
    """Decision 25: never a field error."""
    app = engine.app(LIMITED, LIMITS)

    with failing(mongo_client, "find", errorCode=UNREACHABLE), pytest.raises(StoreUnavailable):
        await engine.run(app, "{ a: items { _id } b: items { _id } }")


# --- one path language: decision 10 ---------------------------------------------------------------


async def test_root_documents_foreign_keys_and_fields_run_over_arrays_alike(
    engine: Engine, mongo_client: Client
) -> None:
    """Decision 10."""
    app = engine.app(
        """
        type Query { items(_id: Int): [Item] }
        type Item { _id: Int pids: [Int] byKey: [Item] byRoot: [Item] deep: [Item] }
        """,
        {
            "Query": {"items": listing(find={"kind": "order"})},
            "Item": {
                "pids": "items.pid",
                "byKey": listing(find={"_id": {"$in": {"$fk": "items.pid"}}}),
                "byRoot": listing(find={"_id": {"$in": {"$arg": "rootDoc.items.pid"}}}),
                "deep": listing(
                    find={"kind": "product", "_id": {"$in": {"$arg": "rootDoc.items.pid"}}}
                ),
            },
        },
    )
    insert(
        mongo_client,
        engine,
        *({"_id": n, "kind": "product"} for n in range(4)),
        {"_id": 10, "kind": "order", "items": [{"pid": 1}, {"pid": 2}]},
        {"_id": 11, "kind": "order", "items": [{"pid": 3}, 7]},
    )

    data = await engine.data(app, "{ items { pids byKey { _id } byRoot { _id deep { _id } } } }")

    first, second = data["items"]
    pair = [{"_id": 1}, {"_id": 2}]
    assert first["pids"] == [1, 2]
    assert first["byKey"] == pair
    assert first["byRoot"] == [{"_id": n, "deep": pair} for n in (1, 2)]
    assert second == {
        "pids": [3, None],
        "byKey": [{"_id": 3}],
        "byRoot": [{"_id": 3, "deep": [{"_id": 3}]}],
    }


@pytest.mark.parametrize(
    ("value", "expected"), [({"$numberDouble": "1.5"}, [1]), ({"$numberDouble": "NaN"}, [2])]
)
async def test_a_float_takes_the_form_that_canonical_results_have(
    engine: Engine, mongo_client: Client, value: Any, expected: list[int]
) -> None:
    """Decision 16."""
    app = engine.app(
        "type Query { items(x: Float, l: [Float]): [Item] } type Item { _id: Int }",
        {"Query": {"items": listing(find={"x": {"$in": {"$arg": ["l", {"$arg": "x"}]}}})}},
    )
    insert(mongo_client, engine, {"_id": 1, "x": 1.5}, {"_id": 2, "x": float("nan")})

    alone = await engine.data(app, "query ($x: Float) { items(x: $x) { _id } }", {"x": value})
    several = await engine.data(app, "query ($l: [Float]) { items(l: $l) { _id } }", {"l": [value]})

    assert alone == several == {"items": [{"_id": n} for n in expected]}


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ({"box": {"n": 1}, "boxes": [{"n": 2}]}, {"box": {"n": 1}, "boxes": [{"n": 2}]}),
        ({"box": [], "boxes": []}, {"box": None, "boxes": []}),
        ({"box": [{"n": 1}], "boxes": [[]]}, {"box": None, "boxes": [None]}),
        ({"box": None, "boxes": [[{"n": 1}], {"n": 2}]}, {"box": None, "boxes": [None, {"n": 2}]}),
    ],
)
async def test_a_list_in_the_place_of_an_object_fails_that_field_and_no_other(
    engine: Engine, mongo_client: Client, stored: dict[str, Any], shown: dict[str, Any]
) -> None:
    """Beside sound documents, which are completed all at once."""
    sound = {"box": {"n": 7}, "boxes": [{"n": 8}, {"n": 9}]}
    insert(mongo_client, engine, {"_id": 1, **sound}, {"_id": 2, **stored}, {"_id": 3, **sound})
    app = engine.app(
        "type Query { items: [Item] } type Item { box: Box boxes: [Box] } type Box { n: Int }",
        {"Query": {"items": {"collection": "items", "find": {}, "sort": {"_id": 1}}}},
    )

    result = await engine.run(app, "{ items { box { n } boxes { n } } }")

    assert result.data == {"items": [sound, shown, sound]}
    assert bool(result.errors) is (stored != shown)


ORDERS = """
type Query { orders: [Order] }
type Order { _id: Int lines: [Line] first: Line some: [Line] near: [Line] }
type Line { _id: Int }
"""
BY_BOTH = {"shop": {"$fk": "shop"}, "code": {"$fk": "place.code"}}
ORDER_LINES: dict[str, Any] = {
    "Query": {"orders": listing(collection="orders")},
    "Order": {
        "lines": listing(collection="lines", find=BY_BOTH),
        "first": listing(collection="lines", find=BY_BOTH),
        "some": listing(collection="lines", find={**BY_BOTH, "_id": {"$gt": 1}}, limit=1),
        "near": listing(collection="lines", find={"place.code": {"$fk": "place.code"}}),
    },
}


@pytest.mark.parametrize("tries", [None, 1], ids=["together", "apart"])
async def test_a_relation_by_two_keys_joins_only_where_both_are_equal(
    engine: Engine, mongo_client: Client, monkeypatch: pytest.MonkeyPatch, tries: int | None
) -> None:
    """Decision 11: and a parent that lacks one of them has none."""
    if tries is not None:
        monkeypatch.setattr(fetch_by_in, "FIRST_TRY", tries)
        monkeypatch.setattr(fetch_by_in, "LARGEST_TRY", tries)
    db = mongo_client[engine.database]
    places = [("a", 1), ("a", 2), ("b", 1), ("b", None), ("c", 9)]
    db.orders.insert_many(
        {"_id": n, "shop": shop, "place": {"code": code}} for n, (shop, code) in enumerate(places)
    )
    db.lines.insert_many(
        {"_id": n, "shop": shop, "code": code, "place": [{"code": code}]}
        for n, (shop, code) in enumerate([("a", 1), ("b", 1), ("a", 1), ("a", 2), ("b", 2)])
    )

    data = await engine.data(
        engine.app(ORDERS, ORDER_LINES),
        "{ orders { lines { _id } first { _id } some { _id } near { _id } } }",
    )

    def ids(name: str) -> list[list[int]]:
        return [[line["_id"] for line in order[name]] for order in data["orders"]]

    assert ids("lines") == [[0, 2], [3], [1], [], []]
    assert ids("some") == [[2], [3], [], [], []]
    assert ids("near") == [[0, 1, 2], [3, 4], [0, 1, 2], [], []]
    assert [one["first"] for one in data["orders"]] == [
        {"_id": 0},
        {"_id": 3},
        {"_id": 1},
        None,
        None,
    ]
