"""What the database says about a definition when it is written (decision 7)."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.exchange.errors import DefinitionError, Overloaded
from docgraph.observe.engine_events import CommandFinished
from docgraph.store import trials
from docgraph.variables import shapes
from tests.http.harness import Mongo, Service, failing, listening, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

SCHEMA = "type Query { items: [Item] } type Item { name: String password: String }"


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri) as service:
        service.insert("items", {"name": "one"})
        yield service


async def define(service: Service, find: Any, collection: str = "items") -> tuple[str, ...]:
    result = await service.define(
        "app", SCHEMA, {"Query": {"items": service.find(collection, find)}}
    )
    return result.warnings


@pytest.mark.parametrize(
    ("find", "message", "hint"),
    [
        ({"_id": {"$gtt": 1}}, "find._id.$gtt: MongoDB has no operator $gtt", "did you mean $gt?"),
        ({"$orr": [{}]}, "find.$orr: MongoDB has no operator $orr", "did you mean $or?"),
        (
            {"$expr": {"$concatt": ["a"]}},
            "find.$expr.$concatt: MongoDB has no operator $concatt",
            "did you mean $concat?",
        ),
    ],
)
async def test_an_operator_that_the_database_refuses_is_refused(
    service: Service, find: Any, message: str, hint: str
) -> None:
    with pytest.raises(DefinitionError) as refused:
        await define(service, find)

    assert refused.value.message == f"Wrong GraphQL App definition: mappings.Query.items.{message}"
    assert refused.value.hint == hint


@pytest.mark.parametrize(
    ("mapping", "message", "hint"),
    [
        (
            {"stages": [{"$setWindowFields": {"output": {"r": {"$ranc": {}}}}}]},
            "stages[0].$setWindowFields.output.r.$ranc: MongoDB has no operator $ranc",
            "did you mean $rank?",
        ),
        (
            {"stages": [{"$mach": {}}]},
            "stages: Security violation: BLACKLISTED_STAGE operator '$mach' at stages[0] - "
            "it is not one of the stages that are allowed here",
            "did you mean $match?",
        ),
        ({"sort": {"$foo": 1}}, "sort.$foo: '$foo' is not the path of a field", None),
        ({"sort": {"": 1}}, "sort: '' is not the path of a field", None),
        (
            {"stages": [{"$sort": {"a": 1, "$b": -1}}]},
            "stages[0].$sort.$b: '$b' is not the path of a field",
            None,
        ),
    ],
)
async def test_other_misspellings_are_refused(
    service: Service, mapping: Any, message: str, hint: str | None
) -> None:
    with pytest.raises(DefinitionError) as refused:
        await service.define("app", SCHEMA, {"Query": {"items": service.find("items", **mapping)}})

    assert refused.value.message == f"Wrong GraphQL App definition: mappings.Query.items.{message}"
    assert refused.value.hint == hint


@pytest.mark.parametrize(
    ("kind", "operator", "find"),
    [
        ("filter", "$nor", {"$nor": [{"a": 1}]}),
        ("condition", "$size", {"a": {"$size": 1}}),
        ("expression", "$toUpper", {"$expr": {"$eq": [{"$toUpper": "$a"}, "A"]}}),
        ("expression", "$sum", {"$expr": {"$eq": [{"$sum": ["$a"]}, 1]}}),
    ],
)
async def test_an_operator_that_only_we_do_not_know_is_a_warning(
    service: Service, monkeypatch: pytest.MonkeyPatch, kind: Any, operator: str, find: Any
) -> None:
    known = shapes._KNOWN
    monkeypatch.setitem(known, kind, known[kind] - {operator})

    (warning,) = await define(service, find)

    assert warning.endswith(f"docgraph does not know {operator}, but this database does")


NEAR = {"near": [1, 2], "distanceField": "d"}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"find": {"a": {"$size": "x"}}}, "find.a"),
    ({"find": {"name": {"$arg": ["@user._id", None]}, "a": {"$type": "nonsense"}}}, "find.a"),
    ({"find": {"$expr": {"$eq": [1]}}}, "find.$expr"),
    ({"find": {"a": {"$near": 1}}}, "find.a"),
    ({"find": {"a": {"$nearSphere": {}}, "b": {"$arg": ["@user._id", 1]}}}, "find.a"),
    ({"find": {"$text": {"$search": "x", "$language": 1}}}, "find.$text"),
    ({"stages": [{"$match": {"$text": {"$search": "x", "$foo": 1}}}]}, "stages[0].$match"),
    ({"stages": [{"$geoNear": {**NEAR, "maxDistance": "x"}}]}, "stages[0].$geoNear"),
    (
        {"stages": [{"$set": {"a": {"$arg": ["@now", 1]}, "b": {"$size": 1}}}]},
        "stages[0].$set.b",
    ),
    (
        {"stages": [{"$group": {"_id": {"$arg": ["@now", 1]}, "n": {"$sum": 1, "$max": 1}}}]},
        "stages[0].$group.n",
    ),
    ({"stages": [{"$match": {"a": {"$mod": 1}}}]}, "stages[0].$match"),
    ({"stages": [{"$limit": 1}, {"$project": {"a": 1, "b": 0}}]}, "stages[1].$project"),
    ({"stages": [{"$group": {"_id": None, "n": 1}}]}, "stages[0].$group"),
    ({"stages": [{"$fill": {}}]}, "stages[0].$fill"),
    ({"stages": [{"$match": {}}, {"$addFields": {"a": {"$divide": [1]}}}]}, "stages[1].$addFields"),
    (
        {
            "stages": [
                {"$facet": {"a": [{"$skip": {"$arg": ["@now", 0]}}, {"$redact": {"$eq": 1}}]}}
            ]
        },
        "stages[0].$facet.a[1].$redact",
    ),
]


@pytest.mark.parametrize(("mapping", "where"), REFUSED)
async def test_what_the_database_cannot_run_is_refused_with_its_place(
    service: Service, mapping: Any, where: str
) -> None:
    """Decision 7: by the database itself, which is asked to explain it and reads nothing."""
    with pytest.raises(DefinitionError) as refused:
        await service.define("app", SCHEMA, {"Query": {"items": service.find("items", **mapping)}})

    assert refused.value.message == (
        f"Wrong GraphQL App definition: mappings.Query.items.{where}: MongoDB cannot run this"
    )
    assert refused.value.hint == "compare its arguments with the reference of MongoDB"


TEXT = {"$match": {"$text": {"$search": {"$arg": ["@user._id", ""]}}}}
JOIN = {"from": "items", "localField": "a", "foreignField": "a", "as": "x"}
FIRST = "must be the first stage of a pipeline on a collection"
LOOKUP = "must be an object with as, and a pipeline or from, localField and foreignField"
SORT = 'must be an object of fields with 1, -1 or {"$meta": "textScore"}'
DOCUMENT = "an object, or an expression that makes one"
IMPOSSIBLE: list[tuple[list[Any], str]] = [
    ([{"$lookup": {"from": "items", "as": "x", "localField": "a"}}], f"[0].$lookup: {LOOKUP}"),
    ([{"$lookup": {"from": "items", "as": "x"}}], f"[0].$lookup: {LOOKUP}"),
    (
        [{"$lookup": {"from": "items", "as": "x", "foreignField": "a", "pipeline": []}}],
        f"[0].$lookup: {LOOKUP}",
    ),
    ([{"$geoNear": {}}], "[0].$geoNear: must be an object with near and distanceField"),
    ([{"$geoNear": {"near": [1, 2]}}], "[0].$geoNear: must be an object with near and"),
    ([{"$geoNear": {"near": {"$arg": "@now"}}}], "[0].$geoNear: must be an object with near and"),
    ([{"$redact": 1}], "[0].$redact: must be an expression that makes $$KEEP, $$PRUNE or"),
    ([{"$redact": {"a": 1}}], "[0].$redact: must be an expression"),
    ([{"$replaceWith": None}], f"[0].$replaceWith: must be {DOCUMENT}"),
    ([{"$replaceWith": "a"}], f"[0].$replaceWith: must be {DOCUMENT}"),
    (
        [{"$replaceRoot": {"newRoot": 1}}],
        f"[0].$replaceRoot: must be an object with newRoot, {DOCUMENT}",
    ),
    ([{"$sort": {"a": {"$meta": "x"}}}], f"[0].$sort: {SORT}"),
    ([{"$sort": {"a": {"$meta": ["x"]}}}], f"[0].$sort: {SORT}"),
    ([{"$sort": {}}], f"[0].$sort: {SORT}"),
    ([{"$match": {"$text": {}}}], "[0].$match.$text: must be an object with $search, a string"),
    ([{"$match": {"$and": [{"$text": 1}]}}], "[0].$match.$and[0].$text: must be an object with"),
    ([{"$match": {"a": {"$near": 1}}}], "[0].$match.a.$near: $near cannot be used in a $match"),
    (
        [{"$match": {"$or": [{"a": {"$not": {"$nearSphere": {"$arg": "@now"}}}}]}}],
        "[0].$match.$or[0].a.$not.$nearSphere: $nearSphere cannot be used in a $match",
    ),
    ([{"$limit": 1}, TEXT], f"[1].$match.$text: a $match with $text {FIRST}"),
    ([{"$match": {}}, TEXT], f"[1].$match.$text: a $match with $text {FIRST}"),
    (
        [{"$limit": 1}, {"$ifarg": ["@now", TEXT]}],
        f"[1].$ifarg[1].$match.$text: a $match with $text {FIRST}",
    ),
    (
        [{"$limit": 1}, {"$ifarg": ["@now", {"$limit": 1}, [TEXT]]}],
        f"[1].$ifarg[2][0].$match.$text: a $match with $text {FIRST}",
    ),
    ([{"$sample": {"size": "x"}}], "[0].$sample: must be an object with size"),
    ([{"$documents": [1]}], "[0].$documents: must be an array of objects"),
    ([{"$documents": "$a"}], "[0].$documents: must be an array of objects"),
    ([{"$search": "x"}], "[0].$search: must be an object with one field or more"),
    (
        [{"$set": {"a": {"$meta": "x"}, "b": {"$arg": "@now"}}}],
        '[0].$set.a.$meta: must be the name of metadata such as "textScore"',
    ),
    (
        [{"$group": {"_id": None, "n": {"$mergeObjects": 1}}}],
        f"[0].$group.n.$mergeObjects: must be {DOCUMENT}",
    ),
    (
        [{"$set": {"s": {"$meta": "textScore"}}}],
        "[0].$set.s.$meta: there is no textScore without $text",
    ),
    (
        [{"$limit": 1}, {"$ifarg": ["@now", {"$sort": {"s": {"$meta": "geoNearDistance"}}}]}],
        "[1].$ifarg[1].$sort.s.$meta: there is no geoNearDistance without $geoNear or $near or",
    ),
    ([{"$match": {"a": 1}}, {"$geoNear": NEAR}], f"[1].$geoNear: {FIRST}"),
    ([{"$facet": {"a": [TEXT]}}], f"[0].$facet.a[0].$match.$text: a $match with $text {FIRST}"),
    ([{"$facet": {"a": [{"$geoNear": NEAR}]}}], f"[0].$facet.a[0].$geoNear: {FIRST}"),
    (
        [{"$lookup": {**JOIN, "pipeline": [TEXT]}}],
        f"[0].$lookup.pipeline[0].$match.$text: a $match with $text {FIRST}",
    ),
    (
        [{"$unionWith": {"coll": "items", "pipeline": [{"$skip": 1}, TEXT]}}],
        f"[0].$unionWith.pipeline[1].$match.$text: a $match with $text {FIRST}",
    ),
    ([{"$limit": 1}, {"$documents": [{"a": 1}]}], f"[1].$documents: {FIRST}"),
]


@pytest.mark.parametrize(("stages", "message"), IMPOSSIBLE, ids=str)
async def test_stages_that_never_work_are_refused(
    service: Service, stages: list[Any], message: str
) -> None:
    mapping = service.stages("items", *stages)
    with pytest.raises(DefinitionError) as refused:
        await service.define("app", SCHEMA, {"Query": {"items": mapping}})

    first, *others = refused.value.message.splitlines()
    assert first.startswith(f"Wrong GraphQL App definition: mappings.Query.items.stages{message}")
    assert not others, "each is named once"


@pytest.mark.parametrize(
    ("find", "sort", "message"),
    [
        ({}, {"a": {"$meta": "x"}}, f"sort: {SORT}"),
        ({}, {"a": {"$meta": "textScore"}}, "sort.a.$meta: there is no textScore without $text"),
    ],
)
async def test_a_sort_by_metadata_that_is_missing_is_refused(
    service: Service, find: Any, sort: Any, message: str
) -> None:
    mapping = service.find("items", find, sort=sort)
    with pytest.raises(DefinitionError) as refused:
        await service.define("app", SCHEMA, {"Query": {"items": mapping}})

    assert refused.value.message == f"Wrong GraphQL App definition: mappings.Query.items.{message}"


async def test_a_find_by_text_without_a_text_is_refused(service: Service) -> None:
    with pytest.raises(
        DefinitionError, match=r"items\.find\.\$text: must be an object with \$search"
    ):
        await define(service, {"$text": {}})


RUN: list[dict[str, Any]] = [
    {"find": {"$text": {"$search": "x"}}},
    {"find": {"at": {"$near": [1, 2]}}},
    {"find": {"$text": {"$search": "x"}}, "sort": {"s": {"$meta": "textScore"}, "a": 1}},
    {"find": {"$or": [{"$text": {"$search": "x"}}, {"b": 1}]}, "sort": {"s": {"$meta": "randVal"}}},
    {"find": {}, "sort": {"$natural": 1}},
    {"find": {}, "sort": {}},
    {"find": {}, "sort": {"a": {"$arg": ["@now", 1]}}},
    {"stages": [{"$match": {"$arg": "@user"}}, {"$set": {"s": {"$meta": "textScore"}}}]},
    {"stages": [{"$set": {"s": {"$literal": {"$meta": "textScore"}}}}]},
    {"stages": [{"$sample": {"size": {"$arg": ["@now", 1]}}}, {"$limit": {"$arg": ["@now", 1]}}]},
    {"stages": [{"$group": {"_id": {"$arg": "@now"}, "n": {"$mergeObjects": "$a"}}}]},
    {"stages": [{"$geoNear": {**NEAR, "query": {"a": {"$arg": "@now"}}}}]},
    {"stages": [{"$match": {"$text": {"$search": "x"}}}, {"$sort": {"s": {"$meta": "textScore"}}}]},
    {"stages": [{"$geoNear": {"near": [1, 2], "distanceField": "d"}}]},
    {
        "stages": [
            {
                "$lookup": {
                    "from": "items",
                    "let": {"x": "$name"},
                    "pipeline": [
                        {"$match": {"$expr": {"$eq": ["$name", "$$x"]}}},
                        {"$limit": {"$arg": ["@now", 1]}},
                    ],
                    "as": "same",
                }
            }
        ]
    },
    {"stages": [TEXT, {"$sort": {"s": {"$meta": "textScore"}}}]},
    {"stages": [{"$ifarg": ["@now", {"$limit": 1}]}, TEXT]},
    {"stages": [{"$sort": {"a": {"$arg": ["@now", None]}}}, TEXT]},
    {"stages": [{"$match": {}}, {"$skip": 0}, {"$geoNear": NEAR}]},
    {"stages": [{"$match": {"$ifarg": ["@now", {"a": 1}]}}, {"$geoNear": NEAR}]},
    {"stages": [{"$geoNear": {**NEAR, "near": {"$arg": "@now"}}}]},
    {"stages": [{"$lookup": {"from": "items", "as": "x", "pipeline": [TEXT]}}]},
    {"stages": [{"$unionWith": {"coll": "items", "pipeline": [{"$geoNear": NEAR}]}}]},
    {"stages": [{"$redact": {"$cond": [True, "$$KEEP", "$$PRUNE"]}}, {"$replaceWith": "$a"}]},
    {"stages": [{"$replaceWith": {"$arg": "@user"}}, {"$sort": {"a": {"$meta": "randVal"}}}]},
    {"stages": [{"$replaceRoot": {"newRoot": {"$mergeObjects": ["$a", "$b"]}}}]},
    {"stages": [{"$unionWith": {"pipeline": [{"$documents": [{"name": "a"}]}]}}]},
    {"stages": [{"$unionWith": "items"}, {"$sample": {"size": 1}}]},
]


@pytest.mark.parametrize("mapping", RUN, ids=str)
async def test_what_cannot_be_tried_alone_is_stored(service: Service, mapping: Any) -> None:
    mappings = {"Query": {"items": service.find("items", **mapping)}}

    await service.define("app", SCHEMA, mappings)


async def test_stages_are_tried_in_one_command_and_nothing_is_read(service: Service) -> None:
    stages = [{"$match": {"n": number}} for number in range(50)]
    mappings = {"Query": {"items": service.find("items", stages=[*stages, {"$limit": 5}])}}
    with listening(CommandFinished) as commands:
        await service.define("app", SCHEMA, mappings)

    asked = [one.command for one in commands if one.command in ("explain", "aggregate")]
    assert asked == ["explain"]  # polling finds


SLOW = {"blockConnection": True, "blockTimeMS": 1_000}
BELOW_ONE = {"$group": {"_id": None, "v": {"$maxN": {"n": -1, "input": "$a"}}}}
WRONG = [({"stages": [BELOW_ONE]}, "explain"), ({"find": {"$orrr": [{}]}}, "aggregate")]


@pytest.mark.parametrize(("mapping", "command"), WRONG, ids=["stage", "operator"])
async def test_a_trial_that_the_database_does_not_finish_is_repeated_with_more_time(
    service: Service, mapping: Any, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "_TRIAL_MS", (20, 60_000))
    mappings = {"Query": {"items": service.find("items", **mapping)}}

    with (
        failing(service.mongo, command, mode={"times": 1}, **SLOW),
        pytest.raises(DefinitionError),
    ):
        await service.define("slow", SCHEMA, mappings)


@pytest.mark.parametrize(("mapping", "command"), WRONG, ids=["stage", "operator"])
async def test_a_definition_that_the_database_cannot_check_in_time_is_not_stored(
    service: Service, mapping: Any, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "_TRIAL_MS", (20, 20))
    unknown = str(mapping).replace("$orrr", "$orrrr")  # what was tried before is cached
    mappings = {"Query": {"items": service.find("items", **literal_eval(unknown))}}

    with (
        failing(service.mongo, command, **SLOW),
        pytest.raises(Overloaded, match="did not check the definition in time"),
    ):
        await service.define("slow", SCHEMA, mappings)

    assert service.mongo[service.db]["gql-apps"].count_documents({"_id": "slow"}) == 0


async def test_a_stage_that_is_forbidden_is_never_sent(service: Service) -> None:
    asked, place = service.app.store.trials, (service.db, "items")
    forbidden: list[Any] = [{"$out": "items"}, {"$match": {"$where": "1"}}, {"$limit": "x"}]
    with listening(CommandFinished) as commands:
        refused = await service.there(asked.find_refused(forbidden, place))

    assert refused == [2]
    sent = [one.command for one in commands if one.collection == "items"]
    assert sent == ["explain", "explain"]


async def test_a_stage_that_could_exhaust_the_database_is_never_sent(service: Service) -> None:
    """To parse it is to compute its constants, and the cost of a definition is checked later."""
    asked, place = service.app.store.trials, (service.db, "items")
    turns = {"input": {"$range": [0, 30_000]}, "initialValue": []}
    deep = {"$size": {"$reduce": {**turns, "in": ["$$value"]}}}
    costly: list[Any] = [
        {"$set": {"a": deep}},
        {"$match": {"$expr": {"$eq": [1, deep]}}},
        {"$group": {"_id": 1, "v": {"$topN": {"n": 1, "sortBy": {"a": 1}, "output": deep}}}},
        {"$lookup": {"from": "items", "pipeline": [{"$set": {"a": deep}}], "as": "b"}},
    ]
    with listening(CommandFinished) as commands:
        assert await service.there(asked.find_refused(costly, place)) == []

    assert [one.command for one in commands if one.collection == "items"] == []


async def test_the_database_is_asked_about_an_operator_once(service: Service) -> None:
    asked = []
    for _ in range(2):
        with listening(CommandFinished) as commands, pytest.raises(DefinitionError):
            await define(service, {"a": {"$onlyOnce": 1}})
        asked.append(sum(one.command == "aggregate" for one in commands))

    assert asked == [1, 0]


async def test_a_collection_that_is_not_there_is_a_warning(service: Service) -> None:
    missing = await define(service, {}, "nowhere")
    present = await define(service, {})

    assert missing == (
        f"mappings.Query.items.collection: there is no collection {service.db}.nowhere",
    )
    assert present == ()


async def test_a_collection_that_is_joined_and_not_there_is_a_warning(service: Service) -> None:
    join = {"localField": "a", "foreignField": "b", "as": "c"}
    stages = [
        {"$lookup": {"from": "items", **join}},
        {"$lookup": {"from": "nowhere", **join, "pipeline": [{"$unionWith": "nobody"}]}},
        {"$ifarg": ["x", {"$facet": {"a": [{"$unionWith": {"coll": "nothing"}}]}}]},
    ]
    schema = "type Query { items(x: Int): [Item] } type Item { _id: ID }"
    mapping = service.stages("items", *stages)

    result = await service.define("joins", schema, {"Query": {"items": mapping}})

    assert result.warnings == tuple(
        f"mappings.Query.items.stages: there is no collection {service.db}.{name}"
        for name in ("nowhere", "nobody", "nothing")
    )


async def test_a_mapping_to_the_password_is_refused(service: Service) -> None:
    """Decision 34."""
    users = {"db": "docgraph", "collection": "users", "find": {}}
    with pytest.raises(DefinitionError, match=r"mappings\.Item\.password: password is never shown"):
        await service.define("app", SCHEMA, {"Query": {"items": users}})


async def test_an_index_that_leaves_ties_without_an_order_is_pointed_out(service: Service) -> None:
    """Decision 12."""
    people = service.mongo[service.db].people
    people.insert_one({"age": 1})
    people.create_index([("team", 1), ("age", -1)])
    people.create_index("number", unique=True)
    schema = "type Query { a: [P] b: [P] c: [P] d: [P] } type P { age: Int }"
    queries = {
        "a": service.find("people", {"team": 1}, sort={"age": 1}),
        "b": service.find("people", {}, sort={"age": 1}),
        "c": service.find("people", {}, sort={"number": 1}),
        "d": service.find("people", {}, sort={"_id": 1}),
    }

    (warning,) = (await service.define("ties", schema, {"Query": queries})).warnings

    assert warning.startswith("mappings.Query.a.sort: documents with equal keys come in the order")
    assert warning.endswith("(make an index {team: 1, age: -1, _id: -1})")


async def test_what_is_stored_already_goes_on(service: Service) -> None:
    """What is refused when it is written is put up with in definitions that are there."""
    unmapped = {"_id": "bare", "schema": SCHEMA, "mappings": {}}
    mistaken = {"Query": {"items": service.find("items", {"name": {"$gtt": 1}})}}
    await service.smuggle(unmapped, {"_id": "wrong", "schema": SCHEMA, "mappings": mistaken})

    bare = await service.query("bare", "{ items { name } }")
    wrong = await service.query("wrong", "{ __typename items { name } }")

    assert (bare.status, bare.data) == (200, {"items": None})
    assert (wrong.status, wrong.code) == (200, "rejected-by-database")
