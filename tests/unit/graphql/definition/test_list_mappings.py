"""Generated filters: their names, and searches for words in hidden fields."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.graphql.apps.compiled_app import build_app
from docgraph.graphql.definition.check import check_definition
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.definition.generated_types import parse_definition
from docgraph.graphql.definition.list_types import _build_input
from docgraph.graphql.sections import Graphql

PLACE = {"db": "d", "collection": "posts"}
HIDDEN = '@visible(roles: ["editor"])'


def define(sdl: str, **fields: Any) -> dict[str, Any]:
    mappings = {name: {**PLACE, "filter": own} for name, own in fields.items()}
    return {"_id": "app", "schema": sdl, "mappings": {"Query": mappings}}


@pytest.mark.parametrize(
    ("types", "is_hidden"),
    [
        (f"type Post {{ title: String note: String {HIDDEN} }}", True),
        (
            f"type Post {{ title: String notes: [Note] }} type Note {{ a: Int b: ID {HIDDEN} }}",
            True,
        ),
        (f"type Post {{ title: String any: BsonDocument {HIDDEN} }}", True),
        (f"type Post {{ title: String price: Int {HIDDEN} }}", False),
        ("type Post { title: String note: String }", False),
    ],
)
def test_a_search_follows_all_texts_of_the_item(types: str, is_hidden: bool) -> None:
    """A text index may contain them, so that a search would tell what they are."""
    filter_ = {"fields": {"title": ["eq"]}, "search": True}
    definition = define(types + "type Query { posts: [Post] }", posts=filter_)
    app = build_app(decode_definition(definition), Graphql())
    for roles, expected in (((), not is_hidden), (("editor",), True)):
        found: Any = app.visible_to(roles).schema.type_map["PostWhere"]
        assert ("search" in found.fields) is expected
        assert "title" in found.fields


def test_a_name_that_two_fields_generate_is_an_error() -> None:
    sdl = """
    type QueryDrafts { title: String } type Post { title: String size: Int }
    type Query { others: [QueryDrafts] posts: [Post] drafts: [Post] }
    """
    title, size = {"fields": {"title": ["eq"]}}, {"fields": {"size": ["eq"]}}
    definition = define(sdl, others=title, posts=title, drafts=size)
    (error,) = check_definition(definition, settings=Graphql()).errors
    assert "generates the type QueryDraftsWhere" in error.what


@pytest.mark.parametrize(
    ("connection", "is_wrong"), [({}, True), ({"field": "postPages"}, False)], ids=str
)
def test_a_list_of_an_interface_stays_a_list(connection: Any, is_wrong: bool) -> None:
    sdl = """
    interface Owner { posts: [Post] } type User implements Owner { posts: [Post] }
    type Post { title: String } type Query { users: [User] }
    """
    paged = {**PLACE, "connection": connection}
    mappings: dict[str, Any] = {"Owner": {"$typeResolver": {"User": "true"}}}
    mappings |= {"Query": {"users": {"db": "d", "collection": "users"}}, "User": {"posts": paged}}
    definition = {"_id": "app", "schema": sdl, "mappings": mappings}
    errors = check_definition(definition, settings=Graphql()).errors
    assert [one.what for one in errors] == ["the interface Owner has posts as a list"] * is_wrong


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ({}, ""),
        (
            {"exists": "Boolean", "inner": "[Inner!]", "title": "PostTitle!"},
            '{ "Whether there is a value." exists: Boolean inner: [Inner!] title: PostTitle! }',
        ),
    ],
)
def test_generated_inputs_are_those_that_the_parser_returns(
    fields: dict[str, str], body: str
) -> None:
    parsed = parse_definition(f'"Conditions." input PostWhere {body}')
    assert _build_input("PostWhere", fields, "Conditions.") == parsed
