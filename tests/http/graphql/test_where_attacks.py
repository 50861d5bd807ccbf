"""Attacks on `where` and `orderBy`: operators as values, patterns, hidden fields, sizes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from graphql import get_introspection_query

from docgraph.observe.engine_events import CommandFinished
from docgraph.server.builtin import BUILTIN
from tests.http.access_harness import TestCaller, caller
from tests.http.harness import Mongo, Service, listening, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

SCHEMA = """
type Query { accounts: [Account!]!  holders: [Holder!]! }
type Account {
  id: ID
  name: String
  kind: Kind
  owner: Holder
  extra: BsonDocument
  pattern: Regex
  balance: Int @visible(roles: ["clerk"])
  notes: [Note!] @visible(roles: ["clerk"])
  vault: Vault
}
type Note { text: String }
type Vault { code: String @visible(roles: ["clerk"]) }
type Holder { name: String  accounts: [Account!]! }
enum Kind { OPEN CLOSED }
"""
FIELDS = {
    "id": ["eq", "in"],
    "name": ["eq", "in", "prefix", "contains", "ne"],
    "kind": ["eq"],
    "extra": ["eq", "ne", "in", "nin"],
    "pattern": ["eq", "in", "ne"],
    "balance": ["eq", "range"],
    "notes.text": ["eq"],
    "vault.code": ["eq"],
}
ORDERS = ["name", "balance", "vault.code"]
CLERK = caller("cleo", "clerk")
SECRETS = ("balance", "notes", "vault", "Note", "Vault", "AccountWhereBalance")


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri, plugins=[*BUILTIN, TestCaller]) as service:
        service.insert(
            "accounts",
            {"_id": 1, "name": "ada", "kind": "open", "balance": 10, "extra": {"$ne": 0}},
            {"_id": 2, "name": "bob", "kind": "closed", "balance": 20, "extra": {"a": 1}},
            {"_id": 3, "name": "a" * 40 + "!", "kind": "open", "balance": 30},
        )
        service.insert("holders", {"_id": 1, "name": "ada"})
        lists = {"filter": {"fields": FIELDS}, "orderBy": {"fields": ORDERS}}
        accounts = {**service.find("accounts", {}, sort={"_id": 1}), **lists}
        own = service.find("accounts", {"name": {"$fk": "name"}})
        mappings = {
            "Query": {"accounts": accounts, "holders": service.find("holders")},
            "Account": {"id": "_id", "owner": "nobody"},
            "Holder": {"accounts": {**own, **lists}},
            "Kind": {"OPEN": "open", "CLOSED": "closed"},
        }
        await service.define("bank", SCHEMA, mappings)
        yield service


async def send(service: Service, where: Any, headers: Any = None) -> Any:
    text = "query ($where: AccountWhere) { accounts(where: $where) { id } }"
    return await service.query("bank", text, {"where": where}, headers=headers)


@pytest.mark.parametrize("name", ["$ne", "$gt", "$regex", "$where", "$expr", "$not", "$exists"])
@pytest.mark.parametrize("value", ["", 0, None, "1", {"$gt": ""}])
async def test_operators_are_no_values_of_scalars(service: Service, name: str, value: Any) -> None:
    for field in ("name", "id", "kind"):
        reply = await send(service, {field: {"eq": {name: value}}})
        assert reply.status == 400
        assert reply.json.get("data") is None


@pytest.mark.parametrize(
    "where",
    [
        {"$where": "true"},
        {"$or": [{}]},
        {"name": {"$ne": ""}},
        {"name": {"eq": {"ne": ""}}},
        {"name": ["ada"]},
        {"_id": {"eq": "1"}},
        {"name.first": {"eq": "ada"}},
        {"__proto__": {"eq": "ada"}},
        [{"name": {"eq": "ada"}}, {}],
        "{}",
    ],
)
async def test_other_keys_do_not_pass(service: Service, where: Any) -> None:
    reply = await send(service, where)
    assert reply.status == 400
    assert reply.json.get("data") is None


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [
        ("eq", {"$ne": 0}, ["1"]),
        ("eq", {"$exists": True}, []),
        ("eq", {"$gt": None}, []),
        ("eq", {"$in": [{"a": 1}]}, []),
        ("eq", '{"$ne": 0}', ["1"]),
        ("in", [{"$exists": True}], []),
        ("in", [{"$ne": 0}, {"a": 1}], ["1", "2"]),
        ("nin", [{"$ne": 0}], ["2", "3"]),
        ("ne", {"$exists": True}, ["1", "2", "3"]),
    ],
)
async def test_documents_are_compared_and_never_run(
    service: Service, operator: str, value: Any, expected: list[str]
) -> None:
    data = (await send(service, {"extra": {operator: value}})).data
    assert [one["id"] for one in data["accounts"]] == expected


@pytest.mark.parametrize("operator", ["$where", "$function", "$expr", "$accumulator"])
async def test_code_finds_nothing(service: Service, operator: str) -> None:
    reply = await send(service, {"extra": {"eq": {operator: "sleep(1000)"}}})
    assert reply.json["data"] in (None, {"accounts": []})


@pytest.mark.parametrize(
    "value", [".*", "/.*/", {"$regex": ".*"}, {"$regex": "a", "$options": "i"}]
)
async def test_patterns_are_compared_and_never_match(service: Service, value: Any) -> None:
    for where in ({"eq": value}, {"in": [value, value]}):
        data = (await send(service, {"pattern": where})).data
        assert data == {"accounts": []}
    data = (await send(service, {"pattern": {"ne": value}})).data
    assert len(data["accounts"]) == 3


@pytest.mark.parametrize(
    "text", ["(a+)+$", "a.*", "^ada", "[a-z]{3}", "\\w+", "(?i)ADA", "a|b|c", "ada\n", "\\Qada\\E"]
)
async def test_texts_are_no_patterns(service: Service, text: str) -> None:
    for operator in ("contains", "prefix", "eq"):
        assert (await send(service, {"name": {operator: text}})).data == {"accounts": []}


# --- hidden fields --------------------------------------------------------------------------------


async def test_introspection_shows_nothing_of_hidden_fields(service: Service) -> None:
    text = get_introspection_query(descriptions=True)
    shown = (await service.query("bank", text)).text
    assert not [name for name in SECRETS if name in shown]
    assert "AccountWhereName" in shown
    everything = (await service.query("bank", text, headers=CLERK)).text
    assert [name for name in SECRETS if name not in everything] == []


@pytest.mark.parametrize(
    "text",
    [
        "{ accounts(where: {balance: {gt: 5}}) { id } }",
        "{ accounts(where: {balanc: {gt: 5}}) { id } }",
        '{ accounts(where: {vault: {code: {eq: "x"}}}) { id } }',
        '{ accounts(where: {notes: {any: {text: {eq: "x"}}}}) { id } }',
        "{ accounts(orderBy: [{balance: ASC}]) { id } }",
        "{ accounts(orderBy: [{vault: {code: ASC}}]) { id } }",
        "{ holders { accounts(where: {or: [{not: {balance: {eq: 1}}}]}) { id } } }",
        "query ($w: AccountWhereBalance) { accounts(where: {balance: $w}) { id } }",
        "query ($w: AccountWhere = {balance: {gt: 5}}) { accounts(where: $w) { id } }",
        "{ ...F } fragment F on Query { accounts(where: {balance: {gt: 5}}) { id } }",
        "{ accounts(where: {balance: {gt: 5}}) @skip(if: true) { id } }",
        '{ __type(name: "AccountWhereBalance") { name } }',
    ],
)
async def test_hidden_fields_cannot_be_asked_for(service: Service, text: str) -> None:
    reply = await service.query("bank", text)
    if "__type" in text:
        assert reply.data == {"__type": None}
        return
    assert reply.status == 400
    with listening(CommandFinished) as commands:
        await service.query("bank", text)
    assert not any(one.app for one in commands)
    asked = text.replace("balanc:", "balance")
    for name in SECRETS:
        assert name in asked or name not in reply.text


async def test_hidden_fields_in_variables_are_as_unknown_ones(service: Service) -> None:
    hidden = await send(service, {"balance": {"gt": 5}})
    unknown = await send(service, {"another": {"gt": 5}})
    assert hidden.status == unknown.status == 400
    assert hidden.text == unknown.text.replace("another", "balance")
    assert len((await send(service, {"balance": {"gt": 15}}, CLERK)).data["accounts"]) == 2


async def test_plans_of_one_role_do_not_serve_another(service: Service) -> None:
    text = "{ accounts(where: {balance: {gt: 15}}) { id } }"
    assert len((await service.query("bank", text, headers=CLERK)).data["accounts"]) == 2
    assert (await service.query("bank", text)).status == 400
    assert len((await service.query("bank", text, headers=CLERK)).data["accounts"]) == 2


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["and", "or"])
async def test_deep_and_wide_conditions_are_rejected(service: Service, name: str) -> None:
    deep: Any = {}
    for _ in range(40):
        deep = {name: [deep]}
    wide: Any = {name: [{name: [{"name": {"eq": "x"}}] * 20}] * 20}
    for where in (deep, wide):
        reply = await send(service, where)
        assert reply.error["message"].startswith(f"where.{name}[0]") or reply.status == 400
        with listening(CommandFinished) as commands:
            await send(service, where)
        assert not any(one.app for one in commands)


async def test_very_deep_conditions_end_with_an_error(service: Service) -> None:
    for levels in (500, 5_000):
        literal = "{not: " * levels + "{}" + "}" * levels
        reply = await service.query("bank", f"{{ accounts(where: {literal}) {{ id }} }}")
        assert reply.status in (200, 400)
        assert reply.errors
        body = '{"not": ' * levels + "{}" + "}" * levels
        text = "query ($w: AccountWhere) { accounts(where: $w) { id } }"
        content = f'{{"query": "{text}", "variables": {{"w": {body}}}}}'
        reply = await service.send("bank", content, "application/json")
        assert reply.status in (200, 400)
        assert reply.errors
