"""The data of the ladder: 1 000 users, 10 000 posts, 30 000 comments, seeded."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

from pymongo import MongoClient

DB = "bench"
USERS, POSTS, COMMENTS = 1_000, 10_000, 30_000
_WORDS = "graph query index cache stream shard batch plan fetch join".split()


def load(uri: str, *, posts: int = POSTS, comments: int = COMMENTS) -> None:
    """Write the collections anew, with indexes on the foreign keys."""
    source = random.Random(7)
    with MongoClient[dict[str, Any]](uri) as client:
        client.drop_database(DB)
        db = client[DB]
        db.users.insert_many([_user(source, n) for n in range(USERS)])
        db.posts.insert_many([_post(source, n) for n in range(posts)])
        db.comments.insert_many([_comment(source, n, posts) for n in range(comments)])
        db.posts.create_index([("authorId", 1), ("created", -1)])
        db.posts.create_index([("created", -1)])
        db.comments.create_index([("postId", 1), ("likes", -1)])


def _text(source: random.Random, words: int) -> str:
    return " ".join(source.choices(_WORDS, k=words))


def _user(source: random.Random, number: int) -> dict[str, Any]:
    return {
        "_id": number,
        "name": f"user {number}",
        "email": f"user{number}@example.org",
        "bio": _text(source, 20),
        "joined": datetime(2020, 1, 1) + timedelta(hours=number),
    }


def _post(source: random.Random, number: int) -> dict[str, Any]:
    return {
        "_id": number,
        "title": _text(source, 5),
        "body": _text(source, 40),
        "kind": source.choice(("article", "note")),
        "authorId": source.randrange(USERS),
        "created": datetime(2022, 1, 1) + timedelta(minutes=number),
        "score": source.randrange(1_000),
        "rating": round(source.uniform(0, 5), 2),
        "tags": source.sample(_WORDS, 2),
    }


def _comment(source: random.Random, number: int, posts: int) -> dict[str, Any]:
    return {
        "_id": number,
        "postId": source.randrange(posts),
        "authorId": source.randrange(USERS),
        "text": _text(source, 8),
        "likes": number,
    }
