"""A subgraph over HTTP: `_service`, and who may read it (decision 77)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.codec.bson_types import ObjectId
from docgraph.graphql.apps import compiled_app
from docgraph.graphql.federation.service_sdl import print_service_sdl
from tests.http.access_harness import ADA, BOB, allow, guarded
from tests.http.harness import (
    OPEN,
    Document,
    Mongo,
    Service,
    identity,
    listening_to_fields,
    running,
)

pytestmark = [pytest.mark.anyio, pytest.mark.json]

SCHEMA = """
extend schema @link(url: "https://specs.apollo.dev/federation/v2.5", import: ["@key"])
type Query { posts: [Post!]! }
type Post @key(fields: "id", resolvable: false) {
  id: ID! title: String notes: String @visible(roles: ["editor"])
}
"""
SDL = "{ _service { sdl } }"


async def test_the_sdl_is_what_the_caller_sees(mongo_client: Mongo, mongo_uri: str) -> None:
    for roles, sees in (((), False), (("editor",), True)):
        settings = {**OPEN, **(identity(*roles) if roles else {})}
        async with running(mongo_client, mongo_uri, settings) as service:
            await define(service)

            sdl = (await service.query("blog", SDL)).data["_service"]["sdl"]

            assert ("notes: String" in sdl) is sees
            assert "@visible" not in sdl
            assert '@key(fields: "id", resolvable: false)' in sdl


async def test_the_sdl_of_a_view_is_printed_once(
    mongo_client: Mongo, mongo_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Printing takes long for a large schema, and an alias costs a caller nothing."""
    printed: list[str] = []

    def count(*parts: Any) -> str:
        printed.append(print_service_sdl(*parts))
        return printed[-1]

    monkeypatch.setattr(compiled_app, "print_service_sdl", count)
    async with running(mongo_client, mongo_uri, OPEN) as service:
        await define(service)
        aliases = " ".join(f"a{number}: sdl" for number in range(20))
        sdl = (await service.query("blog", f"{{ _service {{ {aliases} }} }}")).data["_service"]
        again = (await service.query("blog", SDL)).data["_service"]["sdl"]
        assert printed == [again]
        assert set(sdl.values()) == {again}


async def test_without_introspection_there_is_no_sdl(mongo_client: Mongo, mongo_uri: str) -> None:
    settings = {**OPEN, "graphql": {"introspection": "off"}}
    async with running(mongo_client, mongo_uri, settings) as service:
        await define(service)
        await service.define("own", "type Query { _service: [Own] } type Own { sdl: String }")

        assert "introspection has been disabled" in (await service.query("blog", SDL)).text
        assert (await service.query("own", SDL)).data == {"_service": []}


async def define(service: Service) -> None:
    mappings = {"Query": {"posts": service.find("posts")}}
    await service.define("blog", SCHEMA, mappings, federation=True)


# --- entities -------------------------------------------------------------------------------------

ENTITIES = "query ($r: [_Any!]!) { _entities(representations: $r) { __typename %s } }"
SHOP = """
extend schema @link(url: "https://specs.apollo.dev/federation/v2.5", import: ["@key"])
type Query { products: [Product!]! }
type Product @key(fields: "sku") @key(fields: "maker { name } model") {
  sku: String! name: String maker: Maker model: Int related: [Product!]!
  price: Int @visible(roles: ["editor"])
}
type Maker { name: String }
type Item @key(fields: "id") { id: ID! title: String }
type Secret @key(fields: "id") { id: ID! x: Int }
extend type Query { secrets: [Secret] @visible(roles: ["editor"]) }
"""


@pytest.fixture
async def shop(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri, OPEN) as service:
        find = service.find
        sku = find("products", {"sku": {"$arg": "sku"}})
        maker = {"maker.name": {"$arg": "maker.name"}, "model": {"$arg": "model"}}
        mappings = {
            "Query": {"products": find("products"), "secrets": find("items")},
            "Product": {
                "$entity": [sku, find("products", maker)],
                "related": find("products", {"group": {"$fk": "group"}}, sort={"sku": 1}),
            },
            "Item": {"$entity": find("items"), "id": "_id"},
            "Secret": {"$entity": find("items"), "id": "_id"},
        }
        await service.define("shop", SHOP, mappings, federation=True)
        yield service


