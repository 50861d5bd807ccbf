"""Agents can send back every kind of `_id` as they received it, to queries and to operations."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.http.graphql.test_graphql_ids import IDS, SAME
from tests.http.harness import Mongo, Service, identity, running
from tests.http.hosts import module_application
from tests.http.mcp_harness import AGENTS, use

pytestmark = pytest.mark.anyio

OPERATION = {"name": "one", "query": "query ($id: ID!) { thing(id: $id) { kind } }"}
SCHEMA = """
type Query { all: [Thing!]! thing(id: ID!): Thing among(ids: [ID!]!): [Thing!]! }
type Thing { id: ID! kind: String }
"""


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri, AGENTS, identity("admin")) as one:
        one.insert("things", *({"_id": id, "kind": kind} for kind, id in IDS.items()))
        for number, ids in enumerate(SAME.values()):
            one.insert(
                "others", *({"_id": id, "kind": f"{number} {n}"} for n, id in enumerate(ids))
            )
        for name in ("things", "others"):
            await one.define(
                name,
                SCHEMA,
                {
                    "Query": {
                        "all": one.find(name, {}),
                        "thing": one.find(name, {"_id": {"$arg": "id"}}),
                        "among": one.find(name, {"_id": {"$in": {"$arg": "ids"}}}),
                    },
                    "Thing": {"id": "_id"},
                },
                operations=[OPERATION],
            )
        yield one


@pytest.mark.parametrize("kind", IDS)
async def test_an_id_of_every_kind_is_accepted_as_it_was_given_out(
    service: Service, kind: str
) -> None:
    """Decision 48."""
    shown = (await use(service, "run_query", app="things", query="{ all { id kind } }")).json
    (id,) = [one["id"] for one in shown["data"]["all"] if one["kind"] == kind]
    query = "query ($id: ID!, $ids: [ID!]!) { thing(id: $id) { kind } among(ids: $ids) { kind } }"

    found = await use(
        service, "run_query", app="things", query=query, variables={"id": id, "ids": [id]}
    )
    inline = await use(
        service, "run_query", app="things", query=f'{{ thing(id: "{id}") {{ kind }} }}'
    )
    prepared = await use(service, "things__one", id=id)

    own = {"kind": kind}
    assert found.json["data"] == {"thing": own, "among": [own]}
    assert inline.json["data"] == {"thing": own}
    assert prepared.json["data"] == {"thing": own}


@pytest.mark.parametrize("text", SAME)
async def test_of_several_documents_with_one_text_an_operation_prefers_the_text(
    service: Service, text: str
) -> None:
    """Decision 48."""
    found = await use(service, "others__one", id=text)

    assert found.json["data"] == {"thing": {"kind": f"{list(SAME).index(text)} 0"}}
