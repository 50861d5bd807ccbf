"""What the rivals in Python read: a find for a list, and a batch for a relation.

Each function sends one command, as the twin does. The projections name what the schema shows of a
type, the relations of many parents are read with `$in` and handed out in the order of the keys.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Any

from pymongo import AsyncMongoClient

from bench.data import DB

Document = Mapping[str, Any]
Under = tuple[int, int | None]  # the children of a parent, at most so many

_POST = dict.fromkeys(("title", "kind", "score", "rating", "created", "tags", "authorId"), 1)
_USER = {"name": 1, "email": 1}
_COMMENT = {"text": 1, "likes": 1, "postId": 1}
_EPOCH = datetime(1970, 1, 1)
_ONE_BATCH = 10_000


@cache
def _db() -> Any:
    return AsyncMongoClient(os.environ["MONGO_URI"])[DB]


def serialize_date(value: datetime) -> dict[str, int]:
    """A date as docgraph writes it."""
    return {"$date": int((value - _EPOCH).total_seconds() * 1000)}


async def find_post(id: int) -> Document | None:
    """One post."""
    found: Document | None = await _db().posts.find_one({"_id": id}, _POST)
    return found


async def find_posts(limit: int | None) -> list[Document]:
    """The newest posts."""
    cursor = _db().posts.find(
        {}, _POST, sort=[("created", -1)], limit=limit or 0, batch_size=limit or _ONE_BATCH
    )
    found: list[Document] = await cursor.to_list()
    return found


async def load_users(ids: Sequence[int]) -> list[Document | None]:
    """The users with these ids."""
    cursor = _db().users.find({"_id": {"$in": list(ids)}}, _USER, batch_size=_ONE_BATCH)
    users = {user["_id"]: user for user in await cursor.to_list()}
    return [users.get(id) for id in ids]


async def load_comments(keys: Sequence[Under]) -> list[list[Document]]:
    """The comments with the most likes of each post."""
    return await _load_under("comments", "postId", keys, projection=_COMMENT, sort="likes")


async def load_posts_of(keys: Sequence[Under]) -> list[list[Document]]:
    """The newest posts of each author."""
    return await _load_under("posts", "authorId", keys, projection=_POST, sort="created")


async def _load_under(
    collection: str,
    foreign_key: str,
    keys: Sequence[Under],
    *,
    projection: Mapping[str, int],
    sort: str,
) -> list[list[Document]]:
    under: dict[int, list[Document]] = {parent: [] for parent, _ in keys}
    cursor = _db()[collection].find(
        {foreign_key: {"$in": list(under)}}, projection, sort=[(sort, -1)], batch_size=_ONE_BATCH
    )
    for document in await cursor.to_list():
        under[document[foreign_key]].append(document)
    return [list(islice(under[parent], limit)) for parent, limit in keys]
