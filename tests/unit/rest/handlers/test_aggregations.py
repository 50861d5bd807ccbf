"""Stored aggregations: their variables, and what a permission hides from them."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.codec import decode
from docgraph.exchange import Exchange, Permission
from docgraph.exchange.errors import RequestError, SecurityViolation
from docgraph.exchange.request import Request
from docgraph.rest.aggregation_variables import build_scope
from docgraph.rest.handlers.aggregations import hide_properties
from docgraph.rest.parameters import Parameters, parse_avars
from docgraph.rest.pipelines import find_aggregation
from docgraph.rest.sections import Mongo
from docgraph.variables import CallerDocument, NotBound, Resolvers

pytestmark = pytest.mark.anyio

CHECKED = Mongo()

HIDE = {"$project": {"a": 0}}


def exchange() -> Exchange:
    return Exchange(Request("GET", b"/things/_aggrs/x"), "id")


async def render(stages: list[Any], avars: dict[str, Any], **parameters: Any) -> Any:
    aggregation = find_aggregation({"aggrs": [{"uri": "x", "stages": stages}]}, "x")
    assert aggregation is not None
    names, page = aggregation.stages.names, Parameters(avars=avars, **parameters)
    scope = await build_scope(names, exchange(), Resolvers(decode), page)
    return aggregation.stages.render(scope)


def test_only_the_first_avars_counts() -> None:
    assert parse_avars(["{a: 1}", "nonsense"], CHECKED) == {"a": 1}


def test_dollar_names_are_refused_at_any_depth() -> None:
    with pytest.raises(RequestError):
        parse_avars(['{"a": [{"b": {"$gt": 1}}]}'], CHECKED)
    assert parse_avars(['{"a": "$b"}'], CHECKED) == {"a": "$b"}


def test_without_the_check_documents_are_marked_as_the_callers() -> None:
    values = parse_avars(['{"a": {"$gt": 1}}'], Mongo(aggregation_check_operators=False))

    assert isinstance(values["a"], CallerDocument)


def test_a_long_text_is_cut_in_the_message() -> None:
    with pytest.raises(RequestError) as caught:
        parse_avars([f'"{"x" * 5000}"'], CHECKED)

    assert len(caught.value.message) < 300


async def test_a_literal_key_wins_over_its_path() -> None:
    stages = [{"$match": {"x": {"$var": "a.b"}, "y": {"$var": "a.c"}}}]
    avars = {"a": {"b": 1, "c": 2}, "a.b": 3}

    assert await render(stages, avars) == [{"$match": {"x": 3, "y": 2}}]
    assert avars == {"a": {"b": 1, "c": 2}, "a.b": 3}


async def test_paging_variables_cannot_be_supplied() -> None:
    stages = [{"$skip": {"$var": "@skip"}}, {"$limit": {"$var": "@limit"}}]

    assert await render(stages, {"@skip": 0, "@limit": 9**9}, page=3, pagesize=5) == [
        {"$skip": 10},
        {"$limit": 5},
    ]


async def test_an_anonymous_caller_has_no_user() -> None:
    with pytest.raises(NotBound):
        await render([{"$match": {"x": {"$var": "@user.id"}}}], {"@user": {"id": 1}})


async def test_the_old_name_of_the_permissions_is_known() -> None:
    with pytest.raises(NotBound):
        await render([{"$match": {"x": {"$var": "@mongoPermissions.readFilter"}}}], {})


def test_an_entry_of_another_uri_is_not_looked_at() -> None:
    metadata = {"aggrs": [{"uri": "y", "stages": "broken"}]}

    assert find_aggregation(metadata, "x") is None
    assert find_aggregation({"aggrs": "broken"}, "x") is None
    assert find_aggregation({}, "x") is None


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ([{"$match": {}}], [{"$project": {"a": 0}}, {"$match": {}}]),
        ([], [{"$project": {"a": 0}}]),
        (
            [{"$geoNear": {"key": "b"}}],
            [{"$geoNear": {"key": "b"}}, {"$project": {"a": 0}}],
        ),
        (
            [{"$match": {"$text": {"$search": "x"}}}, {"$limit": 1}],
            [{"$match": {"$text": {"$search": "x"}}}, {"$project": {"a": 0}}, {"$limit": 1}],
        ),
    ],
)
def test_hidden_properties_are_gone_before_the_pipeline(stages: Any, expected: Any) -> None:
    permission = Permission("rule", namespace="db.coll", project_response={"a": 0})

    assert hide_properties(stages, permission, "db.coll") == expected
    assert hide_properties(stages, permission, "db.other") == stages
    assert hide_properties(stages, None, "db.coll") == stages


def test_what_is_shown_does_not_include_the_id_by_itself() -> None:
    permission = Permission("rule", namespace="db.coll", project_response={"a": 1})

    assert hide_properties([], permission, "db.coll") == [{"$project": {"a": 1, "_id": 0}}]


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ({"$unionWith": "coll"}, {"$unionWith": {"coll": "coll", "pipeline": [HIDE]}}),
        (
            {"$lookup": {"from": "coll", "as": "b", "pipeline": [{"$limit": 1}]}},
            {"$lookup": {"from": "coll", "as": "b", "pipeline": [HIDE, {"$limit": 1}]}},
        ),
        (
            {"$lookup": {"from": "other", "as": "b", "pipeline": [{"$unionWith": "coll"}]}},
            {
                "$lookup": {
                    "from": "other",
                    "as": "b",
                    "pipeline": [{"$unionWith": {"coll": "coll", "pipeline": [HIDE]}}],
                }
            },
        ),
        (
            {"$facet": {"b": [{"$unionWith": "coll"}]}},
            {"$facet": {"b": [{"$unionWith": {"coll": "coll", "pipeline": [HIDE]}}]}},
        ),
        ({"$unionWith": "other"}, {"$unionWith": "other"}),
        ({"$graphLookup": {"from": "other"}}, {"$graphLookup": {"from": "other"}}),
    ],
)
def test_hidden_properties_are_gone_from_joins_with_the_same_collection(
    stage: Any, expected: Any
) -> None:
    permission = Permission("rule", namespace="db.coll", project_response={"a": 0})

    assert hide_properties([stage], permission, "db.coll") == [HIDE, expected]


def test_a_graph_of_the_same_collection_is_refused_where_properties_are_hidden() -> None:
    permission = Permission("rule", namespace="db.coll", project_response={"a": 0})

    with pytest.raises(SecurityViolation, match=r"\$graphLookup"):
        hide_properties([{"$graphLookup": {"from": "coll"}}], permission, "db.coll")
