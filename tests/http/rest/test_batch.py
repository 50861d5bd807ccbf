"""`POST /_batch`: requests for documents in one transaction, each as if it came alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest
from pymongo.asynchronous.client_session import AsyncClientSession

from docgraph.codec.bson_types import ObjectId
from docgraph.exchange import DataRequest, Exchange, Resource, Write
from docgraph.exchange.errors import RequestError
from docgraph.observe.engine_events import CommandFinished
from docgraph.observe.events import RequestFinished
from docgraph.plugins.kinds import DataInterceptor
from docgraph.rest.service import MongoService
from docgraph.server.services import batch
from docgraph.store import writes
from docgraph.store.driver.client import DriverClient
from tests.http.batches import answers_of, entry, failed_entry
from tests.http.harness import Document, Mongo, Reply, failing, listening
from tests.http.hosts import module_application
from tests.http.rest_harness import BY_HOST, Api, own_database, serving

pytestmark = pytest.mark.anyio

WRITE_CONFLICT = 112
TRANSIENT = {"errorLabels": ["TransientTransactionError"]}


async def send(api: Api, *entries: Any, **others: Any) -> Reply:
    return await api.post("/_batch", list(entries), **others)


def ids(api: Api) -> list[Any]:
    return [one["_id"] for one in api.things.find(sort=[("_id", 1)])]


# --- what it does ---------------------------------------------------------------------------------


async def test_entries_are_answered_in_order_and_see_what_those_before_have_written(
    api: Api,
) -> None:
    answers = answers_of(
        await send(
            api,
            entry("PUT", "/things/a?wm=upsert", {"n": 1}),
            entry("PATCH", "/things/a", {"$inc": {"n": 4}}),
            entry("GET", "/things/a"),
            entry("POST", "/things", {"_id": "b", "n": 2}),
            entry("DELETE", "/things/a"),
        )
    )

    assert [one["status"] for one in answers] == [201, 200, 200, 201, 204]
    assert answers[2]["body"]["n"] == 5
    assert answers[2]["headers"]["ETag"] == answers[1]["headers"]["ETag"]
    assert answers[2]["headers"]["Content-Type"] == "application/json"
    assert answers[3]["headers"]["Location"].endswith("/things/b")
    assert "body" not in answers[4]
    assert ids(api) == ["b"]


async def test_arrays_and_filters_work_as_they_do_alone(api: Api) -> None:
    answers = answers_of(
        await send(
            api,
            entry(
                "POST", "/things", [{"_id": 1, "n": 1}, {"_id": "two", "n": 2}, {"_id": 3, "n": 9}]
            ),
            entry("PATCH", '/things/*?filter={"n":{"$lt":5}}', {"small": True}),
            entry("DELETE", '/things/*?filter={"n":9}'),
            entry("GET", '/things/two?keys={"small":1}'),
        )
    )

    assert answers[0]["body"]["inserted"] == 3
    assert answers[1]["body"]["modified"] == 2
    assert answers[2]["body"]["deleted"] == 1
    assert answers[3]["body"] == {"_id": "two", "small": True}


async def test_values_keep_their_types(api: Api) -> None:
    """Extended JSON and the notation of the shell, as in the body of a single request."""
    key = ObjectId()
    raw = (
        f"[{{method: 'POST', path: '/things', body: {{_id: ObjectId('{key}'), n: NumberLong(7)}}}}]"
    )

    answers_of(await api.post("/_batch", raw))

    assert api.things.find_one({"_id": key, "n": {"$type": "long"}})


async def test_the_same_document_can_be_written_many_times(api: Api) -> None:
    entries = [entry("PATCH", "/things/a?wm=upsert", {"$inc": {"n": 1}}) for _ in range(50)]

    answers_of(await send(api, *entries, entry("GET", "/things/a")))

    assert api.things.find_one({"_id": "a"})["n"] == 50


async def test_one_line_of_the_log_says_how_many_entries_there_were(api: Api) -> None:
    with listening(RequestFinished) as lines:
        await send(api, entry("GET", "/things/none"), entry("GET", "/things/none"))

    (line,) = [one for one in lines if one.path == "/_batch"]
    assert (line.entries, line.service, line.error) == (2, "batch", "not-found")


async def test_the_commands_of_a_batch_are_told_like_others(api: Api) -> None:
    with listening(CommandFinished) as commands:
        await send(api, entry("POST", "/things", {"_id": "a"}), entry("GET", "/things/a"))

    told = [(one.command, one.collection, one.documents) for one in commands]
    assert ("find", "things", 1) in told
    assert [one[1] for one in told if one[0] == "commitTransaction"] == [""]


# --- all or nothing -------------------------------------------------------------------------------

FAILURES: dict[str, tuple[Document, int, str]] = {
    "missing document": (entry("GET", "/things/none"), 404, "not-found"),
    "missing collection": (entry("PUT", "/nothing/x?wm=upsert", {}), 404, "not-found"),
    "duplicate": (entry("POST", "/things?wm=insert", {"_id": "old"}), 409, "conflict"),
    "duplicate in an array": (
        entry("POST", "/things?wm=insert", [{"_id": "x"}, {"_id": "old"}]),
        409,
        "conflict",
    ),
    "other etag": (
        entry("PUT", "/things/old", {}, if_match=str(ObjectId())),
        412,
        "precondition-failed",
    ),
    "existing": (
        entry("PUT", "/things/old?wm=upsert", {}, if_none_match="*"),
        412,
        "precondition-failed",
    ),
    "wrong operator": (entry("PATCH", "/things/old", {"$nope": {"a": 1}}), 400, ""),
    "wrong value": (entry("PATCH", "/things/old", {"$inc": {"name": 1}}), 400, ""),
    "wrong parameter": (entry("GET", "/things/old?filter={"), 400, "bad-request"),
    "no document": (entry("PUT", "/things/old", "text"), 400, "bad-request"),
}


@pytest.mark.parametrize("failing_entry", list(FAILURES))
async def test_the_first_entry_that_fails_undoes_all_and_is_named(
    api: Api, failing_entry: str
) -> None:
    api.things.insert_one({"_id": "old", "name": "x", "_etag": ObjectId()})
    bad, status, code = FAILURES[failing_entry]

    reply = await send(
        api,
        entry("POST", "/things", {"_id": "new"}),
        entry("GET", "/things/new"),
        bad,
        entry("PUT", "/things/later?wm=upsert", {}),
    )

    assert (reply.status, failed_entry(reply)) == (status, 2), reply.text
    assert reply.json["entry"] == {"index": 2, "method": bad["method"], "path": bad["path"]}
    assert reply.json["message"].startswith(f"entry 2 ({bad['method']} ")
    assert code in ("", reply.json["code"])
    assert ids(api) == ["old"]


async def test_a_document_of_an_array_that_is_not_there_undoes_the_batch(api: Api) -> None:
    api.things.insert_one({"_id": "old"})
    update = entry("POST", "/things?wm=update", [{"_id": "old", "n": 1}, {"_id": "none"}])

    reply = await send(api, update)

    assert (reply.status, failed_entry(reply)) == (404, 0), reply.text
    assert "document at index 1: document does not exist" in reply.json["message"]
    assert [one["index"] for one in reply.json["details"]] == [1]
    assert api.things.find_one({"_id": "old"}) == {"_id": "old"}


async def test_what_an_entry_before_has_made_collides_too(api: Api) -> None:
    reply = await send(
        api,
        entry("POST", "/things?wm=insert", {"_id": 1}),
        entry("POST", "/things?wm=insert", {"_id": 1}),
    )

    assert (reply.status, failed_entry(reply)) == (409, 1)
    assert ids(api) == []


async def test_a_condition_is_about_what_an_entry_before_has_made(api: Api) -> None:
    put = entry("PUT", "/things/a?wm=upsert", {}, if_none_match="*")
    post = entry("POST", "/things?wm=insert", {"_id": "a"}, if_none_match="*")

    for again in (put, post):
        reply = await send(api, put, again)
        assert (reply.status, failed_entry(reply)) == (412, 1), reply.text


async def test_the_answer_to_a_failed_condition_has_the_etag_that_is_stored(api: Api) -> None:
    etag = ObjectId()
    api.things.insert_one({"_id": "1", "_etag": etag})

    reply = await send(api, entry("DELETE", "/things/1", if_match=str(ObjectId())))

    assert (reply.status, reply.headers["etag"]) == (412, str(etag))


async def test_a_condition_is_about_the_version_that_an_entry_before_has_left(api: Api) -> None:
    etag = ObjectId()
    api.things.insert_one({"_id": "1", "_etag": etag})
    again = entry("PATCH", "/things/1", {"n": 1}, if_match=str(etag))

    assert (await send(api, again)).status == 200
    api.things.update_one({"_id": "1"}, {"$set": {"_etag": etag, "n": 0}})
    reply = await send(api, again, again)

    assert (reply.status, failed_entry(reply)) == (412, 1)
    assert api.things.find_one({"_id": "1"})["n"] == 0


async def test_documents_are_checked_against_the_schema_of_their_collection(api: Api) -> None:
    await api.put("/_schemas")
    schema = {"type": "object", "properties": {"n": {"type": "number"}}}
    assert (await api.put("/_schemas/thing", schema, wm="upsert")).status == 201
    assert (await api.patch("/things", {"jsonSchema": {"schemaId": "thing"}})).status == 200
    api.things.insert_one({"_id": "old", "n": 1})

    for bad in (
        entry("POST", "/things", {"n": "text"}),
        entry("PATCH", "/things/old", {"n": "text"}),
        entry("PATCH", "/things/new", {"n": "text"}),
        entry("PATCH", "/things/*?filter={}", {"n": 2}),
    ):
        reply = await send(api, entry("POST", "/things", {"_id": "new", "n": 1}), bad)
        assert failed_entry(reply) == 1, reply.text
    answers_of(
        await send(
            api,
            entry("POST", "/things", {"_id": "new", "n": 1}),
            entry("PATCH", "/things/new", {"n": 5}),
            entry("PATCH", "/things/other?wm=upsert", {"n": 6}),
        )
    )

    assert {one["_id"]: one["n"] for one in api.things.find()} == {"old": 1, "new": 5, "other": 6}


# --- what is no batch -----------------------------------------------------------------------------


async def test_a_thousand_entries_are_a_batch_and_one_more_is_none(api: Api) -> None:
    entries = [entry("POST", "/things", {"_id": f"{number:04}"}) for number in range(1001)]

    reply = await send(api, *entries)
    assert (reply.status, reply.json["code"]) == (413, "body-too-large")
    assert "1001 entries, 1000 are allowed" in reply.json["message"]
    answers = answers_of(await send(api, *entries[:1000]))

    written = [one["headers"]["Location"].rpartition("/")[2] for one in answers]
    assert written == ids(api) == [f"{number:04}" for number in range(1000)]


NO_BATCHES: dict[str, tuple[Any, str]] = {
    "object": ({"method": "GET", "path": "/things/1"}, "an array"),
    "empty": ([], "no entries"),
    "text": (["GET /"], "entry 0: it is not an object"),
    "unknown key": ([{**entry("GET", "/things/1"), "verb": 1}], "entry 0: unknown key 'verb'"),
    "no method": ([{"path": "/things/1"}], "entry 0: 'method'"),
    "small letters": ([entry("get", "/things/1")], "entry 0: 'method'"),
    "HEAD": ([entry("HEAD", "/things/1")], "entry 0: 'method'"),
    "OPTIONS": ([entry("OPTIONS", "/things/1")], "entry 0: 'method'"),
    "method of a list": ([{"method": ["GET"], "path": "/things/1"}], "entry 0: 'method'"),
    "no path": ([{"method": "GET"}], "entry 0: 'path'"),
    "relative": ([entry("GET", "things/1")], "entry 0: 'path'"),
    "absolute": ([entry("GET", "http://other/things/1")], "entry 0: 'path'"),
    "fragment": ([entry("GET", "/things/1#x")], "entry 0: 'path'"),
    "space": ([entry("GET", "/things/1 HTTP/1.1")], "entry 0: 'path'"),
    "line break": ([entry("GET", "/things/1\r\nX: y")], "entry 0: 'path'"),
    "not encoded": ([entry("GET", "/things/é")], "entry 0: 'path'"),
    "long": ([entry("GET", "/things/" + "x" * 8200)], "entry 0: 'path' is longer"),
    "bad UTF-8": ([entry("GET", "/things/%ff")], "entry 0 (GET /things/%ff): the path"),
    "NUL": ([entry("GET", "/things/%00")], "entry 0 (GET /things/%00): the path"),
    "headers": ([{**entry("GET", "/things/1"), "headers": []}], "entry 0: 'headers'"),
    "number": ([{**entry("GET", "/things/1"), "headers": {"If-Match": 1}}], "'If-Match'"),
    "breaking header": ([entry("GET", "/things/1", if_match="a\r\nHost: b")], "'if-match'"),
    "header twice": (
        [{**entry("GET", "/things/1"), "headers": {"If-Match": "a", "if-match": "b"}}],
        "'if-match' appears twice",
    ),
    "form": (
        [entry("PUT", "/things/1", {}, content_type="application/x-www-form-urlencoded")],
        "entry 0: the body of an entry is application/json",
    ),
    "the second": ([entry("GET", "/things/1"), 7], "entry 1: it is not an object"),
    "concern": ([entry("PUT", "/things/1?writeConcern=w1", {})], "writeConcern are not for"),
    "preference": ([entry("GET", "/things/1?readPreference=nearest")], "are not for an entry"),
    "shell": ([entry("GET", "/things/1?jsonMode=shell")], "jsonMode=shell"),
}


@pytest.mark.parametrize("case", list(NO_BATCHES))
async def test_what_cannot_be_an_entry_is_refused_with_its_place(api: Api, case: str) -> None:
    api.things.insert_one({"_id": 1})
    content, message = NO_BATCHES[case]

    reply = await api.post("/_batch", content)

    assert reply.status == 400, reply.text
    assert message in reply.json["message"]


@pytest.mark.parametrize(
    "name",
    [
        "Authorization", "Cookie", "Host", "X-Forwarded-For", "Forwarded", "Content-Length",
        "Transfer-Encoding", "Origin", "Connection", "X-HTTP-Method-Override", "Content-Encoding",
        "Expect", "Upgrade", "X-Caller", "Sec-Fetch-Site",
    ],
)  # fmt: skip
async def test_an_entry_cannot_say_who_is_calling_or_how(api: Api, name: str) -> None:
    one = {**entry("GET", "/things/1"), "headers": {name: "x"}}

    reply = await send(api, entry("POST", "/things", {}), one)

    assert (reply.status, failed_entry(reply)) == (400, 1)
    assert f"the header '{name}' is not for an entry" in reply.json["message"]
    assert ids(api) == []


async def test_a_key_that_stands_twice_is_refused(api: Api) -> None:
    raw = '[{"method": "GET", "path": "/things/1", "path": "/things/2"}]'

    reply = await api.post("/_batch", raw)

    assert (reply.status, reply.json["code"]) == (400, "malformed-body")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "image/png"])
async def test_a_batch_is_json(api: Api, kind: str) -> None:
    """Pages of others can send nothing else without asking first."""
    content = b'[{"method": "POST", "path": "/things", "body": {}}]'

    reply = await api.post("/_batch", content, headers={"content-type": kind})

    assert reply.status == 415
    assert ids(api) == []


OTHERS = [
    ("GET", "/"), ("GET", "/things"), ("PUT", "/things"), ("PATCH", "/things"),
    ("DELETE", "/things"), ("PUT", "/other"), ("GET", "/_size"), ("GET", "/things/_size"),
    ("GET", "/things/_meta"), ("GET", "/things/_indexes"), ("PUT", "/things/_indexes/a"),
    ("GET", "/things/_aggrs/x"), ("GET", "/things/_streams/x"), ("GET", "/_schemas"),
    ("PUT", "/_schemas/x"), ("POST", "/_batch"), ("POST", "//_batch/"), ("POST", "/%5Fbatch"),
    ("POST", "/things/../_batch"), ("POST", "/things/%2e%2e/_batch"), ("POST", "/token"),
    ("POST", "/logout"), ("POST", "/graphql/x"), ("GET", "/ping"), ("GET", "/metrics"),
    ("POST", "/mcp"), ("GET", "/_tools/check"), ("GET", "/openapi.json"), ("GET", "/roles/me"),
    ("GET", "/health/db"), ("POST", "/things/a"), ("PUT", "/things/*"), ("GET", "/things/*"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), OTHERS)
async def test_only_requests_for_documents_are_taken(api: Api, method: str, path: str) -> None:
    one = entry(method, path, {} if method in ("PUT", "POST", "PATCH") else None)

    reply = await send(api, entry("POST", "/things", {"_id": 1}), one)

    assert reply.status in (400, 404, 405), reply.text
    assert failed_entry(reply) == 1
    assert ids(api) == []
    assert api.mongo[api.db].list_collection_names() == ["things"]


@pytest.mark.parametrize("path", ["/_properties/x", "/system.views/x", "/a.chunks/x"])
async def test_reserved_collections_stay_reserved(api: Api, path: str) -> None:
    reply = await send(api, entry("PUT", f"{path}?wm=upsert", {}))

    assert (reply.status, failed_entry(reply)) == (403, 0)


async def test_a_slash_that_is_encoded_is_a_part_of_the_id(api: Api) -> None:
    answers_of(await send(api, entry("PUT", "//things//a%2Fb?wm=upsert", {})))

    assert ids(api) == ["a/b"]


async def test_nothing_but_post_is_answered(api: Api) -> None:
    assert (await api.get("/_batch")).status == 405
    assert (await api.put("/_batch", {})).status == 405


async def test_a_capped_collection_says_that_it_takes_no_transactions(api: Api) -> None:
    api.mongo[api.db].create_collection("ring", capped=True, size=4096)

    reply = await send(api, entry("POST", "/ring", {"_id": 1}))

    assert (reply.status, failed_entry(reply)) == (400, 0)
    assert "transaction" in reply.json["message"]


# --- faults ---------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "_FIRST_PAUSE", 0.0)


async def test_a_conflict_with_another_writer_leads_to_another_try(api: Api, quick: None) -> None:
    failure = {"errorCode": WRITE_CONFLICT, **TRANSIENT}
    with failing(api.mongo, "update", mode={"times": 2}, **failure):
        reply = await send(
            api,
            entry("POST", "/things", {"_id": "1"}),
            entry("PATCH", "/things/1", {"n": 1}),
        )

    assert [one["status"] for one in answers_of(reply)] == [201, 200]
    assert ids(api) == ["1"]


class SessionTaker(DataInterceptor):
    """Takes a session of the pool before every write, as any other request might, and keeps it."""

    name: ClassVar[str] = "session-taker"

    def __init__(self, client: DriverClient) -> None:
        self._client = client
        self.taken: list[AsyncClientSession] = []

    def resolve(self, resource: Resource) -> bool:
        return resource.collection == "things"

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        self.taken.append(self._client.start_session())
        await self._client.admin.command("ping", session=self.taken[-1])
        return write

    async def give_back(self) -> None:
        for one in self.taken:
            await one.end_session()


async def test_a_try_that_failed_at_its_commit_does_not_conflict_with_the_next(api: Api) -> None:
    """Its transaction is still open if the commit did not reach it, with what it has written."""
    store = api.service.app.store
    taker, interceptors = SessionTaker(store.client), store.interceptors
    interceptors.install([taker])
    failure = {"errorCode": WRITE_CONFLICT, **TRANSIENT}
    try:
        with failing(api.mongo, "commitTransaction", mode={"times": 2}, **failure):
            reply = await send(api, entry("POST", "/things", {"_id": "1"}))
    finally:
        interceptors._installed.remove(taker)
        interceptors.install([])
        await api.service.there(taker.give_back())

    assert [one["status"] for one in answers_of(reply)] == [201]
    assert len(taker.taken) == 3


CONFLICT: Document = {"errorCode": WRITE_CONFLICT, **TRANSIENT}
CONFLICTING = (entry("POST", "/things", {"_id": "1"}), entry("PATCH", "/things/1", {"n": 1}))


async def test_conflicts_are_tried_again_more_often_than_other_failures(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writes, "_LONGEST_PAUSE", 0.02)
    with failing(api.mongo, "update", mode={"times": writes._TRIES + 2}, **CONFLICT):
        answers_of(await send(api, *CONFLICTING))

    assert [one["n"] for one in api.things.find()] == [1]


async def test_conflicts_are_tried_again_until_the_deadline(hasty_server: Api) -> None:
    with own_database(hasty_server) as api, failing(api.mongo, "update", **CONFLICT):
        reply = await send(api, *CONFLICTING)

        # On a busy machine the time may be up in the middle of a try.
        assert reply.status in (408, 409)
        if reply.status == 409:
            assert (failed_entry(reply), reply.json["hint"]) == (1, "try again")
        assert ids(api) == []


async def test_batches_that_change_the_same_documents_all_get_through(api: Api) -> None:
    api.things.insert_many([{"_id": "1", "n": 0}, {"_id": "2", "n": 0}])
    first = [entry("PATCH", f"/things/{id}", {"$inc": {"n": 1}}) for id in (1, 2)]
    replies = await asyncio.gather(
        *(send(api, *order) for order in (first, first[::-1], first, first[::-1]))
    )

    assert [reply.status for reply in replies] == [200] * 4
    assert [one["n"] for one in api.things.find()] == [4, 4]


async def test_a_commit_whose_outcome_nobody_tells_is_told_as_that(api: Api) -> None:
    failure = {
        "errorCode": 50,
        "errorLabels": ["UnknownTransactionCommitResult"],
    }
    with failing(api.mongo, "commitTransaction", **failure):
        reply = await send(api, entry("POST", "/things", {"_id": 1}))

    assert (reply.status, reply.json["code"]) == (500, "outcome-unknown")


async def test_a_commit_that_is_answered_late_is_asked_for_again(api: Api) -> None:
    failure = {"errorCode": 50, "errorLabels": ["UnknownTransactionCommitResult"]}
    with failing(api.mongo, "commitTransaction", mode={"times": 1}, **failure):
        answers_of(await send(api, entry("POST", "/things", {"_id": 1})))

    assert ids(api) == [1]


async def test_a_collection_that_was_made_anew_is_found(api: Api) -> None:
    """What is remembered of the old one is forgotten, and the batch begins anew."""
    assert (await api.post("/things", {"_id": 0})).status == 201
    api.things.drop()
    api.mongo[api.db].create_collection("things")

    answers_of(await send(api, entry("POST", "/things", {"_id": 1})))
    api.things.drop()
    reply = await send(api, entry("POST", "/things", {"_id": 1}))

    assert (reply.status, failed_entry(reply)) == (404, 0)


@module_application
async def hasty_server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Api]:
    """Nothing but what takes longer, on any machine, is asked of it."""
    hurry = {"batch": {"time-limit": 1500}}
    async with serving(mongo_client, mongo_uri, hurry, mounts=BY_HOST) as server:
        yield server


async def test_a_batch_whose_time_is_up_has_written_nothing(hasty_server: Api) -> None:
    slow = {"blockConnection": True, "blockTimeMS": 400}
    with own_database(hasty_server) as api, failing(api.mongo, "insert", **slow):
        entries = [entry("POST", "/things", {"_id": number}) for number in range(30)]
        reply = await send(api, *entries)

        assert (reply.status, reply.json["code"]) == (408, "time-limit-exceeded")
        assert ids(api) == []


async def test_a_body_is_as_long_as_it_was_sent(mongo_client: Mongo, mongo_uri: str) -> None:
    """Written anew, numbers may be longer; that is no reason to refuse them."""
    numbers = ",".join(["1e9"] * 10_000)
    raw = f'[{{"method": "POST", "path": "/things", "body": {{"_id": 1, "n": [{numbers}]}}}}]'
    async with serving(mongo_client, mongo_uri, {"mongo": {"max-body-size": 50_000}}) as api:
        answers_of(await api.post("/_batch", raw))
        longer = await api.post("/_batch", raw.replace("1e9", "1e009"))

        assert ids(api) == [1]
        assert (longer.status, longer.json["code"]) == (413, "body-too-large")


async def test_every_byte_of_the_response_counts_in_its_bound(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those around the answers."""
    api.things.insert_one({"_id": "1", "text": '"\n' * 50})
    entries = [entry("GET", "/things/1") for _ in range(3)]
    size = len((await send(api, *entries)).text)

    monkeypatch.setattr(batch, "_MAX_BYTES", size)
    assert answers_of(await send(api, *entries))

    monkeypatch.setattr(batch, "_MAX_BYTES", size - 1)
    longer = await send(api, *entries)
    assert (longer.status, longer.json["code"]) == (400, "answer-too-large")


