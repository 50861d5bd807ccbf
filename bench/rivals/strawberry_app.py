"""Strawberry: types as classes, its own DataLoader made anew for each request, ASGI.

The caches of parsing and validation are switched on, as its documentation advises for speed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NewType

import strawberry
from strawberry.asgi import GraphQL
from strawberry.dataloader import DataLoader
from strawberry.extensions import ParserCache, ValidationCache
from strawberry.schema.config import StrawberryConfig

from bench.rivals import documents
from bench.rivals.documents import Document

DateTime = NewType("DateTime", datetime)


class Context:
    """The loaders of one request."""

    def __init__(self) -> None:
        self.users = DataLoader(load_fn=documents.load_users)
        self.comments = DataLoader(load_fn=documents.load_comments)
        self.posts_of = DataLoader(load_fn=documents.load_posts_of)


Info = strawberry.Info[Context, None]


@strawberry.type
class Comment:
    """A comment of a post."""

    id: int
    text: str
    likes: int | None

    @classmethod
    def read(cls, document: Document) -> Comment:
        """From the database."""
        return cls(id=document["_id"], text=document["text"], likes=document["likes"])


@strawberry.type
class User:
    """An author."""

    id: int
    name: str
    email: str | None

    @strawberry.field
    async def posts(self, info: Info, limit: int | None = None) -> list[Post | None] | None:
        """The author's newest posts."""
        found = await info.context.posts_of.load((self.id, limit))
        return [Post.read(one) for one in found]

    @classmethod
    def read(cls, document: Document) -> User:
        """From the database."""
        return cls(id=document["_id"], name=document["name"], email=document["email"])


@strawberry.type
class Post:
    """A post."""

    id: int
    title: str
    kind: str | None
    score: int | None
    rating: float | None
    created: DateTime | None
    tags: list[str | None] | None
    author_id: strawberry.Private[int]

    @strawberry.field
    async def author(self, info: Info) -> User | None:
        """Who wrote it."""
        found = await info.context.users.load(self.author_id)
        return User.read(found) if found else None

    @strawberry.field
    async def comments(self, info: Info, limit: int | None = None) -> list[Comment | None] | None:
        """Its comments with the most likes."""
        found = await info.context.comments.load((self.id, limit))
        return [Comment.read(one) for one in found]

    @classmethod
    def read(cls, document: Document) -> Post:
        """From the database."""
        return cls(
            id=document["_id"],
            title=document["title"],
            kind=document["kind"],
            score=document["score"],
            rating=document["rating"],
            created=document["created"],
            tags=document["tags"],
            author_id=document["authorId"],
        )


@strawberry.type
class Query:
    """Where queries begin."""

    @strawberry.field
    async def post(self, id: int) -> Post | None:
        """One post."""
        found = await documents.find_post(id)
        return Post.read(found) if found else None

    @strawberry.field
    async def posts(self, limit: int | None = None) -> list[Post | None] | None:
        """The newest posts."""
        return [Post.read(one) for one in await documents.find_posts(limit)]


class _Server(GraphQL[Context, None]):
    async def get_context(self, request: Any, response: Any) -> Context:
        return Context()


schema = strawberry.Schema(
    Query,
    extensions=[ParserCache, ValidationCache],
    config=StrawberryConfig(
        scalar_map={
            DateTime: strawberry.scalar(name="DateTime", serialize=documents.serialize_date)
        }
    ),
)
app = _Server(schema, graphql_ide=None)
