"""What `projectResponse` hides cannot be asked for: by no parameter, in no spelling, by no way."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from itertools import product
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest

from docgraph.codec.bson_types import Regex
from docgraph.exchange import Permission
from docgraph.exchange.errors import SecurityViolation
from docgraph.observe.events import AccessDenied
from docgraph.rest.handlers.aggregations import hide_properties
from tests.http.access_harness import (
    ADA,
    ADMIN,
    NOBODY,
    build_rule,
    ensure_rules,
    guarded,
)
from tests.http.harness import Reply, Service, listening
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

PEOPLE = (
    {"_id": "a", "name": "Ann", "email": "zoe@example.org", "home": {"city": "X", "street": "S1"}},
    {"_id": "b", "name": "Bob", "email": "max@example.org", "home": {"city": "Y", "street": "S2"}},
    {"_id": "c", "name": "Cid", "email": "amy@example.org", "home": {"city": "Z", "street": "S3"}},
)
SECRETS = ("example.org", "S1", "S2", "S3")
HIDES = {"email": 0, "home.street": 0}
KEEPS = {"_id": 1, "name": 1, "home.city": 1}
FLAGS = {"allowBulkPatch": True, "allowBulkDelete": True, "allowWriteMode": True}


@module_application
async def server(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Service]:
    loose = {"filterOperatorsBlacklist": {"enabled": False}}
    async with guarded(mongo_client, mongo_uri, loose) as one:
        yield one


@module_application
async def loose(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Service]:
    """Where callers may bring operators to aggregations."""
    unchecked = {"mongo": {"aggregation-check-operators": False}}
    async with guarded(mongo_client, mongo_uri, unchecked) as one:
        yield one


async def hide(server: Service, shown: dict[str, int], *roles: str) -> None:
    """The same people for every test, and a rule that hides a part of them."""
    people = server.mongo[server.db]["people"]
    if list(people.find()) != list(PEOPLE):  # the first test, or one before has written
        people.delete_many({})
        server.insert("people", *PEOPLE)
        people.create_index("email")
        people.create_index("name")
    callers = roles or ("$unauthenticated",)
    mongo = {"projectResponse": shown, **FLAGS}
    rule = build_rule("path-prefix('/people')", *callers, mongo=mongo, _id="hides")
    await ensure_rules(server, rule)


@pytest.fixture(scope="module", params=[HIDES, KEEPS], ids=["hides", "keeps"])
def part(request: pytest.FixtureRequest) -> dict[str, int]:
    """Of the module: tests with one rule come after each other, and it is written once."""
    shown: dict[str, int] = request.param
    return shown


@pytest.fixture
async def service(server: Service, part: dict[str, int]) -> Service:
    await hide(server, part)
    return server


def stored(service: Service) -> list[Any]:
    found = service.mongo[service.db]["people"].find({}, {"_etag": 0}).sort("_id")
    return list(found)


async def ask(service: Service, target: str, method: str = "GET", **others: Any) -> Reply:
    return await service.request(method, target, headers=others.pop("headers", NOBODY), **others)


def assert_untold(reply: Reply) -> None:
    """No header and no body says anything that is hidden, a token included."""
    link = reply.headers.get("link", "")
    token = parse_qs(urlsplit(link.partition(">")[0].lstrip("<")).query).get("after", [""])[0]
    told = urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    for secret in SECRETS:
        assert secret not in f"{reply.text} {link} {told}"


# --- what can be asked ----------------------------------------------------------------------------

ALLOWED = (
    "filter={'name':'Bob'}",
    "filter={'$or':[{'name':'Bob'},{'home.city':'Z'}]}",
    "filter={'_id':'a'}",
    "filter={'_id':{'$in':['a','b']}}",
    "sort=name",
    "sort=-name",
    "sort=- name",
    "sort={'name':1}&after=",
    "keys={'name':1}",
    "keys={'email':1,'home':1}",
    "keys={'email':0}",
    "hint={'$natural':1}",
    "hint=_id_",
    "page=1&pagesize=2&count=exact",
    "after=&pagesize=2",
    "count=estimated",
    "x=[{&sortby=[x",
)


@pytest.mark.parametrize("query", ALLOWED)
async def test_what_is_shown_can_be_asked_for(service: Service, query: str) -> None:
    reply = await ask(service, f"/people?{quote(query, safe='=&')}")
    assert reply.status == 200, reply.text
    assert reply.json
    assert_untold(reply)


# --- what cannot ----------------------------------------------------------------------------------

REFUSED_FILTERS = (
    "{'email':'amy@example.org'}",
    "{email:/^a/}",
    "{'email':{'$gt':'b'}}",
    "{'home.street':'S1'}",
    "{'home':{'city':'X','street':'S1'}}",
    "{'home.0.street':'S1'}",
    "{'$expr':{'$eq':['$email','amy@example.org']}}",
    "{'$expr':{'$eq':[{'$getField':'email'},'amy@example.org']}}",
    "{'$where':'this.email'}",
    "{'$jsonSchema':{'properties':{'email':{'pattern':'^a'}}}}",
    "{'$text':{'$search':'amy'}}",
    "{'$nor':[{'$or':[{'email':{'$regex':'^a'}}]}]}",
    "{'$and':[{'name':'Bob'},{'email':{'$exists':true}}]}",
)
# Each of them makes a reader other than that of the service stumble, or nothing at all.
DISTRACTIONS = ("", "&sort=[x", "&sort_by=[{", "&keys={'name':1}&sort=[{", "&filter={}", "&hint=[")


@pytest.mark.parametrize("filter", REFUSED_FILTERS)
async def test_a_filter_on_what_is_hidden_is_refused(service: Service, filter: str) -> None:
    for path, distraction in product(("/people", "/people/_size", "/people/a"), DISTRACTIONS):
        query = quote(f"filter={filter}{distraction}", safe="=&")
        for spelling in (query, query.replace("filter=", "f%69lter=")):
            reply = await ask(service, f"{path}?{spelling}")
            assert reply.status == 401 or (distraction and reply.status == 400), reply.text
            assert "amy" not in reply.text


REFUSED_QUERIES = (
    "keys={'x':'$email'}",
    "keys={'x':'$email'}&sort=[x",
    "keys={'x':'$email'}&sort_by=[{",
    "keys={'name':1}&keys={'x':'$email'}",
    "k%65ys={'x':'$email'}",
    "keys={x:'$email'}",
    "keys={'name':'$email'}",
    "keys={'_id':'$email'}",
    "keys={'x':{'$toUpper':'$email'}}",
    "keys={'x':{'y':'$email'}}",
    "keys={'x':['$email']}",
    "keys={'x':{'$slice':[['$email'],1]}}",
    "keys={'x':{'$slice':['$email',1]}}",
    "keys={'x':{'$literal':1}}",
    "keys={'x':'$$ROOT'}",
    "keys={'home':{'$elemMatch':{'street':'S1'}}}",
    "keys={'x':{'$meta':'indexKey'}}&hint={'email':1}",
    "sort=email",
    "sort=-email",
    "sort=%2Bemail",
    "sort=- email",
    "sort=- email&after=",
    "sort=-%09email&after=&pagesize=1",
    "sort= email&after=",
    "sort={'email':1}",
    "sort= {email:-1}&after=",
    "sort=name&sort=email",
    "sort=name&sort_by=email",
    "sort_by=email&after=",
    "s%6Frt=email",
    "sort=home",
    "sort=home.street",
    "sort=home.0.street",
    "sort={'name':{'$meta':'textScore'}}",
    "hint={'email':1}&sort={}",
    "hint=email_1&sort={}",
    "hint=-email",
    "hint= email",
    "hint={'name':1}&hint={'email':1}",
    "shardkey={'email':'amy@example.org'}",
    "shardkey={'email':'amy@example.org'}&sort=[x",
    "filter={'name':'Cid'}&filter={'email':/^a/}",
)


@pytest.mark.parametrize("query", REFUSED_QUERIES)
async def test_keys_orders_hints_and_shard_keys_on_it_are_refused(
    service: Service, query: str
) -> None:
    reply = await ask(service, f"/people?{quote(query, safe='=&%')}")
    assert reply.status == 401, reply.text
    assert_untold(reply)


@pytest.mark.parametrize("query", REFUSED_QUERIES)
async def test_nor_do_other_places_tell_it(service: Service, query: str) -> None:
    """A document has no order, a size no keys: there they say nothing, and tell nothing."""
    quoted = quote(query, safe="=&%")
    document = await ask(service, f"/people/c?{quoted}")
    if "sort" not in query.partition("=")[0] and "s%6Frt" not in query:
        assert document.status == 401, document.text
    for reply in (document, await ask(service, f"/people/_size?{quoted}")):
        assert_untold(reply)


@pytest.mark.parametrize(
    "query", ["keys={'x':'$email'}", "filter={'email':/^a/}", "sort=[x&keys={'x':'$email'}"]
)
@pytest.mark.parametrize("path", ["/people", "/people/c"])
async def test_head_tells_no_more_than_get(service: Service, path: str, query: str) -> None:
    reply = await ask(service, f"{path}?{quote(query, safe='=&')}", "HEAD")
    assert reply.status == 401


async def test_a_known_caller_is_forbidden_and_the_refusal_is_logged(server: Service) -> None:
    await hide(server, HIDES, "user")
    with listening(AccessDenied) as heard:
        reply = await ask(server, "/people?sort=email", headers=ADA)
    assert (reply.status, reply.json["message"]) == (403, "permission denied")
    assert [event.account for event in heard] == ["ada"]
    assert [event.reason for event in heard] == ["the request uses properties that the rule hides"]
    assert (
        await ask(server, "/people?" + urlencode({"sort": "email"}), headers=ADMIN)
    ).status == 200


# --- the count and its header ---------------------------------------------------------------------


async def test_counts_of_what_is_hidden_are_refused(service: Service) -> None:
    query = urlencode({"filter": '{"email": {"$regex": "^a"}}', "count": "exact", "pagesize": "0"})
    reply = await ask(service, f"/people?{query}")
    assert reply.status == 401
    assert "x-total-count" not in reply.headers


async def test_counts_of_what_is_shown_are_told(service: Service) -> None:
    query = urlencode({"filter": '{"name": {"$regex": "^[AB]"}}', "count": "exact"})
    assert (await ask(service, f"/people?{query}")).headers["x-total-count"] == "2"
    assert (await ask(service, f"/people/_size?{query}")).json == {"_size": 2}


# --- page tokens ----------------------------------------------------------------------------------


async def test_pages_lead_through_everything_that_is_shown(service: Service) -> None:
    target, seen = "/people?sort=name&after=&pagesize=1", []
    while target:
        reply = await ask(service, target)
        assert reply.status == 200, reply.text
        assert_untold(reply)
        seen += [one["name"] for one in reply.json]
        link = urlsplit(reply.headers.get("link", "").partition(">")[0].lstrip("<"))
        target = f"{link.path}?{link.query}" if link.path else ""
    assert seen == ["Ann", "Bob", "Cid"]


async def test_pages_by_values_of_every_type_use_nothing_hidden(
    server: Service,
) -> None:
    """Behind a regular expression the next page is asked for by `$expr`."""
    await hide(server, HIDES)
    people = server.mongo[server.db]["people"]
    people.delete_many({})
    values: list[Any] = [None, 1, "x", [], {"a": 1}, True]
    people.insert_many({"_id": place, "name": value} for place, value in enumerate(values))
    people.update_one({"_id": 5}, [{"$set": {"name": {"$literal": Regex("x")}}}])
    target, count = "/people?sort=name&after=&pagesize=1", 0
    while target:
        reply = await ask(server, target)
        assert reply.status == 200, reply.text
        count += len(reply.json)
        link = urlsplit(reply.headers.get("link", "").partition(">")[0].lstrip("<"))
        target = f"{link.path}?{link.query}" if link.path else ""
    assert count == len(values)


@pytest.mark.parametrize("shown", [{"name": 1}, {"_id": 0}])
async def test_a_hidden_id_is_not_in_a_token(server: Service, shown: dict[str, int]) -> None:
    await hide(server, shown)
    plain = await ask(server, "/people?pagesize=1")
    assert plain.status == 200
    assert "after" not in plain.headers["link"]
    assert (await ask(server, "/people?pagesize=1&after=")).status == 401
    assert (await ask(server, "/people?filter=" + quote('{"_id": {"$gt": "a"}}'))).status == 401
    assert (await ask(server, "/people?filter=" + quote('{"_id": "a"}'))).status == 200


# --- writes ---------------------------------------------------------------------------------------

FOUND_BY_HIDDEN = "{'email':'amy@example.org'}"


@pytest.mark.parametrize("distraction", ["", "&sort=[x", "&sort_by=[{", "&shardkey={'name':'Cid'}"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "/people/*", {"name": "x"}),
        ("DELETE", "/people/*", None),
        ("PATCH", "/people/c", {"name": "x"}),
        ("PUT", "/people/c", {"name": "x"}),
        ("DELETE", "/people/c", None),
        ("POST", "/people?wm=upsert", {"_id": "c", "name": "x"}),
        ("POST", "/people?wm=update", [{"_id": "c", "name": "x"}]),
    ],
)
async def test_writes_cannot_find_documents_by_it(
    service: Service, method: str, path: str, body: Any, distraction: str
) -> None:
    query = quote(f"filter={FOUND_BY_HIDDEN}{distraction}", safe="=&")
    target = f"{path}{'&' if '?' in path else '?'}{query}"
    before = stored(service)
    reply = await ask(service, target, method, **({} if body is None else {"json": body}))
    assert reply.status == 401, reply.text
    assert stored(service) == before


@pytest.mark.parametrize(
    "body",
    [
        {"$rename": {"email": "name"}},
        {"$rename": {"home": "name"}},
        {"name": "x", "$rename": {"home.street": "name2"}},
        {"$max": {"home": {"city": "X", "street": "S2"}}},
        [{"$set": {"name": "$email"}}],
        [{"$addFields": {"name": {"$concat": ["$email"]}}}],
        [{"$replaceWith": {"name": "$email"}}],
        [{"$unset": "x"}],
    ],
)
async def test_updates_cannot_copy_it_to_where_it_is_shown(service: Service, body: Any) -> None:
    before = stored(service)
    reply = await ask(service, "/people/c", "PATCH", json=body)
    assert (reply.status, reply.json["code"]) == (403, "security-violation")
    assert stored(service) == before


async def test_nor_where_documents_are_checked_whole(server: Service) -> None:
    """With a schema the update is applied in memory, and the database sees a replacement."""
    await hide(server, HIDES)
    schema = {
        "_id": "person",
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
    }
    assert (await ask(server, "/_schemas", "PUT", headers=ADMIN)).status in (200, 201)
    posted = await ask(server, "/_schemas", "POST", headers=ADMIN, json=schema)
    assert posted.status == 201, posted.text
    meta = {"jsonSchema": {"schemaId": "person"}}
    assert (await ask(server, "/people", "PUT", headers=ADMIN, json=meta)).status == 200
    try:
        before = stored(server)
        moved = await ask(server, "/people/c", "PATCH", json={"$rename": {"email": "name"}})
        assert (moved.status, moved.json["code"]) == (403, "security-violation")
        for value in ("amy@example.org", "nobody"):
            query = urlencode({"filter": f'{{"email": "{value}"}}'})
            found = await ask(server, f"/people/c?{query}", "PATCH", json={"x": 1})
            assert found.status == 401
        assert stored(server) == before
        assert (await ask(server, "/people/c", "PATCH", json={"name": "Cyd"})).status == 200
    finally:
        await ask(server, "/people", "PUT", headers=ADMIN, json={})


@pytest.mark.parametrize("method", ["PATCH", "PUT", "POST"])
async def test_a_refused_representation_leaves_the_document_as_it_is(
    service: Service, method: str
) -> None:
    before = stored(service)
    path = "/people" if method == "POST" else "/people/c"
    query = urlencode({"wm": "upsert", "keys": '{"x": "$email"}'})
    headers = {"Prefer": "return=representation"}
    body = {"_id": "c", "name": "x"}
    reply = await ask(service, f"{path}?{query}", method, headers=headers, json=body)
    assert reply.status == 401, reply.text
    assert stored(service) == before


async def test_writes_with_the_etag_of_a_document_go_on(server: Service) -> None:
    """Its condition is a part of the filter, and the etag need not be shown."""
    await hide(server, {"name": 1})
    etag = (await ask(server, "/people/c", "PATCH", json={"name": "Cyd"})).headers["etag"]
    for tag, status in (("0" * 24, 412), (etag, 200)):
        headers = {"If-Match": tag}
        reply = await ask(server, "/people/c", "PATCH", json={"name": "x"}, headers=headers)
        assert reply.status == status


async def test_hidden_properties_can_be_written(service: Service) -> None:
    body = {"email": "new@x.org", "$inc": {"visits": 1}}
    assert (await ask(service, "/people/c", "PATCH", json=body)).status == 200
    assert stored(service)[2]["email"] == "new@x.org"


# --- stored aggregations --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stages", "avars"),
    [
        ([{"$match": {"$var": "f"}}], {"f": {"email": "amy@example.org"}}),
        ([{"$group": {"_id": {"$var": "f"}}}], {"f": "$email"}),
        (
            [{"$sort": {"email": 1}}, {"$limit": 1}, {"$project": {"x": {"$var": "f"}}}],
            {"f": "$email"},
        ),
    ],
)
async def test_variables_of_the_caller_open_no_aggregation(
    service: Service, stages: Any, avars: Any
) -> None:
    meta = {"aggrs": [{"uri": "x", "stages": stages}]}
    assert (await ask(service, "/people", "PUT", headers=ADMIN, json=meta)).status == 200
    query = urlencode({"avars": json.dumps(avars)})
    reply = await ask(service, f"/people/_aggrs/x?{query}")
    assert reply.status == 200, reply.text
    assert_untold(reply)
    assert "Cid" not in reply.text


TEXT = {"$text": {"$search": "Ann Bob Cid"}}


@pytest.mark.parametrize(
    ("first", "avars", "status"),
    [
        ({"$and": [TEXT, {"$var": "f"}]}, {"f": {"email": "amy@example.org"}}, 403),
        ({"$and": [TEXT, {"$var": "f"}]}, {"f": {"name": "Cid"}}, 200),
        ({"$var": "f"}, {"f": {**TEXT, "email": "amy@example.org"}}, 403),
        ({"$var": "f"}, {"f": TEXT}, 403),
        (TEXT, {}, 200),
    ],
)
async def test_nor_does_a_stage_that_has_to_be_the_first(
    loose: Service, first: Any, avars: Any, status: int
) -> None:
    """A text index may hold everything: the author may search it, the caller brings no search."""
    await hide(loose, HIDES)
    loose.mongo[loose.db]["people"].create_index([("name", "text")])
    meta = {"aggrs": [{"uri": "x", "stages": [{"$match": first}]}]}
    assert (await ask(loose, "/people", "PUT", headers=ADMIN, json=meta)).status in (200, 201)
    reply = await ask(loose, f"/people/_aggrs/x?{urlencode({'avars': json.dumps(avars)})}")
    assert reply.status == status, reply.text
    assert_untold(reply)


WORDS: Any = {"$text": {"$search": {"$var": "q"}}}


@pytest.mark.parametrize(
    "shown", [HIDES, KEEPS, {"name": 1}], ids=["hides", "keeps", "name"], scope="module"
)
@pytest.mark.parametrize(
    ("keys", "status"),
    [
        (["name"], 200),
        (["name", "email"], 403),
        (["home.street"], 403),
        (["home"], 403),
        (["$**"], 403),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "stages",
    [
        [{"$match": WORDS}],
        [{"$match": {"$and": [{"name": "Cid"}, WORDS]}}],
        [{"$lookup": {"from": "people", "pipeline": [{"$match": WORDS}], "as": "x"}}],
        [{"$ifvar": ["q", {"$match": WORDS}]}],
    ],
    ids=["plain", "and", "join", "optional"],
)
async def test_words_of_a_caller_search_only_what_is_shown(
    server: Service, stages: Any, keys: list[str], status: int, shown: dict[str, int]
) -> None:
    """Who chooses the words finds out what a hidden property says, one word after another."""
    await hide(server, shown)
    people = server.mongo[server.db]["people"]
    people.drop_indexes()
    people.create_index([(key, "text") for key in keys])
    try:
        meta = {"aggrs": [{"uri": "x", "stages": stages}]}
        assert (await ask(server, "/people", "PUT", headers=ADMIN, json=meta)).status == 200
        for word in ("amy@example.org", "nobody"):
            query = urlencode({"avars": json.dumps({"q": word})})
            reply = await ask(server, f"/people/_aggrs/x?{query}")
            assert reply.status == status, reply.text
            assert_untold(reply)
    finally:
        people.drop_indexes()


@pytest.mark.parametrize(
    ("body", "is_refused"),
    [
        ({"text": {"path": "name", "query": "x"}}, False),
        ({"text": {"path": ["name", "home.city"], "query": "x"}}, False),
        ({"compound": {"must": [{"text": {"path": {"value": "name"}, "query": "x"}}]}}, False),
        ({"text": {"path": "email", "query": "x"}}, True),
        ({"text": {"path": ["name", "email"], "query": "x"}}, True),
        ({"compound": {"should": [{"exists": {"path": "home.street"}}]}}, True),
        ({"text": {"path": {"wildcard": "*"}, "query": "x"}}, True),
        ({"queryString": {"defaultPath": "name", "query": "email:x"}}, True),
        ({"moreLikeThis": {"like": {"email": "x"}}}, True),
        ({}, True),
    ],
    ids=str,
)
@pytest.mark.parametrize("shown", [HIDES, KEEPS], ids=["hides", "keeps"])
def test_a_search_of_hidden_paths_is_refused(
    shown: dict[str, int], body: Any, is_refused: bool
) -> None:
    """The embedded database has no such searches; what is refused is known without it."""
    permission = Permission("r", namespace="db.people", project_response=shown)
    for stage in ("$search", "$searchMeta", "$vectorSearch"):
        stages = [{stage: body}]
        if is_refused:
            with pytest.raises(SecurityViolation):
                hide_properties(stages, permission, "db.people")
        else:
            assert hide_properties(stages, permission, "db.people")[0] == stages[0]