async def test_large_answers_together_have_a_bound(api: Api) -> None:
    api.things.insert_one({"_id": "1", "text": "x" * (4 << 20)})
    reply = await send(
        api,
        entry("POST", "/things", {"_id": 2}),
        *[entry("GET", "/things/1") for _ in range(9)],
    )

    assert (reply.status, reply.json["code"], failed_entry(reply)) == (400, "answer-too-large", 8)
    assert ids(api) == ["1"]


async def test_an_entry_that_the_rest_api_cannot_read_is_refused_with_its_own_words(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reject(service: MongoService, exchange: Exchange) -> DataRequest:
        raise RequestError("nobody can read this")

    monkeypatch.setattr(MongoService, "parse", reject)
    reply = await send(api, entry("GET", "/things/a"))

    assert (reply.status, failed_entry(reply)) == (400, 0)
    assert "nobody can read this" in reply.text


# --- limits for callers ---------------------------------------------------------------------------

LIMITS: Document = {
    "core": {"trusted-proxies": ["127.0.0.1"]},
    "caller-limits": {
        "enabled": True,
        "limits": [
            {"name": "any", "per": "address", "requests-per-second": 1, "burst": 8},
            {
                "name": "guests",
                "per": "address",
                "role": "$unauthenticated",
                "requests-per-second": 0.5,
                "burst": 6,
                "concurrent": 1,
            },
        ],
    },
}


@module_application
async def limited_server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Api]:
    async with serving(mongo_client, mongo_uri, LIMITS, mounts=BY_HOST) as server:
        limiter = server.service.app._pipeline._limiter
        limiter.buckets._clock = lambda: 1000.0  # no bucket fills meanwhile
        yield server


