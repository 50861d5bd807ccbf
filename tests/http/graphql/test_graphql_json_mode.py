"""`json-mode: plain`: for the service, for one app, out and in, and what introspection says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest
from bson import Binary, Decimal128, Int64, ObjectId, Regex, Timestamp

from docgraph.exchange.errors import DefinitionError
from tests.http.harness import Mongo, Service, running
from tests.http.hosts import module_application

pytestmark = [pytest.mark.anyio, pytest.mark.json]

OID = ObjectId("64b000000000000000000001")
STORED: dict[str, Any] = {
    "Float": float("nan"),
    "Long": Int64(2**53 + 1),
    "Decimal128": Decimal128("1.50"),
    "ObjectId": OID,
    "DateTime": datetime(2024, 2, 29, 12, 30),
    "Timestamp": Timestamp(5, 6),
    "Regex": Regex("^a/b", "i"),
}
PLAIN: dict[str, Any] = {
    "Float": "NaN",
    "Long": "9007199254740993",
    "Decimal128": "1.50",
    "ObjectId": str(OID),
    "DateTime": "2024-02-29T12:30:00.000Z",
    "Timestamp": "5.6",
    "Regex": "/^a/b/i",
}
INNER = {**STORED, "binary": Binary(b"hi", 5), "bytes": b"hi", "safe": [Int64(2**53 - 1)]}
PLAIN_INNER = {**PLAIN, "binary": "aGk=", "bytes": "aGk=", "safe": [2**53 - 1]}
SCHEMA = (
    "type Query { value: Value "
    + " ".join(f"by{name}(v: {name}): [Value]" for name in STORED)
    + " } type Value { inner: BsonDocument dates: [DateTime] "
    + " ".join(f"a{name}: {name}" for name in STORED)
    + ' secret: String @visible(roles: ["nobody"]) }'
)


async def define(service: Service, id: str, **descriptor: Any) -> None:
    queries = {f"by{name}": service.find("values", {f"a{name}": {"$arg": "v"}}) for name in STORED}
    queries["value"] = service.find("values", {"_id": 0})
    await service.define(id, SCHEMA, {"Query": queries}, **descriptor)


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    option = {"graphql": {"json-mode": "plain"}}
    async with running(mongo_client, mongo_uri, option) as service:
        fields = {f"a{name}": value for name, value in STORED.items()}
        service.insert("values", {"_id": 0, **fields, "inner": INNER, "dates": [datetime(1, 1, 1)]})
        await define(service, "values")
        await define(service, "standard", **{"json-mode": "standard"})
        yield service


async def test_plain_values_are_texts_and_numbers(service: Service) -> None:
    """Decision 17."""
    names = " ".join(f"a{name}" for name in STORED)
    reply = await service.query("values", f"{{ value {{ {names} inner dates }} }}")

    fields = {f"a{name}": value for name, value in PLAIN.items()}
    dates = ["0001-01-01T00:00:00.000Z"]
    assert reply.data == {"value": {**fields, "inner": PLAIN_INNER, "dates": dates}}


async def test_an_app_has_its_own_mode(service: Service) -> None:
    """Decision 17: `descriptor.json-mode` stands before `graphql.json-mode`."""
    reply = await service.query("standard", "{ value { aDateTime aLong } }")

    assert reply.data["value"] == {
        "aDateTime": {"$date": 1709209800000},
        "aLong": {"$numberLong": "9007199254740993"},
    }


@pytest.mark.parametrize("name", PLAIN)
async def test_what_is_given_out_is_taken_in(service: Service, name: str) -> None:
    """Decision 16: in a variable and in a literal."""
    text = f"query($v: {name}) {{ by{name}(v: $v) {{ a{name} }} }}"
    by_variable = await service.query("values", text, {"v": PLAIN[name]})
    by_literal = await service.query("values", f'{{ by{name}(v: "{PLAIN[name]}") {{ a{name} }} }}')

    expected = {f"by{name}": [{f"a{name}": PLAIN[name]}]}
    assert by_variable.data == by_literal.data == expected


async def test_introspection_tells_what_the_scalars_are(service: Service) -> None:
    query = "{ __schema { types { name kind description specifiedByURL } } }"
    scalars = [name for name in STORED if name != "Float"] + ["BsonDocument"]

    plain = await read_scalars(service, "values", query)
    standard = await read_scalars(service, "standard", query)

    assert all(plain[name]["specifiedByURL"].startswith("https://") for name in scalars)
    assert "ISO 8601" in plain["DateTime"]["description"]
    assert all(standard[name]["specifiedByURL"] is None for name in scalars)
    assert "$date" in standard["DateTime"]["description"]


async def read_scalars(service: Service, app: str, query: str) -> dict[str, Any]:
    types = (await service.query(app, query)).data["__schema"]["types"]
    return {one["name"]: one for one in types if one["kind"] == "SCALAR"}


async def test_an_unknown_mode_is_refused_when_written(service: Service) -> None:
    with pytest.raises(DefinitionError, match=r"descriptor\.json-mode: 'fancy' is not a mode"):
        await define(service, "fancy", **{"json-mode": "fancy"})
