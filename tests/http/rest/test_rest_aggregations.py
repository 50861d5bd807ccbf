"""Stored aggregations and their variables (rest-behaviour 5.3, 5.4, 7; decision 20a)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.harness import Mongo, failing, identity, idle_cursors, profiled
from tests.http.rest_harness import COLLECTION, Api, serving

pytestmark = [pytest.mark.anyio, pytest.mark.json]

BY_TAG = {"$match": {"tag": {"$var": "tag"}}}
SORTED = {"$sort": {"_id": 1}}


@pytest.fixture
def api(api: Api) -> Api:
    fill(api)
    return api


def fill(api: Api) -> None:
    api.things.insert_many([{"_id": n, "tag": "ab"[n % 2], "n": n, "o": "ada"} for n in range(6)])


async def define(api: Api, *stages: Any, **others: Any) -> None:
    reply = await api.put("/things", {"aggrs": [{"uri": "x", "stages": list(stages), **others}]})
    assert reply.status == 200, reply.text


async def ids(api: Api, **parameters: Any) -> list[Any]:
    reply = await api.get("/things/_aggrs/x", **parameters)
    assert reply.status == 200, reply.text
    return [row["_id"] for row in reply.json]


# --- running --------------------------------------------------------------------------------------


async def test_a_stored_aggregation_answers_with_an_array(api: Api) -> None:
    await define(api, {"$group": {"_id": "$tag", "sum": {"$sum": "$n"}}}, SORTED)
    reply = await api.get("/things/_aggrs/x")

    assert reply.status == 200
    assert reply.json == [{"_id": "a", "sum": 6}, {"_id": "b", "sum": 9}]
    assert reply.headers["content-type"].startswith("application/json")


async def test_variables_come_from_avars(api: Api) -> None:
    await define(api, BY_TAG, SORTED)

    assert await ids(api, avars={"tag": "b"}) == [1, 3, 5]
    assert await ids(api, avars="{'tag': 'a'}") == [0, 2, 4]


async def test_a_value_cannot_make_an_expression_run_for_ever(api: Api) -> None:
    await define(
        api, {"$match": {"$expr": {"$in": ["$n", {"$range": [0, {"$var": "n"}]}]}}}, SORTED
    )

    assert await ids(api, avars={"n": 2}) == [0, 1]
    reply = await api.get("/things/_aggrs/x", avars={"n": 1_000_000_000})
    assert (reply.status, reply.json["code"]) == (400, "loop-too-large")


async def test_extended_values_are_read_before_they_are_checked(api: Api) -> None:
    await define(api, {"$match": {"n": {"$var": "n"}}})

    assert await ids(api, avars='{"n": {"$numberLong": "3"}}') == [3]


async def test_paths_indexes_and_literal_keys(api: Api) -> None:
    names = ["options.limit", "list[1]", "o['k']"]
    await define(api, {"$match": {"n": {"$in": [{"$var": name} for name in names]}}}, SORTED)
    paths = {"options": {"limit": 1}, "list": [0, 2], "o": {"k": 3}}

    assert await ids(api, avars=paths) == [1, 2, 3]
    assert await ids(api, avars={**paths, "options.limit": 5}) == [2, 3, 5]


async def test_defaults_stand_in_for_what_is_not_given(api: Api) -> None:
    await define(api, {"$match": {"n": {"$gte": {"$var": ["from", 4]}}}}, SORTED)

    assert await ids(api) == [4, 5]
    assert await ids(api, avars={"from": 5}) == [5]


async def test_optional_stages_run_when_their_variables_are_given(api: Api) -> None:
    await define(
        api,
        {"$ifvar": ["tag", BY_TAG]},
        {"$ifvar": [["from", "to"], {"$match": {"n": {"$gte": {"$var": "from"}}}}, {"$limit": 2}]},
        SORTED,
    )

    assert await ids(api) == [0, 1]
    assert await ids(api, avars={"tag": "b"}) == [1, 3]
    assert await ids(api, avars={"from": 4, "to": 9}) == [4, 5]


async def test_paging_is_a_matter_of_the_pipeline(api: Api) -> None:
    await define(api, SORTED, {"$skip": {"$var": "@skip"}}, {"$limit": {"$var": "@limit"}})

    assert await ids(api, page="2", pagesize="2") == [2, 3]
    await define(api, {"$project": {"p": {"$var": "@page"}, "s": {"$var": "@pagesize"}}}, SORTED)
    reply = await api.get("/things/_aggrs/x", page="3", pagesize="7")
    assert reply.json[0] == {"_id": 0, "p": 3, "s": 7}


async def test_predefined_variables_cannot_be_supplied(mongo_client: Mongo, mongo_uri: str) -> None:
    async with serving(mongo_client, mongo_uri, identity("editor")) as api:
        fill(api)
        await define(
            api,
            {"$match": {"o": {"$var": "@user.userid"}, "n": 1}},
            {"$project": {"roles": {"$var": "@roles"}, "known": {"$var": "@authenticated"}}},
        )
        forged = {"@user": {"userid": "eve"}, "@user.userid": "eve", "@roles": ["admin"]}
        reply = await api.get("/things/_aggrs/x", avars=forged)

    assert reply.json == [{"_id": 1, "roles": ["editor"], "known": True}]


async def test_query_parameters_and_the_filter_of_the_caller(api: Api) -> None:
    await define(api, {"$match": {"$and": [{"$var": "@filter"}]}}, {"$limit": 10}, SORTED)

    assert await ids(api, filter={"n": {"$lt": 2}}) == [0, 1]
    await define(api, {"$match": {"tag": {"$var": "@qparams['t']"}}}, SORTED)
    assert await ids(api, t="b") == [1, 3, 5]


async def test_escaped_keys_are_understood_and_shown_as_they_were_written(api: Api) -> None:
    """Decision 6."""
    stages = [{"_$match": {"o": "ada", "n": {"_$var": "n"}}}]
    await api.put("/things", {"aggrs": [{"uri": "x", "stages": stages}]})
    meta = await api.get("/things/_meta")
    stored = api.mongo[api.db]["_properties"].find_one({"_id": "_properties.things"})

    assert await ids(api, avars={"n": 2}) == [2]
    assert meta.json["aggrs"][0]["stages"] == stages
    assert stored is not None
    assert stored["aggrs"][0]["stages"] == [{"__$match": {"o": "ada", "n": {"__$var": "n"}}}]


async def test_definitions_put_straight_into_the_database_work_with_plain_keys(api: Api) -> None:
    entry = {"uri": "x", "stages": [{"$match": {"n": {"$var": "n"}}}]}
    api.mongo[api.db]["_properties"].insert_one({"_id": "_properties.things", "aggrs": [entry]})

    assert await ids(api, avars={"n": 2}) == [2]


@pytest.mark.parametrize("type", ["pipeline", "aggregationPipeline", "ap", "Aggregation-Pipeline"])
async def test_the_old_names_of_the_type_are_accepted(api: Api, type: str) -> None:
    await define(api, SORTED, type=type)

    assert len(await ids(api)) == 6


async def test_head_is_like_get(api: Api) -> None:
    await define(api, SORTED)
    reply = await api.send("HEAD", "/things/_aggrs/x")

    assert (reply.status, reply.text) == (200, "")


# --- refused when called --------------------------------------------------------------------------


async def test_an_aggregation_that_is_not_defined_is_404(api: Api) -> None:
    await define(api, SORTED)
    unknown = await api.get("/things/_aggrs/y")

    assert (unknown.status, unknown.json["message"]) == (404, "query does not exist")
    assert (await api.get("/missing/_aggrs/x")).status == 404
    assert (await api.get("/things/_aggrs")).status == 405
    assert (await api.post("/things/_aggrs/x", {})).status == 405


async def test_an_unbound_variable_is_400_and_named(api: Api) -> None:
    await define(api, BY_TAG)
    reply = await api.get("/things/_aggrs/x")

    assert reply.status == 400
    assert reply.json["message"] == "cannot execute aggregation: variable tag not bound"
    assert reply.json["code"] == "variable-not-bound"


@pytest.mark.parametrize("avars", ["[1]", "3", '"x"', "null"])
async def test_avars_must_be_an_object(api: Api, avars: str) -> None:
    await define(api, SORTED)
    reply = await api.get("/things/_aggrs/x", avars=avars)

    assert reply.status == 400
    assert reply.json["message"].startswith("illegal avars parameter, it is not a json object: ")


@pytest.mark.parametrize(
    "avars", ['{"a": ', '{"tag": {"$gt": ""}}', '{"a": [{"b": {"$where": "1"}}]}', '{"$x": 1}']
)
async def test_operators_in_avars_are_refused(api: Api, avars: str) -> None:
    await define(api, {"$match": {"tag": {"$var": ["tag", "a"]}}})
    reply = await api.get("/things/_aggrs/x", avars=avars)

    assert reply.status == 400
    assert reply.json["message"].startswith("illegal avars parameter: {")


async def test_with_the_check_off_operators_count_but_never_code(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    off = {"mongo": {"aggregation-check-operators": False}}
    async with serving(mongo_client, mongo_uri, off) as api:
        fill(api)
        await define(api, {"$match": {"n": {"$var": "n"}}}, SORTED)
        found = await ids(api, avars={"n": {"$gt": 4}})
        code = await api.get("/things/_aggrs/x", avars='{"n": {"$where": "true"}}')

    assert found == [5]
    assert code.status == 403


async def test_a_value_never_becomes_a_field_or_an_operator(api: Api) -> None:
    """Decision 20a: values supplied by a caller stay values."""
    await define(api, {"$project": {"v": {"$var": "v"}}}, SORTED, {"$limit": 1})

    reply = await api.get("/things/_aggrs/x", avars={"v": "$o"})
    assert reply.json == [{"_id": 0, "v": "$o"}]


async def test_what_the_database_cannot_run_is_422(api: Api) -> None:
    await define(api, {"$project": {"x": {"$divide": ["$n", 0]}}})
    reply = await api.get("/things/_aggrs/x")

    assert reply.status == 422
    assert reply.json["message"].startswith("error executing aggregation")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"type": "mapReduce"}, "unknown query type"),
        ({"stages": [{"$ifvar": ["x"]}]}, "invalid aggregation: stages[0].$ifvar: must be"),
        ({"stages": "x"}, "invalid aggregation: stages: must be an array of stages"),
        ({}, "invalid aggregation: stages: must be an array of stages"),
    ],
)
async def test_a_broken_definition_from_elsewhere_is_422(
    api: Api, entry: dict[str, Any], message: str
) -> None:
    document = {"_id": "_properties.things", "aggrs": [3, {"uri": "x", **entry}]}
    api.mongo[api.db]["_properties"].insert_one(document)
    reply = await api.get("/things/_aggrs/x")

    assert reply.status == 422
    assert reply.json["message"].startswith(message)


async def test_a_dangerous_pipeline_from_elsewhere_is_403(api: Api) -> None:
    stages = [{"$match": {}}, {"$facet": {"a": [{"$out": "things"}]}}]
    document = {"_id": "_properties.things", "aggrs": [{"uri": "x", "stages": stages}]}
    api.mongo[api.db]["_properties"].insert_one(document)
    reply = await api.get("/things/_aggrs/x")

    assert reply.status == 403
    assert reply.json["message"].startswith(
        "aggregation pipeline security violation: Security violation: BLACKLISTED_STAGE operator "
        "'$out' at pipeline[1].$facet.a[0] - "
    )


async def test_the_time_limit_is_408(mongo_client: Mongo, mongo_uri: str) -> None:
    limit = {"mongo": {"aggregation-time-limit": 100}}
    async with serving(mongo_client, mongo_uri, limit) as api:
        fill(api)
        await define(api, SORTED)
        slow = {"namespace": f"{api.db}.things", "blockConnection": True, "blockTimeMS": 500}
        with failing(mongo_client, "aggregate", **slow):
            reply = await api.get("/things/_aggrs/x")

    assert reply.status == 408


async def test_more_results_than_are_allowed_is_an_error(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docgraph.rest.handlers.aggregations.MAX_RESULTS", 5)
    await define(api, SORTED)
    many = await api.get("/things/_aggrs/x")
    monkeypatch.setattr("docgraph.rest.handlers.aggregations.MAX_RESULTS", 6)
    assert len(await ids(api)) == 6
    monkeypatch.setattr("docgraph.rest.handlers.aggregations.MAX_BYTES", 10)
    large = await api.get("/things/_aggrs/x")

    assert many.status == 422
    assert many.json["message"] == "error executing aggregation: it gives more than 5 results"
    assert large.status == 422


async def test_results_beyond_what_is_sent_at_once_are_not_read(api: Api) -> None:
    """17 MiB: refused after the first batch, and its cursor is closed."""
    api.things.delete_many({})
    api.things.insert_many([{"_id": n, "x": "y" * (1 << 20)} for n in range(17)])
    await define(api, SORTED)

    with profiled(api.mongo, api.db, COLLECTION) as seen:
        reply = await api.get("/things/_aggrs/x")

    assert reply.status == 422
    assert reply.json["message"] == "error executing aggregation: it gives more than 16 MiB"
    assert [one["op"] for one in seen].count("getmore") == 0
    assert idle_cursors(api.mongo, f"{api.db}.things") == []


# --- refused when written -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("aggrs", "place"),
    [
        ({}, "aggrs: must be an array"),
        ([1], "aggrs[0]: must be an object"),
        ([{"stages": []}], "aggrs[0].uri: must be a text"),
        ([{"uri": "a/b", "stages": []}], "aggrs[0].uri: must not contain a slash"),
        ([{"uri": "a", "stages": []}] * 2, "aggrs[1].uri: there is another aggregation 'a'"),
        ([{"uri": "a"}], "aggrs[0].stages: must be an array of stages"),
        ([{"uri": "a", "stages": [], "allowDiskUse": 1}], "aggrs[0].allowDiskUse: must be true"),
        ([{"uri": "a", "stages": [], "type": "mapReduce"}], "aggrs[0].type: unknown query type"),
        ([{"uri": "a", "stages": [], "map": "x"}], "aggrs[0].map: is not known"),
        (
            [{"uri": "a", "stages": [{"$match": {"b": {"$var": []}}}]}],
            "aggrs[0].stages[0].$match.b.$var: must be a name or [name, default]",
        ),
        ([{"uri": "a", "stages": [{"$ifvar": ["b"]}]}], "aggrs[0].stages[0].$ifvar: must be"),
        (
            [{"uri": "a", "stages": [{"$out": "users"}]}],
            "aggrs[0].stages: Security violation: BLACKLISTED_STAGE operator '$out' at stages[0]",
        ),
        (
            [{"uri": "a", "stages": [{"$ifvar": ["b", {"$merge": "users"}]}]}],
            "aggrs[0].stages: Security violation: BLACKLISTED_STAGE operator '$merge'",
        ),
        (
            [{"uri": "a", "stages": [{"_$match": {"_$where": "1"}}]}],
            "aggrs[0].stages: Security violation: BLACKLISTED_OPERATOR operator '$where'",
        ),
        (
            [{"uri": "a", "stages": [{"$lookup": {"from": "x.y", "as": "z", "pipeline": []}}]}],
            "aggrs[0].stages: Security violation: CROSS_DATABASE_ACCESS operator '$lookup'",
        ),
    ],
)
async def test_a_mistake_is_told_with_its_place_when_it_is_written(
    api: Api, aggrs: Any, place: str
) -> None:
    reply = await api.put("/things", {"aggrs": aggrs})
    patched = await api.patch("/things", {"aggrs": aggrs})

    assert reply.status == 400
    assert reply.json["message"].startswith(place), reply.text
    assert reply.json["details"][0].startswith(place)
    assert patched.json["message"] == reply.json["message"]
    assert (await api.get("/things/_meta")).status == 404


async def test_an_aggregation_is_added_by_patch(api: Api) -> None:
    await define(api, SORTED)
    more = {"uri": "y", "stages": [{"$count": "n"}]}
    added = await api.patch("/things", {"$push": {"aggrs": more}})
    wrong = await api.patch("/things", {"$push": {"aggrs": {"uri": "z"}}})

    assert added.status == 200, added.text
    assert (await api.get("/things/_aggrs/y")).json == [{"n": 6}]
    assert len(await ids(api)) == 6
    assert wrong.status == 400
    assert wrong.json["message"].startswith("aggrs[2].stages")


async def test_joins_inside_the_database_are_allowed(api: Api) -> None:
    """Decision 20a: $lookup and $unionWith may read the same database."""
    lookup = {"from": "things", "localField": "n", "foreignField": "_id", "as": "same"}
    await define(api, {"$match": {"n": 1}}, {"$lookup": lookup})

    reply = await api.get("/things/_aggrs/x")
    assert reply.json[0]["same"][0]["_id"] == 1


async def test_a_stage_of_the_blacklist_is_refused(mongo_client: Mongo, mongo_uri: str) -> None:
    security = {"aggregationSecurity": {"stageBlacklist": ["$lookup"]}}
    async with serving(mongo_client, mongo_uri, security) as api:
        lookup = {"$lookup": {"from": "x", "localField": "a", "foreignField": "b", "as": "c"}}
        reply = await api.put("/things", {"aggrs": [{"uri": "x", "stages": [lookup]}]})

    assert reply.status == 400
    assert "BLACKLISTED_STAGE operator '$lookup'" in reply.json["message"]


# --- what only the database knows -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ({"$limit": "x"}, "[0].$limit: must be a whole number above 0"),
        ({"$match": {"$or": 1}}, "[0].$match.$or: must be an array of one filter or more"),
        (
            {"$match": {"$text": {}}},
            "[0].$match.$text: must be an object with $search, a string",
        ),
        (
            {"$match": {"a": {"$near": {"$var": "x"}}}},
            "[0].$match.a.$near: $near cannot be used in a $match",
        ),
        (
            {"$facet": {"a": [{"$match": {"$text": {"$search": {"$var": "x"}}}}]}},
            "[0].$facet.a[0].$match.$text: a $match with $text must be the first stage of a "
            "pipeline on a collection",
        ),
        (
            {"$geoNear": {"near": {"$var": "x"}}},
            "[0].$geoNear: must be an object with near and distanceField",
        ),
        (
            {"$set": {"s": {"$meta": "textScore"}, "b": {"$var": "b"}}},
            "[0].$set.s.$meta: there is no textScore without $text",
        ),
        (
            {"$set": {"a": {"$size": 1}, "b": {"$var": "b"}}},
            "[0].$set.a: MongoDB cannot run this",
        ),
        (
            {"$match": {"$text": {"$search": "x", "$foo": 1}}},
            "[0].$match: MongoDB cannot run this",
        ),
        ({"$match": {"a": {"$size": "x"}}}, "[0].$match: MongoDB cannot run this"),
        (
            {"$match": {"a": {"$size": "x"}, "b": {"$var": "b"}}},
            "[0].$match.a: MongoDB cannot run this",
        ),
        ({"$project": {"a": 1, "b": 0}}, "[0].$project: MongoDB cannot run this"),
    ],
)
async def test_a_stage_whose_arguments_cannot_work_is_not_stored(
    api: Api, stage: Any, message: str
) -> None:
    entry = {"uri": "a", "stages": [stage]}
    put = await api.put("/things", {"aggrs": [entry]})
    patched = await api.patch("/things", {"aggrs": [entry]})

    for reply in (put, patched):
        assert reply.status == 400, reply.text
        assert reply.json["message"].endswith(f"aggrs[0].stages{message}")
    assert (await api.get("/things/_meta")).status == 404


@pytest.mark.parametrize(
    ("stage", "place", "hint"),
    [
        ({"$match": {"$orr": [{"a": 1}]}}, "[0].$match.$orr", "did you mean $or?"),
        ({"$match": {"a": {"$gtt": 1}}}, "[0].$match.a.$gtt", "did you mean $gt?"),
        ({"$project": {"a": {"$addd": [1, 2]}}}, "[0].$project.a.$addd", "did you mean $add?"),
    ],
)
async def test_an_operator_that_nobody_knows_is_not_stored(
    api: Api, stage: Any, place: str, hint: str
) -> None:
    put = await api.put("/things", {"aggrs": [{"uri": "a", "stages": [stage]}]})
    patched = await api.patch("/things", {"aggrs": [{"uri": "a", "stages": [stage]}]})

    for reply in (put, patched):
        assert reply.status == 400, reply.text
        assert reply.json["message"].startswith(f"aggrs[0].stages{place}: MongoDB has no operator")
        assert reply.json["hint"] == hint


async def test_a_collection_that_is_joined_and_missing_is_pointed_out(api: Api) -> None:
    there = {"from": "things", "localField": "a", "foreignField": "b", "as": "c"}
    stages: list[Any] = [
        {"$lookup": there},
        {"$lookup": {**there, "from": "nowhere"}},
        {"$facet": {"a": [{"$unionWith": {"coll": "nobody", "pipeline": []}}]}},
    ]

    reply = await api.put("/things", {"aggrs": [{"uri": "a", "stages": stages}]})

    assert reply.status == 200
    assert reply.json["_warnings"] == [
        f"aggrs[0].stages: there is no collection {api.db}.nowhere",
        f"aggrs[0].stages: there is no collection {api.db}.nobody",
    ]