def product(sku: Any, **others: Any) -> Document:
    return {"__typename": "Product", "sku": sku, **others}


def stock(service: Service, count: int) -> None:
    documents = [
        {
            "sku": f"s{n}",
            "name": f"n{n}",
            "maker": {"name": f"m{n % 3}"},
            "model": n,
            "group": n % 2,
        }
        for n in range(count)
    ]
    service.insert("products", *documents)


async def ask(service: Service, representations: Any, fields: str) -> Any:
    return await service.query("shop", ENTITIES % fields, {"r": representations})


async def test_entities_are_found_together_and_in_order(shop: Service) -> None:
    stock(shop, 30)
    wanted = [product(f"s{n}") for n in (7, 3, 99, 7, 0)]

    with listening_to_fields() as sent:
        found = (await ask(shop, wanted, "... on Product { name related { sku } }")).data

    names = [one and one["name"] for one in found["_entities"]]
    assert names == ["n7", "n3", None, "n7", "n0"]
    assert [one["related"][0]["sku"] for one in found["_entities"] if one][:2] == ["s1", "s1"]
    assert len(sent) == 2


async def test_composite_keys_take_a_command_per_two_hundred(shop: Service) -> None:
    stock(shop, 401)
    wanted = [
        {"__typename": "Product", "maker": {"name": f"m{n % 3}"}, "model": n} for n in range(401)
    ]

    with listening_to_fields() as sent:
        found = (await ask(shop, wanted, "... on Product { sku }")).data["_entities"]

    assert [one["sku"] for one in found] == [f"s{n}" for n in range(401)]
    assert len(sent) == 3


async def test_thousands_of_single_keys_take_one_command(shop: Service) -> None:
    stock(shop, 1_500)
    wanted = [product(f"s{n}") for n in range(1_500)]

    with listening_to_fields() as sent:
        found = (await ask(shop, wanted, "... on Product { sku }")).data["_entities"]

    assert [one["sku"] for one in found] == [one["sku"] for one in wanted]
    assert len(sent) == 1


async def test_a_text_finds_every_kind_of_id(shop: Service) -> None:
    ids: list[Any] = [ObjectId(), "text", 5]
    shop.insert("items", *({"_id": id, "title": str(id)} for id in ids))
    texts = [*map(str, ids), "none"]

    for several in (texts, texts[:1], texts[2:3]):
        wanted = [{"__typename": "Item", "id": text} for text in several]
        found = (await ask(shop, wanted, "... on Item { title }")).data["_entities"]
        assert [one and one["title"] for one in found] == [
            None if text == "none" else text for text in several
        ]


async def test_of_several_kinds_the_text_is_preferred(shop: Service) -> None:
    shop.insert("items", {"_id": 5, "title": "number"}, {"_id": "5", "title": "text"})

    for count in (1, 2):
        wanted = [{"__typename": "Item", "id": text} for text in ("5", "6")[:count]]
        found = (await ask(shop, wanted, "... on Item { title }")).data["_entities"]
        assert found[0]["title"] == "text"


async def test_a_wrong_representation_fails_alone(shop: Service) -> None:
    stock(shop, 3)
    wrong: list[Any] = [
        "text",
        {"sku": "s1"},
        {"__typename": "Nothing", "sku": "s1"},
        {"__typename": "Secret", "id": "s1"},
        {"__typename": "Product", "model": 1},
        product({"$gt": ""}),
        product(["s1"]),
        {"__typename": "Product", "maker": {"name": "m1"}, "model": {"$ne": 0}},
    ]

    reply = await ask(shop, [product("s1"), *wrong, product("s2")], "... on Product { sku }")

    found = reply.json["data"]["_entities"]
    assert [one and one["sku"] for one in found] == ["s1", *[None] * len(wrong), "s2"]
    assert [error["path"] for error in reply.errors] == [
        ["_entities", number + 1] for number in range(len(wrong))
    ]
    hidden, unknown = reply.messages[3], reply.messages[2]
    assert hidden.replace("Secret", "Nothing") == unknown


