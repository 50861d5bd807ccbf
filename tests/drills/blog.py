"""A blog for drills: users, posts and comments, and a GraphQL app that asks for them."""

from __future__ import annotations

import json
from typing import Any

from pymongo import MongoClient

__all__ = [
    "AGGREGATION",
    "INTROSPECTION",
    "NESTED",
    "OPTIONS",
    "POSTS",
    "WRITE",
    "fill",
    "post",
    "query",
]

DB = "blog"
OPTIONS = {"graphql__db": DB, "mongo__mongo_mounts": '[{"what": "/blog", "where": "/blog"}]'}
_USERS, _POSTS, _COMMENTS = 500, 5_000, 10_000
_SCHEMA = """
type Query { posts(limit: Int): [Post] totals: [Total] }
type Post { id: Int title: String score: Int kind: String author: User comments: [Comment] }
type User { id: Int name: String }
type Comment { id: Int text: String }
type Total { kind: String posts: Int }
"""


def _find(collection: str, condition: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"db": DB, "collection": collection, "find": condition, **more}


_MAPPINGS = {
    "Query": {
        "posts": _find("posts", {}, limit={"$arg": "limit"}),
        "totals": {
            "db": DB,
            "collection": "posts",
            "stages": [{"$group": {"_id": "$kind", "posts": {"$sum": 1}}}, {"$sort": {"_id": 1}}],
        },
    },
    "Post": {
        "id": "_id",
        "author": _find("users", {"_id": {"$fk": "authorId"}}),
        "comments": _find("comments", {"postId": {"$fk": "_id"}}),
    },
    "User": {"id": "_id"},
    "Comment": {"id": "_id"},
    "Total": {"kind": "_id"},
}


def fill(mongo: MongoClient[dict[str, Any]]) -> None:
    """Begin with these data and this app, whatever was there."""
    mongo.drop_database(DB)
    db = mongo[DB]
    db["users"].insert_many({"_id": n, "name": f"user {n}"} for n in range(_USERS))
    db["posts"].insert_many(
        {
            "_id": n,
            "title": f"post {n}",
            "score": n % 1000,
            "kind": "note" if n % 3 else "article",
            "authorId": n % _USERS,
        }
        for n in range(_POSTS)
    )
    db["comments"].insert_many(
        {"_id": n, "text": f"comment {n}", "postId": n % _POSTS} for n in range(_COMMENTS)
    )
    db["comments"].create_index("postId")
    db["visits"].insert_one({})
    app = {
        "_id": "blog",
        "descriptor": {"uri": "blog", "name": "blog", "enabled": True},
        "schema": _SCHEMA,
        "mappings": _MAPPINGS,
    }
    db["gql-apps"].insert_one(app)


def query(text: str, *headers: str) -> bytes:
    """A request to the app."""
    return post("/graphql/blog", {"query": text}, *headers)


def post(path: str, content: Any, *headers: str) -> bytes:
    """A request with a JSON body."""
    body = json.dumps(content)
    head = [
        *(f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"),
        *(f"Content-Length: {len(body)}", *headers),
    ]
    return ("\r\n".join(head) + "\r\n\r\n" + body).encode()


POSTS = query("{posts(limit: 20) {id title score kind}}")
NESTED = query("{posts(limit: 20) {id title author {name} comments {text}}}")
AGGREGATION = query("{totals {kind posts}}")
INTROSPECTION = query("{__schema {types {name fields {name type {name}}}}}")
WRITE = post("/blog/visits", {"page": "posts"})
