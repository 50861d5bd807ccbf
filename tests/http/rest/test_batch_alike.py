"""A batch does what its entries do when they come one at a time."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from docgraph.codec import decode
from tests.http.batches import answers_of, entry, failed_entry
from tests.http.harness import Document, Mongo, Reply
from tests.http.hosts import module_application
from tests.http.rest_harness import BY_HOST, Api, own_database, serving

pytestmark = pytest.mark.anyio

_ROUNDS = 25
_IDS = ("a", "b", "5f0c9b7a41d25f0c9b7a41d2", "x y", "a/b")
_VARYING = re.compile("'[0-9a-f]{24}'")


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Api]:
    async with serving(mongo_client, mongo_uri, mounts=BY_HOST) as one:
        yield one


def make_entry(random: Random) -> Document:
    """A request for a document, sensible or not."""
    id = random.choice(_IDS).replace(" ", "%20").replace("/", "%2F")
    mode = random.choice(["", "?wm=insert", "?wm=update", "?wm=upsert"])
    condition = random.choice([{}, {}, {}, {"if_none_match": "*"}, {"if_match": "*"}])
    representation = random.choice([{}, {"prefer": "return=representation"}])
    body: Any = random.choice(
        [{}, {"n": 1}, {"n": 2, "o": {"p": [1]}}, {"n": "text"}, {"o.p.0": 5}, {"a": 1, "a.b": 2}]
    )
    changes: Any = random.choice(
        [body, {"$inc": {"n": 1}}, {"$unset": {"o": 1}}, {"$push": {"l": 1}}, [{"$set": {"n": 7}}]]
    )
    several = [{"_id": one, "n": random.randrange(3)} for one in random.sample(_IDS, 2)]
    filter = random.choice(['{"n":1}', '{"n":{"$gt":0}}', '{"$nope":1}'])
    headers = {**condition, **representation}
    return random.choice(
        [
            entry("GET", f"/things/{id}", **condition),
            entry("PUT", f"/things/{id}{mode}", body, **headers),
            entry("PATCH", f"/things/{id}{mode}", changes, **headers),
            entry("DELETE", f"/things/{id}", **condition),
            entry("POST", f"/things{mode}", {"_id": random.choice(_IDS), **body}, **headers),
            entry("POST", f"/things{mode}", several),
            entry("PATCH", f"/things/*?filter={filter}", changes),
            entry("DELETE", f"/things/*?filter={filter}"),
        ]
    )


async def send_alone(api: Api, one: Document) -> Reply:
    return await api.send(one["method"], one["path"], one.get("body"), one.get("headers"))


def has_failed(reply: Reply) -> bool:
    """A part of an array that is not written is a failure of a batch, too."""
    return reply.status >= 400 or is_partial(reply)


def is_partial(reply: Reply) -> bool:
    content = decode(reply.text) if reply.text else None
    results = content.get("results", []) if isinstance(content, dict) else []
    return any(one["httpStatus"] >= 400 for one in results)


def stored(api: Api) -> list[Any]:
    return list(api.things.find({}, {"_etag": 0}, sort=[("_id", 1)]))


def plain(text: str) -> str:
    """Without etags, which are others each time."""
    return _VARYING.sub("…", text)


@pytest.mark.parametrize("number", range(_ROUNDS))
async def test_a_batch_is_its_entries_one_after_the_other(
    server: Api, run_seed: int, number: int
) -> None:
    random = Random(f"{run_seed} {number}")
    entries = [make_entry(random) for _ in range(random.randrange(1, 7))]
    first = [{"_id": "a", "n": 1}, {"_id": "b", "n": 2, "o": {"p": [1, 2]}}]
    with own_database(server) as alone, own_database(server) as together:
        for api in (alone, together):
            api.things.insert_many(first)
        reply = await together.post("/_batch", entries)
        expected = [await send_alone(alone, one) for one in entries]
        failed = [index for index, one in enumerate(expected) if has_failed(one)]
        if failed:
            assert failed_entry(reply) == failed[0], (entries, reply.text)
            first_failed = expected[failed[0]]
            assert first_failed.status == reply.status or is_partial(first_failed), (
                entries,
                reply.text,
            )
            assert stored(together) == first
            return
        answers = answers_of(reply)
        assert [one["status"] for one in answers] == [one.status for one in expected]
        for got, one in zip(answers, expected, strict=True):
            body = decode(one.text) if one.text else None
            assert plain(repr(got.get("body"))) == plain(repr(body)), entries
            assert ("ETag" in got["headers"]) == ("etag" in one.headers)
        assert stored(together) == stored(alone)