async def test_values_are_never_conditions(shop: Service) -> None:
    stock(shop, 3)

    for value in ("$name", "/s/", '{"$ne": null}'):
        found = (await ask(shop, [product(value), product("s1")], "... on Product { sku }")).data
        assert found["_entities"][0] is None


async def test_more_representations_than_allowed_are_an_error(shop: Service) -> None:
    mapping = {"Query": {"a": shop.find("a")}, "A": {"$entity": shop.find("a"), "id": "_id"}}
    schema = 'type Query { a: [A] b(x: [BsonDocument]): Int } type A @key(fields: "id") { id: ID }'
    await shop.define("few", schema, mapping, federation=True, limits={"representations": 2})
    wanted = [{"__typename": "A", "id": str(n)} for n in range(3)]

    reply = await shop.query("few", ENTITIES % "", {"r": wanted})
    assert reply.code == "too-many-representations"
    long = [{"__typename": "A"}] * 1_001
    reply = await shop.query("few", "query ($x: [BsonDocument]) { b(x: $x) }", {"x": long})
    assert "more than 1000 elements" in reply.text


async def test_hidden_rows_are_as_rows_that_do_not_exist(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    async with guarded(mongo_client, mongo_uri) as service:
        mappings = {
            "Query": {"a": service.find("a")},
            "A": {"$entity": service.find("a"), "id": "_id"},
        }
        schema = 'type Query { a: [A] } type A @key(fields: "id") { id: ID }'
        await service.define("rows", schema, mappings, federation=True)
        service.insert("a", {"_id": "x", "team": "blue"}, {"_id": "y", "team": "red"})
        rows = {"readFilters": {f"{service.db}.a": {"team": "@user.team"}}}
        await allow(service, "path-prefix('/graphql')", "user", mongo=rows)
        wanted = [{"__typename": "A", "id": text} for text in ("x", "y", "z")]
        query = ENTITIES % "... on A { id }"

        for headers, own in ((ADA, 0), (BOB, 1)):
            found = (await service.query("rows", query, {"r": wanted}, headers=headers)).data
            expected: list[Any] = [None, None, None]
            expected[own] = {"__typename": "A", "id": wanted[own]["id"]}
            assert found["_entities"] == expected


HIDDEN = '@visible(roles: ["editor"])'
CHAINS = {  # the fields of A and of B, to which no field of Query leads, and what everyone sees
    "no field is hidden": ("b: B", "", {"A", "B"}),
    "only a hidden field leads to B": (f"b: B {HIDDEN}", "", {"A"}),
    "a hidden field, and B leads back": (f"b: B {HIDDEN}", "a: A", {"A"}),
    "a hidden field in front of another type": (f"c: C {HIDDEN}", "", {"A"}),
    "a hidden field that no entity is below": (f"c: Int {HIDDEN}", "", {"A", "B"}),
}


@pytest.mark.parametrize("name", CHAINS)
async def test_an_entity_below_a_hidden_field_is_hidden(
    mongo_client: Mongo, mongo_uri: str, name: str
) -> None:
    of_a, of_b, seen = CHAINS[name]
    schema = f"""
    type Query {{ x: [X] }} type X {{ y: Int @visible(roles: ["editor"]) z: Int }} type C {{ b: B }}
    type A @key(fields: "id") {{ id: ID {of_a} }} type B @key(fields: "id") {{ id: ID {of_b} }}
    """
    for roles, expected in (((), seen), (("editor",), {"A", "B"})):
        settings = {**OPEN, **(identity(*roles) if roles else {})}
        async with running(mongo_client, mongo_uri, settings) as service:
            entity = {"$entity": service.find("a"), "id": "_id"}
            mappings = {"Query": {"x": service.find("a")}, "A": entity, "B": entity}
            await service.define("chain", schema, mappings, federation=True)
            service.insert("a", {"_id": "x"})
            wanted = [{"__typename": type_, "id": "x"} for type_ in "AB"]

            found = (await service.query("chain", ENTITIES % "", {"r": wanted})).json["data"]

            assert {one["__typename"] for one in found["_entities"] if one} == expected
