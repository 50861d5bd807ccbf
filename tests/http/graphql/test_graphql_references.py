"""References that are stored as DBRef: they can be read and joined."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from bson import DBRef, ObjectId

from docgraph.graphql.definition.check import check_definition
from docgraph.graphql.sections import Graphql
from tests.http.harness import Mongo, Service, running
from tests.http.hosts import module_application

pytestmark = [pytest.mark.anyio, pytest.mark.json]

CREWS = [ObjectId(f"64b0000000000000000000{n:02x}") for n in range(3)]
SCHEMA = """
type Query {
  flights: [Flight!]!
  flight(n: Int!): Flight
  crews: [Crew!]!
  byCrew(id: ObjectId!): [Flight!]!
}
type Flight {
  n: Int
  crew: BsonDocument
  crewId: ObjectId
  crewOf: String
  crewMembers: Crew
  stops: [BsonDocument]
  stopIds: [ObjectId]
  stopCrews: [Crew!]!
}
type Crew { name: String flights: [Flight!]! }
"""


def mappings(service: Service) -> dict[str, Any]:
    find = service.find
    return {
        "Query": {
            "flights": find("flights", {}, sort={"n": 1}),
            "flight": find("flights", {"n": {"$arg": "n"}}),
            "crews": find("crews", {}, sort={"_id": 1}),
            "byCrew": find("flights", {"crew.$id": {"$arg": "id"}}, sort={"n": 1}),
        },
        "Flight": {
            "crewId": "crew.$id",
            "crewOf": "crew.$ref",
            "crewMembers": find("crews", {"_id": {"$fk": "crew.$id"}}),
            "stopIds": "stops.$id",
            "stopCrews": find("crews", {"_id": {"$in": {"$fk": "stops.$id"}}}, sort={"_id": 1}),
        },
        "Crew": {"flights": find("flights", {"crew.$id": {"$fk": "_id"}}, sort={"n": 1})},
    }


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri) as service:
        service.insert("crews", *({"_id": id, "name": f"C{n}"} for n, id in enumerate(CREWS)))
        service.insert(
            "flights",
            *(
                {
                    "n": n,
                    "crew": DBRef("crews", CREWS[n % 3]),
                    "stops": [DBRef("crews", id) for id in CREWS[: n % 4]],
                }
                for n in range(6)
            ),
            {"n": 9},
        )
        await service.define("refs", SCHEMA, mappings(service))
        yield service


async def ask(service: Service, query: str) -> Any:
    reply = await service.query("refs", query)
    assert "errors" not in reply.json, reply.text
    return reply.json["data"]


async def test_a_reference_is_read_as_a_document_and_by_its_parts(service: Service) -> None:
    data = await ask(service, "{ flight(n: 1) { crew crewId crewOf stops stopIds } }")

    one = {"$oid": str(CREWS[1])}
    reference = {"$ref": "crews", "$id": {"$oid": str(CREWS[0])}}
    assert data["flight"] == {
        "crew": {"$ref": "crews", "$id": one},
        "crewId": one,
        "crewOf": "crews",
        "stops": [reference],
        "stopIds": [reference["$id"]],
    }


async def test_references_are_joined_for_one_document_and_for_many(service: Service) -> None:
    one = await ask(service, "{ flight(n: 4) { crewMembers { name } } }")
    many = await ask(service, "{ flights { n crewMembers { name } stopCrews { name } } }")

    assert one == {"flight": {"crewMembers": {"name": "C1"}}}
    crews = [flight["crewMembers"] for flight in many["flights"]]
    assert crews == [*({"name": f"C{n % 3}"} for n in range(6)), None]
    stops = [[crew["name"] for crew in flight["stopCrews"]] for flight in many["flights"]]
    assert stops == [*([f"C{k}" for k in range(min(n % 4, 3))] for n in range(6)), []]


async def test_the_documents_that_refer_to_one_are_found(service: Service) -> None:
    data = await ask(service, f'{{ crews {{ flights {{ n }} }} byCrew(id: "{CREWS[2]}") {{ n }} }}')

    assert data["crews"] == [{"flights": [{"n": n}, {"n": n + 3}]} for n in range(3)]
    assert data["byCrew"] == [{"n": 2}, {"n": 5}]


async def test_the_check_accepts_the_parts_of_a_reference(service: Service) -> None:
    document = {
        "_id": "refs",
        "descriptor": {"uri": "refs", "enabled": True},
        "schema": SCHEMA,
        "mappings": mappings(service),
    }

    report = check_definition(document, settings=Graphql())
    assert (report.errors, report.warnings) == ((), ())
