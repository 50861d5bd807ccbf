"""The parts of `docgraph access fuzz` that need no database."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from docgraph.codec import decode
from docgraph.rest.sections import Mongo
from docgraph.store.sections import MongoMount
from docgraph_workbench.fuzz.fuzz_values import Finder
from docgraph_workbench.fuzz.surface import PropertyShape, mark_evaluated
from docgraph_workbench.leak_check.documents import Barrier, build_documents
from docgraph_workbench.leak_check.leaks import LeakOracle
from docgraph_workbench.leak_check.operation import GRAPHQL, REST, FuzzRequest
from docgraph_workbench.leak_check.request_makers import build_failing_filters
from docgraph_workbench.leak_check.world import Renaming, Reply, World

RENAMING = Renaming("scratch_a_")


def test_every_database_of_a_definition_is_renamed() -> None:
    mapping = {
        "db": "shop",
        "collection": "c",
        "stages": [{"$lookup": {"from": {"db": "x", "coll": "y"}}}],
    }
    renamed = RENAMING.definition({"Query": {"a": mapping}, "T": {"db": "db"}})
    assert renamed["Query"]["a"]["db"] == "scratch_a_shop"
    assert renamed["Query"]["a"]["stages"][0]["$lookup"]["from"]["db"] == "scratch_a_x"
    assert renamed["T"] == {"db": "db"}  # a field of that name


def test_the_filters_of_rules_follow_their_collections() -> None:
    rule = {"_id": 1, "mongo": {"readFilters": {"shop.orders": {"a": 1}}, "readFilter": {"b": 1}}}
    mongo = {"readFilters": {"scratch_a_shop.orders": {"a": 1}}, "readFilter": {"b": 1}}
    assert RENAMING.rule(rule) == {"_id": 1, "mongo": mongo}


@pytest.mark.parametrize("wrong", ["{", "[1]", 5])
def test_filters_that_are_a_text_are_renamed_and_wrong_ones_stay(wrong: object) -> None:
    text = '{"shop.orders": {"at": {"$gt": {"$date": "2026-01-01T00:00:00Z"}}, "n": 1.5}}'
    renamed = RENAMING.rule({"mongo": {"readFilters": text}})["mongo"]["readFilters"]
    assert isinstance(renamed, str)
    assert decode(renamed) == {"scratch_a_shop.orders": decode(text)["shop.orders"]}
    rule = {"mongo": {"readFilters": wrong}}
    assert RENAMING.rule(rule) == rule


def test_names_that_would_be_too_long_are_short_and_different() -> None:
    long, other = RENAMING.db("x" * 60), RENAMING.db("x" * 61)
    assert long != other
    assert max(len(long), len(other)) <= 63
    assert long.startswith("scratch_a_")


def test_paths_of_the_rest_api_stay_as_they_are() -> None:
    mounts = (
        MongoMount(what="*", where="/all"),
        MongoMount(what="/shop/orders", where="/o"),
        MongoMount(what="/{tenant}", where="/{tenant}"),
    )
    sections: dict[str, Any] = {"mongo": Mongo(mongo_mounts=mounts)}
    (setting,) = RENAMING.settings(sections, ["shop"], [])
    path, _, value = setting.partition("=")
    assert path == "/mongo/mongo-mounts"
    assert json.loads(value) == [
        {"what": "/scratch_a_shop", "where": "/all/shop"},
        {"what": "/scratch_a_shop/orders", "where": "/o"},
    ]


def build_shape() -> PropertyShape:
    shape = PropertyShape()
    shape.at(("_id",)).kind = "int"
    shape.at(("name",)).kind = "string"
    shape.at(("owner",)).kind = "string"
    shape.at(("home", "street")).kind = "string"
    shape.at(("home", "street")).hidden_by.append("a rule")
    shape.at(("authorId",)).kind = "int"
    shape.at(("authorId",)).is_key = True
    return shape


def test_two_worlds_differ_in_what_is_hidden_and_in_nothing_else() -> None:
    barrier = Barrier({"owner": "ada"}, "the rule own")
    left, right = build_documents("d.things", build_shape(), [barrier], "7")

    def cut(documents: Sequence[dict[str, Any]]) -> list[Any]:
        return [{**one, "home": None} for one in documents]

    assert cut(left.seen) == cut(right.seen)
    assert all(one["owner"] == "ada" for one in left.seen)
    streets = [one["home"]["street"] for one in (*left.seen, *right.seen)]
    assert len(set(streets)) == len(streets)
    assert all(one["owner"] != "ada" for one in (*left.excluded, *right.excluded))
    assert len(left.excluded) > len(right.excluded) > 0  # so that counts differ
    assert {one["authorId"] for one in left.excluded} <= set(range(8))  # they are still found
    reasons = {(one.path, one.reason) for _, one in left.canaries}
    assert ("home.street", "a rule") in reasons
    assert ("name", "the rule own") in reasons
    again, _ = build_documents("d.things", build_shape(), [barrier], "7")
    assert again.documents == left.documents


def test_each_excluded_row_is_kept_back_by_one_filter_alone() -> None:
    """So that a door which has only the other filter shows it."""
    barriers = [Barrier({"owner": "ada"}, "the one"), Barrier({"team": "blue"}, "the other")]
    left, _ = build_documents("d.things", build_shape(), barriers, "7")
    kept = {(one["owner"] == "ada", one["team"] == "blue") for one in left.excluded}
    assert kept == {(True, False), (False, True)}


def test_expressions_of_definitions_fail_for_excluded_rows_of_one_world_only() -> None:
    shape = build_shape()
    stage = {"$project": {"a": {"$toInt": "$name"}, "b": {"$divide": [1, {"$ifNull": ["$n", 1]}]}}}
    mark_evaluated(shape, stage, {})
    shape.at(("name",)).kind = "string"
    left, right = build_documents("d.things", shape, [Barrier({"owner": "ada"}, "own")], "7")

    def passes(one: dict[str, Any]) -> bool:
        return isinstance(one["name"], str) and one["name"].isdigit() and one["n"] not in (0, {})

    assert all(map(passes, (*left.seen, *right.seen, *right.excluded)))
    misfits = [one for one in left.excluded if not passes(one)]
    assert misfits
    assert len(misfits) < len(left.excluded)
    assert all(isinstance(one[name], dict) for one in misfits for name in ("name", "n"))
    # Some have ids that others refer to, and some have none that is known.
    assert {one["_id"] in {7} for one in misfits} == {True, False}
    assert 7 in {one["_id"] for one in right.excluded}


def test_filters_fail_for_a_row_that_both_worlds_keep_back() -> None:
    shape = build_shape()
    shape.at(("tags",)).is_list = True
    left, right = build_documents("d.things", shape, [Barrier({"owner": "ada"}, "own")], "7")
    rows = left.list_comparable(shape)
    assert rows[0][0] in {one["_id"] for one in right.excluded}
    assert {one.path for _, one in rows} == {"name", "home.street", "_id"}
    filters = list(build_failing_filters(rows[0][1].path, rows[0][1].value))
    assert all("$expr" in str(one) and rows[0][1].value in str(one) for one in filters)
    assert len({str(one) for one in filters}) == len(filters) > 4


@pytest.mark.parametrize(
    ("method", "path", "way"),
    [
        ("GET", "", "GET "),
        ("GET", "/_size", "GET /_size"),
        ("GET", "/_aggrs/a", "GET /_aggrs/a"),
        ("PATCH", "/5", "PATCH /{id}"),
        ("DELETE", "/*", "DELETE /*"),
    ],
)
def test_ways_of_requests_leave_ids_out(method: str, path: str, way: str) -> None:
    assert FuzzRequest(REST, method, f"/c{path}", base="/c").way == way
    assert FuzzRequest(REST, "POST", "/_batch", base="/c").way == "POST /_batch"


def test_an_operation_shrinks_by_parameters_conditions_and_parts_of_the_body() -> None:
    filter = {"$and": [{"a": 1}, {"b": {"$gt": 2}}]}
    operation = FuzzRequest(REST, "GET", "/c", {"filter": filter, "page": 1}, {"If-Match": "x"})
    told = [one.describe() for one in operation.shrink()]
    assert "GET /c?page=1 -H 'If-Match: x'" in told
    assert 'GET /c?filter={"$and": [{"a": 1}]}&page=1 -H \'If-Match: x\'' in told
    query = FuzzRequest(GRAPHQL, "POST", "/g", body={"query": "{ a { b c } }"})
    assert "POST /g { a { c } }" in [one.describe() for one in query.shrink()]
    assert b"POST /g HTTP/1.1\r\n" in query.render()


class Told(World):
    """A world that gives prepared answers, over and over."""

    def __init__(self, *bodies: bytes) -> None:
        self.renaming = Renaming("x_")
        self._bodies = bodies
        self._count = -1

    async def send(self, operation: FuzzRequest) -> Reply:
        self._count += 1
        body = self._bodies[self._count % len(self._bodies)]
        return Reply(200, (("Date", str(self._count)),), body, body)


async def forget(namespace: str) -> None:
    pass


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("left", "right", "differs"),
    [
        ([b"[1]"], [b"[1]"], False),
        ([b"[1]"], [b"[1, 2]"], True),
        ([b"[1, 2]"], [b"[2, 1]"], True),
        ([b"[1, 2]", b"[2, 1]"], [b"[2, 1]", b"[1, 2]"], False),  # any order, each time
        ([b"x_db.c"], [b"x_db.c"], False),
        ([b'{"id":"0123456789ab"}', b'{"id":"ba9876543210"}'], [b"[]"], True),  # of an error
        ([rb"{\"id\":\"0123456789ab\"}", rb"{\"id\":\"ba9876543210\"}"], [b"[]"], True),
    ],
)
async def test_worlds_differ_only_where_each_of_them_is_steady(
    left: list[bytes], right: list[bytes], differs: bool
) -> None:
    judge = LeakOracle([Told(*left), Told(*right)], Finder(), (), forget)
    found = await judge.find_difference(FuzzRequest(REST, "GET", "/c"))
    assert (found is not None) is differs


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("left", "right", "is_failure"),
    [
        (b'{"data":null,"errors":[{"message":"x"}]}', b'{"data":[]}', True),
        (rb'{"text":"{\"errors\":[{}]}"}', b'{"text":"{}"}', True),
        (b'{"errors":[{"message":"x"}]}', b'{"errors":[{"message":"y"}]}', False),
        (b'{"data":[1]}', b'{"data":[]}', False),
    ],
)
async def test_a_difference_in_whether_a_request_fails_is_told_as_such(
    left: bytes, right: bytes, is_failure: bool
) -> None:
    judge = LeakOracle([Told(left), Told(right)], Finder(), (), forget)
    found = await judge.find_difference(FuzzRequest(GRAPHQL, "POST", "/g"))
    assert found is not None
    assert found.is_failure is is_failure


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "tells"),
    [
        (b'{"name": "cost"}', True),
        (b"Did you mean 'cost'?", True),
        (rb'{"text": "{\"name\": \"cost\"}"}', True),
        (rb'{"text": "type A {\n  cost: Int\n}"}', True),
        (b"what a query would cost: documents", False),
        (b'{"costs": 1}', False),
    ],
)
async def test_the_name_of_a_hidden_field_is_a_leak_and_a_word_is_none(
    answer: bytes, tells: bool
) -> None:
    judge = LeakOracle([Told(answer), Told(answer)], Finder(), ["cost"], forget)
    shown = await judge.try_out(FuzzRequest(GRAPHQL, "POST", "/g", body={"query": "{ a }"}))
    assert [one.name for one in shown] == ["cost"] * tells
    assert not await judge.try_out(FuzzRequest(GRAPHQL, "POST", "/g", body={"query": "{ cost }"}))
