"""A compiled app and plans of it, without a database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphql import parse, validate

from docgraph.graphql.apps.compiled_app import VisibleApp, build_app
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.plan.plan import Plan, build_plan
from docgraph.graphql.plan.plan_tree import Fetch
from docgraph.graphql.sections import Graphql

SCHEMA = """
type Query {
  post(id: Int!): Post
  posts(limit: Int = 0, draft: Boolean = false): [Post]
  things: [Thing]
  unmapped: String
}
type Post {
  _id: Int!
  title: String
  city: String
  first: String
  tags: [String]
  cities: [String]
  box: Box
  raw: BsonDocument
  author: User
  later(limit: Int = 5): [Post]
  near: [Post]
}
type Box { n: Int }
type User { _id: Int! name: String posts: [Post] }
union Thing = Post | User
"""

MAPPINGS: dict[str, Any] = {
    "Query": {
        "post": {"db": "blog", "collection": "posts", "find": {"_id": {"$arg": "id"}}},
        "posts": {
            "db": "blog",
            "collection": "posts",
            "find": {"draft": {"$arg": "draft"}},
            "sort": {"_id": 1},
            "limit": {"$arg": "limit"},
        },
        "things": {"db": "blog", "collection": "things", "find": {}},
    },
    "Post": {
        "city": "place.city",
        "first": "tags.0",
        "cities": "places.city",
        "raw": "box",
        "author": {"db": "blog", "collection": "users", "find": {"_id": {"$fk": "authorId"}}},
        "later": {
            "db": "blog",
            "collection": "posts",
            "find": {"_id": {"$gt": {"$fk": "_id"}}},
            "limit": {"$arg": "limit"},
        },
        "near": {
            "db": "blog",
            "collection": "posts",
            "find": {"place.zip": {"$arg": ["rootDoc.place.zip", None]}},
        },
    },
    "User": {
        "posts": {"db": "blog", "collection": "posts", "find": {"authorId": {"$fk": "_id"}}},
    },
    "Thing": {"$typeResolver": {"Post": "field-exists(title)", "User": "field-exists(name)"}},
}


def make_app(
    schema: str = SCHEMA, mappings: Mapping[str, Any] = MAPPINGS, **settings: Any
) -> VisibleApp:
    """An app as everybody sees it."""
    definition = {"_id": "blog", "schema": schema, "mappings": mappings}
    return build_app(decode_definition(definition), Graphql(**settings)).visible_to(())


def make_plan(query: str, app: VisibleApp | None = None, operation: str | None = None) -> Plan:
    """The plan of a valid query."""
    app = app or make_app()
    document = parse(query)
    assert validate(app.schema, document) == []
    return build_plan(app, document, operation)


def first_fetch(query: str) -> Fetch:
    """The first fetch of a query without conditions."""
    return make_plan(query).tree({}).fetches[0]
