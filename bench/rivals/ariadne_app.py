"""Ariadne: a schema file with resolvers bound to it, loaders of `aiodataloader`, ASGI.

Parsed and validated queries are kept, as the chapter of its documentation on the query stack shows.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from aiodataloader import DataLoader
from ariadne import (
    ObjectType,
    QueryType,
    ScalarType,
    load_schema_from_path,
    make_executable_schema,
)
from ariadne.asgi import GraphQL
from graphql import DocumentNode, GraphQLError, GraphQLResolveInfo, GraphQLSchema, parse, validate

from bench.rivals import documents
from bench.rivals.documents import Document

Info = GraphQLResolveInfo[Any]

query, post, user, comment = (
    QueryType(),
    ObjectType("Post"),
    ObjectType("User"),
    ObjectType("Comment"),
)
date_time = ScalarType("DateTime", serializer=documents.serialize_date)
for type_ in (post, user, comment):
    type_.set_alias("id", "_id")


def build_context(request: Any, data: Any) -> dict[str, Any]:
    """The loaders of one request."""
    return {
        "users": DataLoader(documents.load_users),
        "comments": DataLoader(documents.load_comments),
        "posts_of": DataLoader(documents.load_posts_of),
    }


@query.field("post")
async def resolve_post(_: Any, info: Info, id: int) -> Document | None:
    """One post."""
    return await documents.find_post(id)


@query.field("posts")
async def resolve_posts(_: Any, info: Info, limit: int | None = None) -> list[Document]:
    """The newest posts."""
    return await documents.find_posts(limit)


@post.field("author")
def resolve_author(obj: Document, info: Info) -> Any:
    """Who wrote it."""
    return info.context["users"].load(obj["authorId"])


@post.field("comments")
def resolve_comments(obj: Document, info: Info, limit: int | None = None) -> Any:
    """Its comments with the most likes."""
    return info.context["comments"].load((obj["_id"], limit))


@user.field("posts")
def resolve_posts_of(obj: Document, info: Info, limit: int | None = None) -> Any:
    """The author's newest posts."""
    return info.context["posts_of"].load((obj["_id"], limit))


@lru_cache(maxsize=64)
def _parse(text: str) -> DocumentNode:
    return parse(text)


@lru_cache(maxsize=64)
def _validate(schema: GraphQLSchema, document: DocumentNode) -> list[GraphQLError]:
    return validate(schema, document)


def parse_query(context: Any, data: dict[str, Any]) -> DocumentNode:
    """A document, kept by its text."""
    return _parse(data["query"])


def validate_query(
    schema: GraphQLSchema, document_ast: DocumentNode, *_: Any, **__: Any
) -> list[GraphQLError]:
    """What is wrong with it, kept too."""
    return _validate(schema, document_ast)


schema = make_executable_schema(
    load_schema_from_path(str(Path(__file__).parent / "schema.graphql")),
    query,
    post,
    user,
    comment,
    date_time,
)
app = GraphQL(
    schema,
    context_value=build_context,
    query_parser=parse_query,
    query_validator=validate_query,
    introspection=False,
)
