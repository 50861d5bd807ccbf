"""The writer of the checker of cached answers: one change at a time, in all ways that there are.

A change is made through the instance that is read (`own`), through another one, or straight in the
database. Documents are changed one by one or in a transaction; the collection is dropped, renamed
or replaced; the definition of the app and the row filter of its callers change.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tests.http.access_harness import ADMIN, build_rule, write_rules
from tests.http.batches import answers_of, entry
from tests.http.cache_harness import CACHE
from tests.http.harness import Document, Service

Documents = Mapping[str, Document]
Way = Literal["own", "other", "direct"]
ALL_WAYS: tuple[Way, ...] = ("own", "other", "direct")

SCHEMA = """
type Query {
  items(shop: Int): [Item]
  first(shop: Int): [Item]
  second(shop: Int): [Item]
  among(shops: [Int]): [Item]
  tagged(tag: String): [Item]
  named(id: String): [Item]
  all: [Item]
  size(shop: Int): Int
}
type Item { _id: String name: String shop: Int }
"""
SHOPS, TAGS, NAMES = range(4), "abc", "pqrstuvw"
TEAMS = ("blue", "red")
IDS = [f"i{number}" for number in range(12)]


class State(NamedTuple):
    """What answers depend on: documents, the limit of the field `first`, and the row filter."""

    documents: Documents
    limit: int = 2
    has_rows: bool = True


class DocumentChange(NamedTuple):
    """A document before and after; `is_replaced`: as a whole, where that is possible."""

    before: Document | None
    after: Document | None
    is_replaced: bool


class Change(NamedTuple):
    """A change: what it leads to, and how it is made."""

    after: State
    way: Way
    apply: Callable[[], Awaitable[object]]


def mappings(service: Service, limit: int = 2) -> Document:
    of_shop = {"shop": {"$arg": "shop"}}
    by_name = {"name": 1, "_id": 1}
    among = {"shop": {"$in": {"$arg": "shops"}}}
    return {
        "Query": {
            "items": service.find("items", of_shop, sort={"_id": 1}),
            "first": service.find("items", of_shop, sort=by_name, limit=limit),
            "second": service.find("items", of_shop, sort=by_name, skip=2, limit=2),
            "among": service.find("items", among, sort={"_id": 1}),
            "tagged": service.find("items", {"tags": {"$arg": "tag"}}, sort={"_id": 1}),
            "named": service.find("items", {"_id": {"$arg": "id"}}),
            "all": service.find("items", {}, sort={"_id": 1}),
            "size": service.find("items", of_shop, count=True),
        }
    }


def build_items_rule(db: str, *, has_rows: bool = True) -> Document:
    """The rule of the callers, with or without a row filter."""
    rows = {"readFilters": {f"{db}.items": {"team": "@user.team"}}} if has_rows else {}
    return {**build_rule("path-prefix('/graphql')", "user", mongo=rows), "_id": "items"}


@dataclass
class Writer:
    """Chooses changes at random."""

    own: Service
    other: Service
    chance: random.Random
    ways: Sequence[Way] = ALL_WAYS
    has_settings: bool = True  # definitions and rules change, too

    @property
    def _db(self) -> Any:
        return self.own.mongo[self.own.db]

    async def prepare(self) -> None:
        """Define the app, and rules for its callers."""
        self._db.create_collection("items")
        await self._define(State({}).limit)
        await self._allow(has_rows=True)

    def choose(self, before: State) -> Change:
        """Return the next change."""
        draw = self.chance.random()
        if draw < 0.1 and "direct" in self.ways:
            return self._choose_collection(before)
        if 0.1 <= draw < 0.2 and "own" in self.ways and self.has_settings:
            return self._choose_settings(before)
        way = self.chance.choice(self.ways)
        changes = {
            id: DocumentChange(one := before.documents.get(id), self._change(one, id), self._draw())
            for id in self.chance.sample(IDS, 3 if draw < 0.35 else 1)
        }
        after = {id: one for id, one in before.documents.items() if id not in changes}
        after |= {id: one.after for id, one in changes.items() if one.after is not None}
        return Change(before._replace(documents=after), way, lambda: self._write(way, changes))

    def _draw(self) -> bool:
        return self.chance.random() < 0.3

    def _change(self, before: Document | None, id: str) -> Document | None:
        chance = self.chance
        fresh = {
            "_id": id,
            "name": chance.choice(NAMES),
            "shop": chance.choice(SHOPS),
            "team": chance.choice(TEAMS),
            "tags": chance.sample(TAGS, chance.randrange(3)),
        }
        if before is None or chance.random() < 0.1:
            return fresh
        if chance.random() < 0.2:
            return None
        name = chance.choice(("name", "shop", "team", "tags"))
        return {**before, name: fresh[name]}

    # --- definitions and rules --------------------------------------------------------------------

    def _choose_settings(self, before: State) -> Change:
        if self.chance.random() < 0.5:
            limit = 5 - before.limit
            return Change(before._replace(limit=limit), "own", lambda: self._define(limit))
        has_rows = not before.has_rows
        after = before._replace(has_rows=has_rows)
        return Change(after, "own", lambda: self._allow(has_rows=has_rows))

    async def _define(self, limit: int) -> None:
        await self.own.define("items", SCHEMA, mappings(self.own, limit), **CACHE)

    async def _allow(self, *, has_rows: bool) -> None:
        await write_rules(self.own, build_items_rule(self.own.db, has_rows=has_rows))

    # --- the collection ---------------------------------------------------------------------------

    def _choose_collection(self, before: State) -> Change:
        """Drop it, rename it, or replace it by another one with other documents."""
        kind = self.chance.choice(("drop", "rename", "replace"))
        if kind != "replace":
            make = self._drop if kind == "drop" else self._rename
            return Change(before._replace(documents={}), "direct", lambda: asyncio.to_thread(make))
        made = (self._change(None, id) for id in self.chance.sample(IDS, 6))
        documents = {one["_id"]: one for one in made if one is not None}
        after = before._replace(documents=documents)
        return Change(after, "direct", lambda: asyncio.to_thread(self._replace, documents))

    def _drop(self) -> None:
        self._db.items.drop()
        self._db.create_collection("items")

    def _rename(self) -> None:
        self._db.items.rename("renamed", dropTarget=True)
        self._db.create_collection("items")

    def _replace(self, documents: Documents) -> None:
        self._db.staged.drop()
        self._db.staged.insert_many([dict(one) for one in documents.values()])
        self._db.staged.rename("items", dropTarget=True)

    # --- documents --------------------------------------------------------------------------------

    async def _write(self, way: Way, changes: Mapping[str, DocumentChange]) -> None:
        if way == "direct":
            await asyncio.to_thread(self._write_direct, changes)
            return
        service = self.own if way == "own" else self.other
        entries = [_build_entry(id, one.before, one.after) for id, one in changes.items()]
        if len(entries) > 1:
            reply = await service.request("POST", "/_batch", headers=ADMIN, json=entries)
            assert len(answers_of(reply)) == len(entries)
            return
        for one in entries:
            reply = await service.request(
                one["method"], one["path"], headers=ADMIN, json=one.get("body")
            )
            assert reply.status in {200, 201, 204}, reply.text

    def _write_direct(self, changes: Mapping[str, DocumentChange]) -> None:
        if len(changes) == 1:
            self._write_each(changes, None)
            return
        with self.own.mongo.start_session() as session:
            session.with_transaction(lambda one: self._write_each(changes, one))

    def _write_each(self, changes: Mapping[str, DocumentChange], session: Any) -> None:
        items = self._db.items
        for id, (before, after, is_replaced) in changes.items():
            if after is None:
                items.delete_one({"_id": id}, session=session)
            elif before is None:
                items.insert_one(dict(after), session=session)
            elif is_replaced:
                items.replace_one({"_id": id}, after, session=session)
            else:
                update = {"$set": _differ(before, after)}
                items.update_one({"_id": id}, update, session=session)


def _build_entry(id: str, before: Document | None, after: Document | None) -> Document:
    """The change of a document in the REST API."""
    method = "DELETE" if after is None else "PUT" if before is None else "PATCH"
    body = None if after is None else _differ(before or {}, after)
    return entry(method, f"/items/{id}?wm=upsert", body)


def _differ(before: Document, after: Document) -> Document:
    """The properties that differ; at least one."""
    changed = {key: one for key, one in after.items() if before.get(key) != one and key != "_id"}
    return changed or {"name": after["name"]}