async def send_inserts(api: Api, number: int, address: str) -> Reply:
    first = api.things.count_documents({})
    inserts = [entry("POST", "/things", {"_id": first + one}) for one in range(number)]
    return await send(api, *inserts, headers={"x-forwarded-for": address})


async def test_a_batch_counts_as_many_requests_as_it_has_entries(limited_server: Api) -> None:
    with own_database(limited_server) as api:
        replies = [await send_inserts(api, number, "192.0.2.1") for number in (1, 3, 2, 1)]

        assert [reply.status for reply in replies] == [200, 200, 200, 429]
        assert [reply.headers["ratelimit"] for reply in replies] == [
            '"guests";r=5;t=2',
            '"guests";r=2;t=8',
            '"guests";r=0;t=12',
            '"guests";r=0;t=2',
        ]
        assert replies[1].headers["ratelimit-policy"] == (
            '"any";q=8;w=8, "guests";q=6;w=12, "guests-concurrent";q=1;qu="concurrent-requests"'
        )
        assert len(ids(api)) == 6


async def test_a_batch_above_what_is_left_is_refused_before_anything_is_done(
    limited_server: Api,
) -> None:
    with own_database(limited_server) as api:
        await send_inserts(api, 3, "192.0.2.2")
        with listening(CommandFinished) as commands:
            reply = await send_inserts(api, 4, "192.0.2.2")

        assert (reply.status, reply.json["code"]) == (429, "too-many-requests")
        assert reply.headers["retry-after"] == "2"  # itself was counted, and one is missing
        assert "insert" not in {event.command for event in commands}
        assert len(ids(api)) == 3


async def test_a_batch_above_a_whole_burst_is_told_how_many_entries_it_may_have(
    limited_server: Api,
) -> None:
    with own_database(limited_server) as api:
        refused = await send_inserts(api, 7, "192.0.2.3")

        assert refused.status == 429
        assert refused.json["hint"] == "send at most 6 entries in a batch, the burst of 'guests'"
        assert refused.headers["retry-after"] == "2"
        assert ids(api) == []
        assert (await send_inserts(api, 6, "192.0.2.4")).status == 200
