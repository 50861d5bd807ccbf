"""Pipelines and updates under guard (decisions 34 and 40)."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.exchange.errors import SecurityViolation
from docgraph.store.guard.rewrite import check_update, guard_pipeline
from docgraph.store.guard.shield import Shield

ROW = {"tenant": 1}
MINE: dict[str, Any] = {"$match": ROW}
UNSET: dict[str, Any] = {"$unset": ["password"]}
HIDING = Shield(hidden={"blog.users": (("password",),)})
FILTERING = Shield(rows={"blog.users": ROW})
BOTH = Shield(hidden={"blog.users": (("password",),)}, rows={"blog.users": ROW})


def on_users(*stages: Any, shield: Shield = BOTH) -> list[Any]:
    return guard_pipeline(stages, "blog", "users", shield)


def on_posts(*stages: Any, shield: Shield = BOTH) -> list[Any]:
    return guard_pipeline(stages, "blog", "posts", shield)


def test_guards_are_the_first_stages() -> None:
    assert on_users({"$sort": {"a": 1}}) == [MINE, UNSET, {"$sort": {"a": 1}}]
    assert on_users() == [MINE, UNSET]
    assert on_users(shield=HIDING) == [UNSET]
    assert on_users(shield=FILTERING) == [MINE]


def test_other_collections_are_left_alone() -> None:
    stages = ({"$match": {"password": 1}}, {"$lookup": {"from": "tags", "as": "t"}})

    assert on_posts(*stages) == list(stages)


def test_lookup_by_fields_gets_a_pipeline() -> None:
    """Decision 40."""
    lookup = {"from": "users", "localField": "a", "foreignField": "_id", "as": "u"}

    assert on_posts({"$lookup": lookup}) == [{"$lookup": {**lookup, "pipeline": [MINE, UNSET]}}]


def test_lookup_by_pipeline_is_opened_by_the_guards() -> None:
    lookup = {"from": "users", "pipeline": [{"$limit": 1}], "as": "u"}

    (stage,) = on_posts({"$lookup": lookup})

    assert stage["$lookup"]["pipeline"] == [MINE, UNSET, {"$limit": 1}]


def test_lookup_inside_lookup_is_guarded() -> None:
    inner = {"$lookup": {"from": "users", "pipeline": [], "as": "u"}}

    (stage,) = on_posts({"$lookup": {"from": "tags", "pipeline": [inner], "as": "t"}})

    assert stage["$lookup"]["pipeline"][0]["$lookup"]["pipeline"] == [MINE, UNSET]


def test_lookup_from_another_database_is_guarded_there() -> None:
    inner = {"$unionWith": "users"}
    lookup = {"from": {"db": "blog", "coll": "tags"}, "pipeline": [inner], "as": "t"}

    (stage,) = guard_pipeline([{"$lookup": lookup}], "other", "users", BOTH)

    assert stage["$lookup"]["pipeline"] == [
        {"$unionWith": {"coll": "users", "pipeline": [MINE, UNSET]}}
    ]


@pytest.mark.parametrize("body", ["users", {"coll": "users"}, {"coll": "users", "pipeline": []}])
def test_union_gets_a_pipeline(body: Any) -> None:
    """Decision 40."""
    expected = {"$unionWith": {"coll": "users", "pipeline": [MINE, UNSET]}}

    assert on_posts({"$unionWith": body}) == [expected]


def test_facets_are_guarded_inside() -> None:
    (stage,) = on_posts({"$facet": {"a": [{"$unionWith": "users"}], "b": []}})

    assert stage == {
        "$facet": {
            "a": [{"$unionWith": {"coll": "users", "pipeline": [MINE, UNSET]}}],
            "b": [],
        }
    }


def test_documents_of_a_join_need_no_guard() -> None:
    stage = {"$lookup": {"pipeline": [{"$documents": [{"a": 1}]}], "as": "d"}}

    assert on_posts(stage) == [stage]


def test_graph_is_filtered_on_the_way_and_stripped_afterwards() -> None:
    graph = {"from": "users", "connectFromField": "boss", "connectToField": "_id", "as": "chain"}

    first, second = on_posts({"$graphLookup": {**graph, "restrictSearchWithMatch": {"x": 1}}})

    assert first["$graphLookup"]["restrictSearchWithMatch"] == {"$and": [ROW, {"x": 1}]}
    assert second == {"$unset": ["chain.password"]}
    for open_graph in (graph, {**graph, "restrictSearchWithMatch": {}}):
        first, _ = on_posts({"$graphLookup": open_graph})
        assert first["$graphLookup"]["restrictSearchWithMatch"] == ROW


@pytest.mark.parametrize(
    "stage",
    [
        {"$lookup": {"from": "users", "localField": "a", "foreignField": "password", "as": "u"}},
        {"$lookup": {"from": "users", "localField": "a", "foreignField": "password.0", "as": "u"}},
        {"$graphLookup": {"from": "users", "connectToField": "password", "connectFromField": "a"}},
        {"$graphLookup": {"from": "users", "connectToField": "a", "connectFromField": "password"}},
        {"$graphLookup": {"from": "users", "connectToField": "a"}},
        {
            "$graphLookup": {
                "from": "users",
                "connectToField": "a",
                "connectFromField": "b",
                "restrictSearchWithMatch": {"password": {"$gt": "a"}},
            }
        },
        {"$lookup": {"from": "users", "as": "u", "pipeline": [{"$match": {"$text": {}}}]}},
        {"$unionWith": {"coll": "users", "pipeline": [{"$set": {"x": {"$meta": "indexKey"}}}]}},
    ],
)
def test_join_that_compares_a_hidden_property_is_refused(stage: Any) -> None:
    """Decision 34."""
    with pytest.raises(SecurityViolation):
        on_posts(stage)


@pytest.mark.parametrize("stage", ["$search", "$searchMeta", "$vectorSearch"])
@pytest.mark.parametrize("shield", [HIDING, FILTERING])
def test_searches_are_refused_on_guarded_collections(stage: str, shield: Shield) -> None:
    with pytest.raises(SecurityViolation):
        on_users({stage: {}}, shield=shield)


def test_text_search_stays_first_under_a_row_filter() -> None:
    text = {"$text": {"$search": "x"}}

    assert on_users({"$match": text}, {"$limit": 1}, shield=FILTERING) == [
        {"$match": {"$and": [ROW, text]}},
        {"$limit": 1},
    ]
    with pytest.raises(SecurityViolation):
        on_users({"$match": text}, shield=HIDING)


def test_near_stays_first_with_the_row_filter_inside() -> None:
    near = {"near": [0, 0], "key": "place", "distanceField": "d", "query": {"a": 1}}

    assert on_users({"$geoNear": near}, {"$limit": 1}) == [
        {"$geoNear": {**near, "query": {"$and": [ROW, {"a": 1}]}}},
        UNSET,
        {"$limit": 1},
    ]
    alone = {"near": [0, 0], "key": "place", "distanceField": "d"}
    for open_near in (alone, {**alone, "query": {}}):
        first, _ = on_users({"$geoNear": open_near})
        assert first == {"$geoNear": {**alone, "query": ROW}}


@pytest.mark.parametrize("extra", [{"key": "password"}, {}, {"key": "p", "query": {"password": 1}}])
def test_near_a_hidden_property_is_refused(extra: Any) -> None:
    with pytest.raises(SecurityViolation):
        on_users({"$geoNear": {"near": [0, 0], "distanceField": "d", **extra}})


def test_pipeline_of_the_caller_is_not_changed() -> None:
    stages: list[Any] = [{"$lookup": {"from": "users", "as": "u", "pipeline": [{"$limit": 1}]}}]

    guard_pipeline(stages, "blog", "posts", BOTH)

    assert stages == [{"$lookup": {"from": "users", "as": "u", "pipeline": [{"$limit": 1}]}}]


@pytest.mark.parametrize(
    "update",
    [
        {"$rename": {"password": "x"}},
        {"$rename": {"x": "password"}},
        {"$max": {"password": "x"}},
        {"$addToSet": {"password": "x"}},
        {"$pull": {"password": {"$gt": "a"}}},
        [{"$set": {"x": "$password"}}],
        [{"$set": {"x": {"$concat": ["$password", ""]}}}],
        [{"$set": {"x": "$$ROOT"}}],
        [{"$replaceWith": {"x": "$$CURRENT.password"}}],
        [{"$set": {"x": {"$getField": "password"}}}],
        [{"$set": {"x": {"$getField": {"$concat": ["pass", "word"]}}}}],
    ],
)
def test_update_that_copies_or_compares_a_hidden_property_is_refused(update: Any) -> None:
    """Decision 34."""
    with pytest.raises(SecurityViolation):
        check_update(update, (("password",),))


@pytest.mark.parametrize(
    "update",
    [
        {"$set": {"password": "hash", "name": "x"}, "$unset": {"y": ""}},
        {"$inc": {"logins": 1}},
        [{"$set": {"name": {"$toUpper": "$name"}, "password": "hash"}}],
        [{"$unset": "password"}],
    ],
)
def test_setting_a_hidden_property_is_allowed(update: Any) -> None:
    check_update(update, (("password",),))
