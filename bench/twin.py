"""The twin: a hand-written handler for each rung, on the same server and driver.

It sends exactly the commands that the data needs and builds the same JSON: the ceiling that a
generic engine is measured against. Start it with `uvicorn`, MONGO_URI in the environment.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import orjson
from pymongo import AsyncMongoClient

from bench import related, row_filters
from bench.data import DB
from bench.workloads import ROW_FILTERS, WORKLOADS

Handler = Callable[[dict[str, Any]], Awaitable[Any]]
_EPOCH = datetime(1970, 1, 1)
_MAX_BELOW = 5  # comments of a post and posts of an author that the queries ask for
_FLAT = {"title": 1, "kind": 1, "score": 1, "rating": 1, "created": 1, "tags": 1}
_client: AsyncMongoClient[dict[str, Any]] | None = None


def _db() -> Any:
    global _client  # noqa: PLW0603 - one client per process, made inside its event loop
    if _client is None:
        _client = AsyncMongoClient(os.environ["MONGO_URI"])
    return _client[DB]


def _milliseconds(value: Any) -> dict[str, int]:
    return {"$date": int((value - _EPOCH).total_seconds() * 1000)}


async def typename(variables: dict[str, Any]) -> Any:
    """W0"""
    return {"__typename": "Query"}


async def post(variables: dict[str, Any]) -> Any:
    """W1"""
    db = _db()
    found = await db.posts.find_one({"_id": variables["id"]}, {"title": 1, "authorId": 1})
    if found is None:
        return {"post": None}
    author = await db.users.find_one({"_id": found["authorId"]}, {"name": 1, "_id": 0})
    return {
        "post": {
            "id": found["_id"],
            "title": found["title"],
            "author": author and {"name": author["name"]},
        }
    }


def flat(limit: int) -> Handler:
    """W2"""

    async def handle(variables: dict[str, Any]) -> Any:
        rows = await _posts(limit, _FLAT)
        return {
            "posts": [
                {
                    "id": row["_id"],
                    "title": row["title"],
                    "kind": row["kind"],
                    "score": row["score"],
                    "rating": row["rating"],
                    "created": _milliseconds(row["created"]),
                    "tags": row["tags"],
                }
                for row in rows
            ]
        }

    return handle


async def _posts(limit: int, projection: dict[str, int]) -> list[dict[str, Any]]:
    cursor = _db().posts.find({}, projection, sort=[("created", -1)], limit=limit, batch_size=limit)
    rows: list[dict[str, Any]] = await cursor.to_list()
    return rows


async def _users(ids: set[int], projection: dict[str, int]) -> dict[int, dict[str, Any]]:
    cursor = _db().users.find(
        {"_id": {"$in": list(ids)}}, projection, limit=len(ids), batch_size=len(ids) + 1
    )
    return {user["_id"]: user for user in await cursor.to_list()}


async def to_one(variables: dict[str, Any]) -> Any:
    """W3"""
    rows = await _posts(100, {"title": 1, "authorId": 1})
    users = await _users({row["authorId"] for row in rows}, {"name": 1})
    return {
        "posts": [
            {
                "id": row["_id"],
                "title": row["title"],
                "author": {"id": row["authorId"], "name": users[row["authorId"]]["name"]},
            }
            for row in rows
        ]
    }


async def to_many(variables: dict[str, Any]) -> Any:
    """W4"""
    rows = await _posts(20, {"title": 1})
    cursor = _db().comments.find(
        {"postId": {"$in": [row["_id"] for row in rows]}},
        {"text": 1, "likes": 1, "postId": 1},
        sort=[("likes", -1)],
        batch_size=10_000,
    )
    comments: dict[int, list[Any]] = {row["_id"]: [] for row in rows}
    for one in await cursor.to_list():
        under = comments[one["postId"]]
        if len(under) < _MAX_BELOW:
            under.append({"id": one["_id"], "text": one["text"], "likes": one["likes"]})
    return {
        "posts": [
            {"id": row["_id"], "title": row["title"], "comments": comments[row["_id"]]}
            for row in rows
        ]
    }


async def three_levels(variables: dict[str, Any]) -> Any:
    """W5"""
    rows = await _posts(20, {"title": 1, "authorId": 1})
    ids = {row["authorId"] for row in rows}
    users = await _users(ids, {"name": 1})
    cursor = _db().posts.find(
        {"authorId": {"$in": list(ids)}},
        {"title": 1, "authorId": 1},
        sort=[("created", -1)],
        batch_size=10_000,
    )
    under: dict[int, list[Any]] = {id: [] for id in ids}
    for one in await cursor.to_list():
        posts = under[one["authorId"]]
        if len(posts) < _MAX_BELOW:
            posts.append({"id": one["_id"], "title": one["title"]})
    return {
        "posts": [
            {
                "id": row["_id"],
                "title": row["title"],
                "author": {
                    "name": users[row["authorId"]]["name"],
                    "posts": under[row["authorId"]],
                },
            }
            for row in rows
        ]
    }


async def union(variables: dict[str, Any]) -> Any:
    """W6"""
    rows = await _posts(100, {"title": 1, "kind": 1, "score": 1, "rating": 1})
    items = []
    for row in rows:
        if row["kind"] == "article":
            items.append(
                {
                    "__typename": "Article",
                    "id": row["_id"],
                    "title": row["title"],
                    "score": row["score"],
                }
            )
        else:
            items.append(
                {
                    "__typename": "Note",
                    "id": row["_id"],
                    "title": row["title"],
                    "rating": row["rating"],
                }
            )
    return {"items": items}


async def tags(variables: dict[str, Any]) -> Any:
    """W7"""
    cursor = await _db().posts.aggregate(
        [
            {"$match": {"score": {"$gte": 900}}},
            {"$unwind": "$tags"},
            {"$group": {"_id": "$tags", "posts": {"$sum": 1}}},
            {"$match": {"posts": {"$gte": 150}}},
            {"$sort": {"_id": 1}},
        ]
    )
    return {"tags": [{"tag": one["_id"], "posts": one["posts"]} for one in await cursor.to_list()]}


def _render(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "created": _milliseconds(document["created"])}


async def document(variables: dict[str, Any]) -> Any:
    """R1"""
    return _render(await _db().posts.find_one({"_id": 4711}))


def page(limit: int) -> Handler:
    """R2"""

    async def handle(variables: dict[str, Any]) -> Any:
        cursor = _db().posts.find({}, sort=[("_id", -1)], limit=limit, batch_size=limit)
        return [_render(one) for one in await cursor.to_list()]

    return handle


async def long(variables: dict[str, Any]) -> Any:
    """W12"""
    fields = {"title": 1, "body": 1}
    found = await asyncio.gather(*(_posts(1000, fields) for _ in range(3)))
    return {
        f"p{number}": [
            {"id": row["_id"], "title": row["title"], "body": row["body"]} for row in rows
        ]
        for number, rows in enumerate(found)
    }


async def _find_notes(name: str) -> list[dict[str, Any]]:
    notes = _db()[row_filters.COLLECTION]
    filter = {"team": row_filters.TEAM, **row_filters.FILTERS[name]}
    fields = {"title": 1, "kind": 1, "score": 1}
    limit = row_filters.LIMIT
    cursor = notes.find(filter, fields, sort=[("created", -1)], limit=limit, batch_size=limit)
    rows: list[dict[str, Any]] = await cursor.to_list()
    return rows


def notes(name: str) -> Handler:
    """W14"""

    async def handle(variables: dict[str, Any]) -> Any:
        rows = await _find_notes(name)
        return {name: [{"id": row.pop("_id"), **row} for row in rows]}

    return handle


def notes_page(name: str) -> Handler:
    """W14 by REST"""

    async def handle(variables: dict[str, Any]) -> Any:
        return await _find_notes(name)

    return handle


async def related_orders(variables: dict[str, Any]) -> Any:
    """W19, a condition"""
    rows = await related.find_orders(_db())
    return {"orders": [{"id": row.pop("_id"), **row} for row in rows]}


def counted_customers(direction: int) -> Handler:
    """W19, an order"""

    async def handle(variables: dict[str, Any]) -> Any:
        rows = await related.find_customers(_db(), direction)
        return {"customers": [{"id": row.pop("_id"), **row} for row in rows]}

    return handle


HANDLERS: dict[str, Handler] = {
    "W0": typename,
    "W1": post,
    "W2-20": flat(20),
    "W2-100": flat(100),
    "W2-1000": flat(1000),
    "W3": to_one,
    "W4": to_many,
    "W5": three_levels,
    "W6": union,
    "W7": tags,
    "R1": document,
    "R2": page(100),
    "R2-1000": page(1000),
    "W12": long,
    "W19-filter": related_orders,
    "W19-asc": counted_customers(1),
    "W19-desc": counted_customers(-1),
    **{f"W14-{name}": notes(name) for name in row_filters.FILTERS},
    **{f"W14-{name}-rest": notes_page(name) for name in row_filters.FILTERS},
}
_KNOWN = [one for one in (*WORKLOADS, *ROW_FILTERS, *related.WORKLOADS) if one.id in HANDLERS]
_BY_QUERY = {one.query: HANDLERS[one.id] for one in _KNOWN if one.query}
_BY_PATH = {one.path: HANDLERS[one.id] for one in _KNOWN if not one.query}


async def app(scope: Any, receive: Any, send: Any) -> None:
    """The ASGI application."""
    if scope["type"] != "http":
        return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    if body:
        request = orjson.loads(body)
        data = await _BY_QUERY[request["query"]](request["variables"])
        content = orjson.dumps({"data": data})
    else:
        target = (scope["raw_path"] + b"?" + scope["query_string"]).decode()
        content = orjson.dumps(await _BY_PATH[target]({}))
    headers = [
        (b"content-type", b"application/graphql-response+json; charset=utf-8"),
        (b"content-length", str(len(content)).encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})
