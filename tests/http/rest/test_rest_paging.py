"""Pages of documents: by number, and behind a place in an order."""

from __future__ import annotations

import re
from datetime import datetime
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import bson
import pytest
from bson import (
    Binary,
    Code,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from bson.raw_bson import RawBSONDocument
from hypothesis import given, settings
from hypothesis import strategies as st
from pymongo.errors import OperationFailure

from docgraph.codec import decode
from docgraph.codec.keyset import behind
from docgraph.rest.handlers import listing
from docgraph.rest.handlers.listing import with_tiebreak
from docgraph.rest.page_tokens import PageStart, render_token
from tests.chance import examples
from tests.http.rest_harness import Api, to_json

pytestmark = pytest.mark.anyio


async def _ids(api: Api, path: str) -> list[Any]:
    return [one["_id"] async for page in api.follow(path) for one in page]


async def test_the_newest_documents_come_first(api: Api) -> None:
    api.things.insert_many({"_id": number} for number in range(5))

    reply = await api.get("/things")

    assert [one["_id"] for one in reply.json] == [4, 3, 2, 1, 0]


async def test_an_empty_sort_removes_the_default_order(api: Api) -> None:
    api.things.insert_many({"_id": number} for number in (2, 1, 3))

    reply = await api.get("/things", sort="{}")

    assert [one["_id"] for one in reply.json] == [2, 1, 3]


async def test_pages_are_numbered_from_one(api: Api) -> None:
    api.things.insert_many({"_id": number} for number in range(5))

    pages = [(await api.get("/things", pagesize="2", page=str(n))).json for n in (1, 2, 3, 4)]

    assert [[one["_id"] for one in page] for page in pages] == [[4, 3], [2, 1], [0], []]


async def test_a_page_has_100_documents_and_1000_at_most(api: Api) -> None:
    api.things.insert_many({"_id": number} for number in range(1001))

    assert len((await api.get("/things")).json) == 100
    assert len((await api.get("/things", pagesize="1000")).json) == 1000
    assert (await api.get("/things", pagesize="1001")).status == 400


async def test_a_page_of_no_documents_is_an_empty_array(api: Api) -> None:
    api.things.insert_one({"_id": 1})

    reply = await api.get("/things", pagesize="0", count="true")

    assert (reply.status, reply.text) == (200, "[]")
    assert reply.headers["x-total-count"] == "1"


async def test_a_full_page_leads_to_the_next_one(api: Api) -> None:
    """Decision 41: keyset paging beside `page`."""
    api.things.insert_many({"_id": number} for number in range(7))

    pages = [page async for page in api.follow("/things?pagesize=3")]

    assert [[one["_id"] for one in page] for page in pages] == [[6, 5, 4], [3, 2, 1], [0]]


async def test_the_next_page_keeps_the_other_parameters(api: Api) -> None:
    api.things.insert_many({"_id": number, "even": number % 2 == 0} for number in range(8))

    ids = await _ids(api, '/things?pagesize=2&filter={"even":true}&filter={"_id":{"$gt":1}}')

    assert ids == [6, 4, 2]


@pytest.mark.parametrize("keys", ["", '&keys={"name":1,"_id":1}'])
async def test_pages_follow_a_collation(api: Api, keys: str) -> None:
    """The sort key that the database shows there has no stored texts, not even of `_id`."""
    collation = {"locale": "en", "strength": 1}
    api.things.database.create_collection("words", collation=collation)
    words = ["b", "A", ["B", "z"], "c", "a", None, [], "B"]
    rows = [{"_id": f"i{number}", "name": name} for number, name in enumerate(words)]
    api.things.database["words"].insert_many(rows)

    ids = await _ids(api, f"/words?sort=name&pagesize=1&after{keys}")

    api.things.database.drop_collection("words")
    assert ids == ["i6", "i5", "i1", "i4", "i0", "i2", "i7", "i3"]


async def test_a_sort_that_is_not_total_is_followed_by_page_numbers(api: Api) -> None:
    api.things.insert_many({"_id": number, "name": "x"} for number in range(5))

    reply = await api.get("/things", sort="name", pagesize="2")

    assert "page=2" in reply.headers["link"]


async def test_keyset_pages_are_stable_under_inserts_and_deletions(api: Api) -> None:
    api.things.insert_many({"_id": number, "rank": number // 3} for number in range(9))
    seen: list[Any] = []

    async for page in api.follow("/things?pagesize=2&sort=rank&after="):
        seen += [one["_id"] for one in page]
        api.things.insert_one({"_id": -len(seen), "rank": -1})
        api.things.delete_one({"_id": seen[-1]})

    assert seen == list(range(9))


@pytest.mark.parametrize("path", ["rank", "counts.rank", "counts.2024"])
async def test_a_keyset_page_does_not_read_the_pages_before(api: Api, path: str) -> None:
    name, _, below = path.partition(".")
    api.things.insert_many(
        {"_id": n, name: {below: n // 10} if below else n // 10} for n in range(500)
    )
    api.things.create_index([(path, 1), ("_id", 1)])

    examined = await _examined(api, f"/things?pagesize=10&sort={path}&after=", 40)

    assert examined <= 40


async def _examined(api: Api, path: str, page: int) -> int:
    """How many documents the database looks at for the page of that number."""
    admin = api.mongo[api.db]
    number = 0
    target = path
    while number < page:
        reply = await api.send("GET", target)
        target = reply.headers["link"].split(";")[0].strip("<>")
        number += 1
    admin.command({"profile": 2})
    await api.send("GET", target)
    admin.command({"profile": 0})
    entry = admin["system.profile"].find_one({"command.find": "things"}, sort=[("ts", -1)])
    assert entry is not None
    return int(entry["docsExamined"])


async def test_keys_need_not_hold_what_is_sorted_by(api: Api) -> None:
    api.things.insert_many({"_id": n, "rank": n % 3, "name": f"n{n}"} for n in range(7))

    pages = [
        page
        async for page in api.follow('/things?pagesize=3&sort=-rank&after=&keys={"name":1,"_id":0}')
    ]

    names = [one for page in pages for one in page]
    assert names == [{"name": f"n{n}"} for n in (5, 2, 4, 1, 6, 3, 0)]


@pytest.mark.parametrize(
    "after",
    ["x", "AAAA", "WyJhIixbXSxbXV0", "WyItX2lkIixbMSwyXSxbXV0", "WzFd", "bnVsbA", "ü"],
)
async def test_a_token_that_is_not_ours_is_400(api: Api, after: str) -> None:
    reply = await api.get("/things", after=after)

    assert reply.status == 400
    assert reply.json["message"].startswith("illegal after parameter, ")
    assert "Link" in reply.json["hint"]


async def test_a_token_belongs_to_its_sort(api: Api) -> None:
    api.things.insert_many({"_id": n, "rank": n} for n in range(3))
    reply = await api.get("/things", sort="rank", after="", pagesize="1")
    token = re.search(r"after=([^>&]+)", reply.headers["link"])
    assert token is not None

    refused = await api.get("/things", sort="-rank", after=token[1], pagesize="1")

    assert refused.status == 400
    assert refused.json["message"] == "illegal after parameter, it belongs to another sort"


async def test_after_and_page_exclude_each_other(api: Api) -> None:
    reply = await api.get("/things", after="", page="2")

    assert (reply.status, reply.json["message"]) == (
        400,
        "page cannot be used together with after",
    )


async def test_after_follows_as_many_steps_as_the_database_reads(api: Api) -> None:
    def nest(value: int) -> dict[str, Any]:
        document: Any = value
        for _ in range(16):
            document = [{"a": document}] if value % 2 else {"a": document}
        return {"_id": value, **(document[0] if value % 2 else document)}

    api.things.insert_many(nest(value) for value in range(6))
    deep = ".".join(["a"] * 16)

    assert await _ids(api, f"/things?sort={deep}&after=&pagesize=2") == [0, 1, 2, 3, 4, 5]
    wide = {f"p{number}": 1 for number in range(31)}
    both = {deep: 1, deep.replace("a", "b"): 1}
    for sort in (f"{deep}.a", {**wide, "p": 1}, {"p.q.r": 1, **wide}, {**both, "c": 1}):
        reply = await api.get("/things", sort=sort, after="")
        assert (reply.status, "use page instead" in str(reply.json)) == (400, True)
    for sort in (wide, both):
        ids = await _ids(api, f"/things?sort={quote(to_json(sort))}&after=&pagesize=2")
        assert ids == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("step", ["0", "b"])
def test_the_expression_of_a_sort_key_grows_with_its_steps_only(step: str) -> None:
    """Not with pairs of paths: the largest sort that is followed is built in a moment."""

    def measure(paths: int) -> int:
        order = with_tiebreak(tuple((f"a.{step}{n}", 1) for n in range(paths)))
        return sum(len(bson.encode(part)) for part in behind(order, [1] * len(order)))

    assert measure(16) < 2.1 * measure(8)


async def test_nested_arrays_do_not_multiply_the_work_of_a_page(api: Api) -> None:
    """The element at a position is the same for all of its neighbors: its key is found once."""
    nested: Any = 1
    for _ in range(15):
        nested = [nested, *[0] * 9]
    order = with_tiebreak(((".".join(["a", *["0"] * 15]), 1),))
    api.things.insert_one({"_id": 2, "a": nested})

    # Without the sort: that of the database multiplies the work itself.
    found = [list(api.things.find(part).max_time_ms(20_000)) for part in behind(order, [1, 1])]

    assert [len(one) for one in found] == [1, 0]


async def test_empty_arrays_of_a_key_are_found_by_one_read(api: Api) -> None:
    paths = [f"p{number}" for number in range(31)]
    api.things.insert_many({"_id": n, **({"p7": []} if n % 2 else {})} for n in range(4))
    database = api.things.database
    database.command("profile", 2)

    reply = await api.get("/things", sort=dict.fromkeys(paths, 1), after="", pagesize="1")

    database.command("profile", 0)
    assert [one["_id"] for one in reply.json] == [1]
    assert database["system.profile"].count_documents({"command.find": "things"}) == 2


async def test_pages_that_lead_nowhere_end(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decision 41: whatever a place is followed by, it is not itself."""
    api.things.insert_many({"_id": n} for n in range(3))
    monkeypatch.setattr(listing, "behind", lambda order, key: [{}])

    assert await _ids(api, "/things?after=&pagesize=1") == [2, 2]


UNDEFINED = MinKey()  # until its type is replaced


@pytest.mark.parametrize("sort", ["v", "o.v", "-o.v"])
async def test_undefined_values_are_where_empty_arrays_are(api: Api, sort: str) -> None:
    for n, value in enumerate([None, [], UNDEFINED, None, [], UNDEFINED, 1, [UNDEFINED], [1]]):
        # MinKey has no content either: only its type is another.
        raw = bson.encode({"_id": n, "v": value, "o": {"v": value}})
        api.things.insert_one(
            RawBSONDocument(raw.replace(b"\xffv", b"\6v").replace(b"\xff0", b"\x060"))
        )
    direction = -1 if sort[0] == "-" else 1
    order = {sort.lstrip("-"): direction, "_id": direction}
    expected = [one["_id"] for one in api.things.find().sort(order)]

    for size in (1, 3):
        assert await _ids(api, f"/things?pagesize={size}&sort={sort}&after=") == expected


_POINTER = b"\x0cv\0\2\0\0\0c\0"


@pytest.mark.parametrize("sort", ["v", "-v"])
async def test_values_that_the_driver_changes_have_their_place(api: Api, sort: str) -> None:
    """DBPointers, references in another order, `undefined` inside of objects."""
    values = [{"$id": 1, "$ref": "c"}, {"$ref": "c", "$id": 1}, {"$ref": "c", "x": 1, "$id": 1}]
    values += [{"a": UNDEFINED}, {"a": None}]
    raw = [bson.encode({"_id": n, "v": v})[4:-1] for n, v in enumerate([*values, *values])]
    raw = [one.replace(b"\xffa", b"\6a") for one in raw]
    raw += [bson.encode({"_id": n})[4:-1] + _POINTER + bytes([n] * 12) for n in (10, 11, 12)]
    for one in raw:
        content = (len(one) + 5).to_bytes(4, "little") + one + b"\0"
        api.things.insert_one(RawBSONDocument(content))
    direction = -1 if sort[0] == "-" else 1
    expected = [one["_id"] for one in api.things.find().sort({"v": direction, "_id": direction})]

    for size in (1, 3):
        assert await _ids(api, f"/things?pagesize={size}&sort={sort}&after=") == expected


_CODE: list[Any] = [
    {"$where": "1"},
    {"$function": {"body": "function() { return true }", "args": [], "lang": "js"}},
    {"$expr": {"$toInt": "x"}},
    {"$regex": "("},
    Regex("("),
    Code("while (true) {}"),
]


@pytest.mark.parametrize("sort", ["v", "-o.v"])
@pytest.mark.parametrize("value", _CODE, ids=str)
async def test_the_values_of_a_token_are_never_operators(api: Api, sort: str, value: Any) -> None:
    """A token can be made by anyone: its values are compared, not run."""
    api.things.insert_many({"_id": n, "v": v, "o": {"v": v}} for n, v in enumerate([1, MaxKey()]))
    order = (("v", 1), ("_id", 1)) if sort == "v" else (("o.v", -1), ("_id", -1))
    token = render_token(order, PageStart([value, value]))

    reply = await api.get("/things", sort=sort, after=token)

    assert (reply.status, [one["_id"] for one in reply.json]) == (200, [1 if sort == "v" else 0])


async def test_a_path_of_a_sort_has_three_numbers_at_most(api: Api) -> None:
    """On nested arrays, the time of the database grows with each by its own factor."""
    api.things.insert_many({"_id": n, "a": [[[[n]]]]} for n in (2, 1))

    for after in ({}, {"after": ""}):
        assert (await api.get("/things", sort="a.0.0.0.0", **after)).status == 400
        reply = await api.get("/things", sort="a.0.0.0", **after)
        assert [one["_id"] for one in reply.json] == [1, 2]


async def test_after_cannot_follow_a_text_score(api: Api) -> None:
    reply = await api.get("/things", after="", sort='{"s":{"$meta":"textScore"}}')

    assert reply.status == 400


MIXED: list[Any] = [
    MinKey(),
    None,
    1,
    2.5,
    Int64(2),
    Decimal128("2.25"),
    float("nan"),
    float("-inf"),
    float("inf"),
    "",
    "a",
    "é",
    {},
    {"a": 1},
    {"a": None},
    [],
    [1, "b"],
    [None],
    [float("nan"), 3],
    [[1]],
    [[], 7],
    [{"a": 2}],
    b"",
    Binary(b"x", 5),
    ObjectId("0" * 24),
    True,
    False,
    datetime(2020, 1, 1),
    datetime(1960, 1, 1),
    Timestamp(1, 1),
    Regex("a"),
    Regex("b", "i"),
    Code("x"),
    Code("y", {}),
    DBRef("others", 1),
    {"$where": "1"},
    {"$function": {"body": "return true", "args": [], "lang": "js"}},
    MaxKey(),
]
ABSENT = object()
SINGLE = [one for one in MIXED if not isinstance(one, list)]
# Every type as an element: alone, next to its own, and next to another one.
ARRAYS = [
    *([one] for one in SINGLE),
    *([one, other] for one, other in pairwise(SINGLE)),
    *([one, other] for one, other in zip(SINGLE, SINGLE[7:], strict=False)),
]
VALUES = st.just(ABSENT) | st.sampled_from(MIXED) | st.lists(st.sampled_from(SINGLE), max_size=3)


@pytest.mark.parametrize(
    ("path", "direction", "size"), [("v", 1, 1), ("v", -1, 1), ("o.v", 1, 5), ("o.v", -1, 2)]
)
async def test_every_value_has_its_place_in_keyset_pages(
    api: Api, path: str, direction: int, size: int
) -> None:
    """Decision 41: right also for missing and mixed values."""
    twice = [*MIXED, ABSENT, *ARRAYS, *MIXED, ABSENT]
    api.things.insert_many(
        {"_id": n} if value is ABSENT else {"_id": n, "v": value, "o": {"v": value}}
        for n, value in enumerate(twice)
    )
    expected = [one["_id"] for one in api.things.find().sort({path: direction, "_id": direction})]
    sort = path if direction > 0 else f"-{path}"

    assert await _ids(api, f"/things?pagesize={size}&sort={sort}&after=") == expected


@settings(max_examples=examples(15))
@given(
    rows=st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=25),
    first=st.sampled_from([1, -1]),
    second=st.sampled_from([1, -1]),
    size=st.integers(1, 4),
)
async def test_keyset_pages_together_are_the_sorted_collection(
    api: Api, rows: list[tuple[Any, Any]], first: int, second: int, size: int
) -> None:
    api.things.delete_many({})
    api.things.insert_many(
        {
            "_id": number,
            **({} if a is ABSENT else {"a": a}),
            # Two arrays cannot be sorted by together.
            **({} if b is ABSENT or isinstance(b, list) else {"b": b}),
        }
        for number, (a, b) in enumerate(rows)
    )
    order = {"a": first, "b": second, "_id": second}
    expected = [one["_id"] for one in api.things.find().sort(order)]

    path = f'/things?pagesize={size}&sort={{"a":{first},"b":{second}}}&after='

    assert await _ids(api, path) == expected


async def test_a_property_inside_arrays_has_its_place_too(api: Api) -> None:
    values: list[Any] = [
        [{"b": 3}, {"b": 1}],
        [{"b": 2}],
        {"b": 2},
        [{"b": 0}, {}],
        [{}],
        {},
        [],
        {"b": [5, 1]},
        {"b": "x"},
    ]
    api.things.insert_many({"_id": n, "a": value} for n, value in enumerate(values))
    expected = [one["_id"] for one in api.things.find().sort({"a.b": 1, "_id": 1})]

    assert await _ids(api, "/things?pagesize=1&sort=a.b&after=") == expected


NESTED = st.recursive(
    st.sampled_from([*(one for one in MIXED if not isinstance(one, list | dict)), 1, "a", True]),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(st.sampled_from(["b", "c", "0", "1"]), inside, max_size=3)
    ),
    max_leaves=5,
)
_SORTS_BELOW_ARRAYS = [
    {"a.0.b": 1},
    {"a.0.b": -1},
    {"a.0": 1},
    {"a.1": -1},
    {"a.0.0": 1},
    {"a.b": 1},
    {"a.b": -1},
    {"a.b": 1, "a.c": 1},
    {"a.b": -1, "a.c": 1},
    {"a.1": 1, "n": -1},
    {"n": 1, "a.1.b": -1},
    {"a": 1, "a.b": -1},
]


@settings(max_examples=examples(60))
@given(
    values=st.lists(NESTED, min_size=2, max_size=15),
    order=st.sampled_from(_SORTS_BELOW_ARRAYS),
    size=st.integers(1, 4),
)
async def test_keyset_pages_go_through_arrays_as_the_sort_does(
    api: Api, values: list[Any], order: dict[str, int], size: int
) -> None:
    """Decision 41: by position, through several properties of one element, and past both."""
    api.things.delete_many({})
    api.things.insert_many(
        {"_id": n, "a": value, "n": n % 2}
        for n, value in enumerate(values)
        if _is_sortable(api, order, value)
    )
    last = list(order.values())[-1]
    expected = [one["_id"] for one in api.things.find().sort({**order, "_id": last})]

    path = f"/things?pagesize={size}&sort={quote(to_json(order))}&after="

    assert await _ids(api, path) == expected


def _is_sortable(api: Api, order: dict[str, int], value: Any) -> bool:
    """Whether the database can sort such a document: not where a step has two meanings."""
    others = api.mongo[api.db]["others"]
    others.delete_many({})
    others.insert_one({"a": value})
    try:
        return bool(list(others.find().sort(order)))
    except OperationFailure:
        return False


async def test_ids_of_every_type_are_paged(api: Api) -> None:
    ids = [one for one in MIXED if not isinstance(one, list | Regex | float)]
    ids = [one for one in ids if not (isinstance(one, dict) and str(one).startswith("{'$"))]
    api.things.insert_many({"_id": id} for id in ids)
    expected = [one["_id"] for one in api.things.find().sort({"_id": -1})]

    assert [decode(str(len(ids)))] == [len(await _ids(api, "/things?pagesize=1"))]
    assert await _ids(api, "/things?pagesize=2") == expected


@pytest.mark.parametrize("sort", ["v", "-v"])
@pytest.mark.parametrize("size", [1, 2, 3])
async def test_numbers_beside_nan_in_an_array_come_once(api: Api, sort: str, size: int) -> None:
    """Decision 41: an array that holds NaN stands where its least or greatest element does."""
    nan = float("nan")
    values = [3, nan, [nan, 3], [nan], [nan, float("-inf")], float("-inf"), nan, [3, nan], None]
    api.things.insert_many({"_id": n, "v": value} for n, value in enumerate(values))
    direction = -1 if sort == "-v" else 1
    expected = [one["_id"] for one in api.things.find().sort({"v": direction, "_id": direction})]

    assert await _ids(api, f"/things?pagesize={size}&sort={sort}&after=") == expected


# --- ties of a sort -------------------------------------------------------------------------------


def _insert_ties(api: Api) -> None:
    api.things.insert_many({"_id": n * 37 % 97, "age": n * 37 % 97 % 5} for n in range(97))


@pytest.mark.parametrize("sort", ["age", "-age"])
async def test_pages_of_a_sort_with_ties_are_whole(api: Api, sort: str) -> None:
    """Decision 12: by number, and as `Link` leads through them."""
    _insert_ties(api)
    numbered: list[Any] = []
    for page in range(1, 12):
        reply = await api.get("/things", sort=sort, pagesize="9", page=str(page))
        numbered += [one["_id"] for one in reply.json]
    followed = await _ids(api, f"/things?sort={sort}&pagesize=9")

    expected = sorted(range(97), key=lambda n: (n % 5, n), reverse=sort.startswith("-"))
    assert numbered == expected
    assert followed == expected


async def test_a_sort_that_an_index_serves_examines_no_more_than_a_page(api: Api) -> None:
    """Decision 12: ties come in the order of the index."""
    _insert_ties(api)
    await api.put("/things/_indexes/age", {"keys": {"age": 1}})
    database = api.things.database
    database.command("profile", 2)
    reply = await api.get("/things", sort="age", pagesize="5")
    database.command("profile", 0)
    entry = database["system.profile"].find_one({"command.find": api.things.name})

    assert [one["age"] for one in reply.json] == [0] * 5
    assert entry is not None
    assert entry["docsExamined"] == 5


_INDEXES: dict[str, list[list[tuple[str, int]]]] = {
    "sort": [[("age", 1)]],
    "sort and filter": [[("age", 1)], [("team", 1)]],
    "one for both": [[("age", 1), ("team", 1)]],
    "the other way round": [[("team", 1), ("age", 1)]],
}


@pytest.mark.parametrize("tags", [False, True], ids=["plain", "arrays"])
@pytest.mark.parametrize("indexes", _INDEXES)
async def test_pages_are_whole_however_the_database_finds_the_documents(
    api: Api, indexes: str, tags: bool
) -> None:
    """Decision 12: an index that could serve the sort gives ties no order if it is not used."""
    ages = [1, 2, 3, [1, 3], []] if tags else [1, 2, 3]
    api.things.insert_many(
        {"_id": n * 37 % 83, "age": ages[n % len(ages)], "team": n % 7} for n in range(83)
    )
    for keys in _INDEXES[indexes]:
        api.things.create_index(keys)
    sorts = ['{"age":1}', '{"age":-1}', '{"age":1,"team":-1}', '{"team":1,"age":1}', '{"team":1}']
    filters = [{"age": {"$gt": 1}}, {"age": 2}, {"team": 1}, {"team": {"$gt": 4}}]
    filters += [{"team": {"$in": [1, 5]}}, {"age": {"$gt": 1}, "team": {"$in": [1, 2]}}]
    lost = []
    for sort in sorts:
        for filter_ in filters:
            path = f"/things?pagesize=17&sort={sort}&filter={quote(to_json(filter_))}"
            found = await _ids(api, path)
            if sorted(found) != sorted(one["_id"] for one in api.things.find(filter_)):
                lost.append((sort, filter_))

    assert lost == []


async def test_pages_go_on_without_the_index_that_gave_their_order(api: Api) -> None:
    _insert_ties(api)
    api.things.create_index([("age", 1)], name="by_age")
    first = await api.get("/things", sort="age", pagesize="9")
    api.things.drop_index("by_age")

    second = await api.get("/things", sort="age", pagesize="9")

    assert [one["age"] for one in first.json] == [0] * 9
    assert (second.status, [one["_id"] for one in second.json]) == (200, list(range(0, 45, 5)))


async def test_a_hidden_id_does_not_keep_others_from_sorting(api: Api) -> None:
    _insert_ties(api)

    reply = await api.get("/things", sort="age", keys='{"_id": 0, "age": 1}', pagesize="3")

    assert reply.json == [{"age": 0}] * 3
