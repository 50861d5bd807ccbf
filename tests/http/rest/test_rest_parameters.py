"""What query parameters do to a list of documents."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.http.harness import Mongo
from tests.http.rest_harness import Api, serving

pytestmark = [pytest.mark.anyio, pytest.mark.json]


@pytest.fixture
def people(api: Api) -> Any:
    api.things.insert_many(
        [
            {"_id": 1, "name": "ada", "age": 36, "city": {"zip": "a"}},
            {"_id": 2, "name": "bob", "age": 20, "city": {"zip": "b"}},
            {"_id": 3, "name": "eve", "age": 20, "city": {"zip": "c"}},
        ]
    )
    return api.things


async def _ids(api: Api, query: str) -> list[Any]:
    reply = await api.get(f"/things?{query}")
    assert reply.status == 200, reply.text
    return [one["_id"] for one in reply.json]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('filter={"age":20}', [3, 2]),
        ("filter={age:20}", [3, 2]),
        ("filter={'name':{'$regex':'^a'}}", [1]),
        ("filter={name:/^A/i}", [1]),
        ('filter={"age":20}&filter={"name":"bob"}', [2]),
        ('filter={"city.zip":"c"}', [3]),
        ('filter={"$or":[{"_id":1},{"_id":3}]}', [3, 1]),
        ("sort=name", [1, 2, 3]),
        ("sort=-name", [3, 2, 1]),
        ("sort=+name", [1, 2, 3]),
        ("sort=%2Bname", [1, 2, 3]),
        ("sort=age&sort=-name", [3, 2, 1]),
        ("sort={age:-1,name:1}", [1, 2, 3]),
        ("sort_by=name&sort=-name", [1, 2, 3]),
        ("sort=-city.zip", [3, 2, 1]),
        ("hint=_id_", [3, 2, 1]),
        ("hint={$natural:1}&sort={}", [1, 2, 3]),
        ("hint=%2B_id&sort={}", [1, 2, 3]),
        ("shardkey={age:20}", [3, 2]),
        ("rep=STANDARD&sort=name", [1, 2, 3]),
        ("nocache&sort=name", [1, 2, 3]),
    ],
)
async def test_parameters_of_a_list(api: Api, people: Any, query: str, expected: Any) -> None:
    assert await _ids(api, quote(query, safe="=&+%")) == expected


async def test_keys_choose_the_properties(api: Api, people: Any) -> None:
    reply = await api.get("/things", keys=['{"name":1}', '{"_id":0}'], sort="name")

    assert reply.json == [{"name": "ada"}, {"name": "bob"}, {"name": "eve"}]
    assert (await api.get("/things", keys='{"city.zip":1}', filter='{"_id":1}')).json == [
        {"_id": 1, "city": {"zip": "a"}}
    ]


async def test_text_search_with_its_score(api: Api, people: Any) -> None:
    people.create_index([("name", "text")])

    reply = await api.get(
        "/things",
        filter='{"$text":{"$search":"bob"}}',
        keys='{"score":{"$meta":"textScore"}}',
        sort='{"score":{"$meta":"textScore"}}',
    )

    (found,) = reply.json
    assert (found["_id"], found["score"] > 0) == (2, True)


@pytest.mark.parametrize(
    "query",
    [
        'filter={"$nonsense":1}',
        'filter={"a":{"$nonsense":1}}',
        'filter={"a":{"$regex":"("}}',
        'filter={"a":{"$near":[1,1]}}',
        'filter={"$expr":{"$nonsense":1}}',
        'keys={"a":1,"b":0}',
        'keys={"a":{"$nonsense":1}}',
        'sort={"a":{"$meta":"nonsense"}}',
        "sort=a..b",
        "hint=nonsense",
        "page=999999999999999999",
        "&".join(f"sort=a{n}" for n in range(40)),
    ],
)
async def test_what_the_database_does_not_understand_is_400(api: Api, query: str) -> None:
    reply = await api.get(f"/things?{quote(query, safe='=&')}")

    assert reply.status == 400, reply.text
    assert reply.json["message"]


@pytest.mark.parametrize("operator", ["$where", "$function", "$accumulator"])
async def test_operators_that_run_code_are_403(api: Api, operator: str) -> None:
    for filter in ({operator: "1"}, {"$or": [{"a": {operator: "1"}}]}):
        assert (await api.get("/things", filter=filter)).status == 403
        assert (await api.delete("/things/*", filter=filter)).status == 403


async def test_a_query_that_takes_too_long_is_408(mongo_client: Mongo, mongo_uri: str) -> None:
    async with serving(mongo_client, mongo_uri, {"mongo": {"query-time-limit": 50}}) as api:
        api.things.insert_many({"_id": n, "s": "a" * 50} for n in range(5000))
        numbers = {"$range": [0, {"$min": [{"$add": [15_000, "$_id"]}, 20_000]}]}
        slow = {"$expr": {"$lt": [{"$size": {"$setUnion": [numbers]}}, 0]}}

        reply = await api.get("/things", filter=slow)

    assert (reply.status, reply.json["code"]) == (408, "time-limit-exceeded")


async def test_page_sizes_can_be_configured(mongo_client: Mongo, mongo_uri: str) -> None:
    setting = {"mongo": {"default-pagesize": 2, "max-pagesize": 3}}
    async with serving(mongo_client, mongo_uri, setting) as api:
        api.things.insert_many({"_id": n} for n in range(5))

        assert len((await api.get("/things")).json) == 2
        assert len((await api.get("/things", pagesize="3")).json) == 3
        assert (await api.get("/things", pagesize="4")).json["message"] == (
            "illegal pagesize parameter, pagesize must be >= 0 and <= 3"
        )


@pytest.mark.parametrize("value", ["HAL", "hal", "SHAL", "PJ", "plain_json"])
async def test_representations_that_there_are_not_are_refused(api: Api, value: str) -> None:
    reply = await api.get("/things", rep=value)

    assert (reply.status, reply.json["code"]) == (501, "not-supported")
    assert value.upper() in reply.json["message"]


@pytest.mark.parametrize("value", ["S", "standard"])
async def test_the_representation_that_there_is_can_be_named(api: Api, value: str) -> None:
    assert (await api.get("/things", rep=value)).status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/ping"),
        ("GET", "/health/db"),
        ("GET", "/metrics"),
        ("GET", "/openapi.json"),
        ("GET", "/openapi"),
        ("GET", "/whoami"),
        ("GET", "/things"),
        ("POST", "/things"),
        ("DELETE", "/things/x"),
        ("POST", "/graphql/nothing"),
    ],
)
async def test_too_many_parameters_are_400_on_every_service(
    api: Api, method: str, path: str
) -> None:
    body: Any = {} if method == "POST" else None
    fine = await api.send(method, f"{path}?{'&'.join(['x=1'] * 200)}", body)
    refused = await api.send(method, f"{path}?{'&'.join(['x=1'] * 201)}", body)
    garbled = await api.send(method, f"{path}?x=%ff", body)

    assert fine.status != 400
    assert refused.status == 400
    assert "more than 200 query parameters" in refused.text
    assert garbled.status == 400
