"""Generated types: additions to the SDL, and how they follow the author's fields."""

from __future__ import annotations

from typing import Any

import pytest
from graphql import (
    FieldDefinitionNode,
    GraphQLSchema,
    ObjectTypeDefinitionNode,
    parse,
    print_schema,
)

from docgraph.graphql.definition.check import check_definition
from docgraph.graphql.definition.findings import Findings
from docgraph.graphql.definition.generated_types import (
    MAX_GENERATED,
    GeneratedTypes,
    parse_arguments,
    parse_definition,
)
from docgraph.graphql.definition.schema import build_schema, parse_schema
from docgraph.graphql.definition.visibility import (
    build_visible_schema,
    find_visible,
    read_visibility,
)
from docgraph.graphql.sections import Graphql

SDL = """
type Query { posts(limit: Int): [Post] }
type Post { title: String  status: String @visible(roles: ["editor"])  author: User }
type User { name: String @visible(roles: ["editor"]) }
extend type Query { post: Post }
"""


def parse_field(text: str) -> FieldDefinitionNode:
    """Return the field definition of a text: `postsConnection(first: Int): PostConnection`."""
    node = parse_definition(f"type Fields {{ {text} }}")
    assert isinstance(node, ObjectTypeDefinitionNode)
    (field,) = node.fields or ()
    return field


def build(text: str = SDL) -> tuple[GeneratedTypes, Findings]:
    findings = Findings()
    return GeneratedTypes(parse_schema(text), findings), findings


def add_where(generated: GeneratedTypes) -> None:
    fields = "title: String, status: String, author: UserWhere, and: [PostWhere!]"
    generated.add_type(parse_definition(f"input PostWhere {{ {fields} }}"), "here")
    generated.add_type(parse_definition("input UserWhere { name: String, not: UserWhere }"), "here")
    generated.add_arguments("Query", "posts", parse_arguments("where: PostWhere"), "here")
    for name in ("title", "status", "author"):
        generated.follow(("PostWhere", name), ("Post", name))
    generated.follow(("UserWhere", "name"), ("User", "name"))


def see(generated: GeneratedTypes, *roles: str) -> GraphQLSchema:
    document = generated.extend()
    schema = build_schema(document)
    visibility = read_visibility(schema, generated.follows)
    hidden = visibility.hidden_from(roles)
    return build_visible_schema(document, schema, hidden, follows=visibility.follows)


def test_the_schema_has_the_additions() -> None:
    generated, findings = build()
    assert not generated
    add_where(generated)
    generated.add_field("Query", parse_field("count(first: Int): Int!"), "here")
    generated.replace_field_type("Query", "post", "User!")

    text = print_schema(build_schema(generated.extend()))

    assert generated
    assert "posts(limit: Int, where: PostWhere): [Post]" in text
    assert "count(first: Int): Int!" in text
    assert "post: User!" in text
    assert findings.errors == []


def test_the_parsed_sdl_stays_as_it_is() -> None:
    """Decision 56."""
    document = parse_schema(SDL)
    generated = GeneratedTypes(document, Findings())
    add_where(generated)

    generated.extend()

    assert document == parse(SDL)


def test_generated_inputs_follow_their_fields() -> None:
    """Decisions 20 and 56."""
    generated, _ = build()
    add_where(generated)

    everything, little = print_schema(see(generated, "editor")), print_schema(see(generated))

    assert "status: String" in everything
    assert "author: UserWhere" in everything
    assert "status" not in little
    assert "UserWhere" not in little  # only `not` would be left
    assert "author" not in little
    assert "input PostWhere {\n  title: String\n  and: [PostWhere!]\n}" in little


def test_an_argument_disappears_with_its_type() -> None:
    generated, _ = build()
    add_where(generated)
    generated.follow(("PostWhere", "title"), ("Post", "status"))

    text = print_schema(see(generated))

    assert "posts(limit: Int): [Post]" in text
    assert "PostWhere" not in text


def test_arguments_and_types_can_follow_fields() -> None:
    generated, _ = build()
    add_where(generated)
    generated.follow(("Query", "posts", "where"), ("Post", "status"))
    assert "where" not in print_schema(see(generated))

    generated, _ = build()
    generated.add_type(parse_definition("type Summary { total: Int }"), "here")
    generated.add_field("Query", parse_field("summary: Summary"), "here")
    generated.follow(("Summary",), ("Post", "status"))
    assert "ummary" not in print_schema(see(generated))
    assert "summary: Summary" in print_schema(see(generated, "editor"))


def test_the_matrix_of_visible_fields_has_generated_ones() -> None:
    generated, _ = build()
    add_where(generated)
    schema = build_schema(generated.extend())
    visibility = read_visibility(schema, generated.follows)

    seen = find_visible(schema, visibility.hidden_from(()), visibility.follows)

    assert ("PostWhere", "title") in seen
    assert ("PostWhere", "status") not in seen


def test_inputs_of_the_author_stay() -> None:
    text = SDL + "input Tree { below: Tree }  extend type Query { find(tree: Tree): Post }"
    generated, _ = build(text)
    add_where(generated)

    assert "input Tree {\n  below: Tree\n}" in print_schema(see(generated))


def test_a_type_of_the_same_shape_is_shared() -> None:
    text = SDL + 'input UserWhere { "The name." not: UserWhere  name: String }'
    generated, findings = build(text)
    add_where(generated)

    assert print_schema(see(generated, "editor")).count("input UserWhere") == 1
    assert findings.errors == []


def test_a_type_of_another_shape_is_an_error() -> None:
    generated, findings = build(SDL + "input UserWhere { name: Int }")
    add_where(generated)

    assert [str(one) for one in findings.errors] == [
        "here: generates the type UserWhere, which the schema has with another shape"
    ]


def test_declared_arguments_need_the_right_type() -> None:
    text = SDL + "extend type Query { a(where: String): [Post]  b(where: UserWhere): [Post] }"
    findings = Findings()
    generated = GeneratedTypes(parse(text), findings)
    for name in ("a", "b"):
        arguments = parse_arguments("where: UserWhere")
        generated.add_arguments("Query", name, arguments, f"mappings.Query.{name}")

    assert [str(one) for one in findings.errors] == [
        "mappings.Query.a: needs an argument where of the type UserWhere"
    ]


def test_a_field_is_added_once() -> None:
    generated, findings = build()
    generated.add_field("Query", parse_field("post: Post"), "here")
    assert [one.what for one in findings.errors] == ["the type Query already has a field post"]


def test_the_number_of_generated_fields_is_bounded() -> None:
    generated, findings = build()
    fields = " ".join(f"f{number}: Int" for number in range(MAX_GENERATED + 1))
    generated.add_type(parse_definition(f"input PostWhere {{ {fields} }}"), "here")
    generated.add_type(parse_definition("input UserWhere { name: Int }"), "here")
    assert len(findings.errors) == 1


def test_many_filters_end_with_an_error() -> None:
    """Each shape is another type: what they generate together is bounded, and so is the work."""
    names = [f"f{number}" for number in range(200)]
    posts = " ".join(f"p{number}: [Post]" for number in range(70))
    fields = " ".join(f"{name}: Int" for name in names)
    mappings = {
        f"p{number}": {
            "db": "d",
            "collection": "c",
            "filter": {"fields": {name: ["eq"] for name in names if name != f"f{number}"}},
        }
        for number in range(70)
    }
    schema = f"type Query {{ {posts} }} type Post {{ {fields} }}"
    definition = {"_id": "app", "schema": schema, "mappings": {"Query": mappings}}
    report = check_definition(definition, settings=Graphql())
    assert [one.what for one in report.errors] == [
        f"the mappings generate more than {MAX_GENERATED} fields"
    ]


def test_equal_filters_share_their_types() -> None:
    posts = " ".join(f"p{number}: [Post]" for number in range(100))
    names = {f"f{number}": ["eq"] for number in range(150)}
    fields = " ".join(f"{name}: Int" for name in names)
    mapping = {"db": "d", "collection": "c", "filter": {"fields": names}}
    definition = {
        "_id": "app",
        "schema": f"type Query {{ {posts} }} type Post {{ {fields} }}",
        "mappings": {"Query": {f"p{number}": mapping for number in range(100)}},
    }
    assert check_definition(definition, settings=Graphql()).errors == ()


@pytest.mark.parametrize(
    ("mapping", "errors", "warnings"),
    [
        (
            {"stages": [{"$match": {}}], "filter": {"fields": {"title": ["eq"]}}},
            [],
            ["mappings.Query.posts.filter: has no effect beside stages"],
        ),
        (
            {"find": {"$text": {"$search": {"$arg": "limit"}}}, "filter": {"search": True}},
            ["mappings.Query.posts.filter.search: find has a search already, and may have one"],
            [],
        ),
        (
            {"filter": {"fields": {"title": ["eq"]}, "index-only": True}},
            [],
            ["mappings.Query.posts.filter.index-only: is not known and has no effect"],
        ),
        (
            {"filters": {"fields": {"title": ["eq"]}}},
            [],
            ["mappings.Query.posts.filters: is not known and has no effect"],
        ),
    ],
)
def test_wrong_uses_are_reported(
    mapping: dict[str, Any], errors: list[str], warnings: list[str]
) -> None:
    query = {
        "posts": {"db": "d", "collection": "c", **mapping},
        "post": {"db": "d", "collection": "c"},
    }
    definition = {"_id": "app", "schema": SDL, "mappings": {"Query": query}}
    report = check_definition(definition, settings=Graphql())
    assert [str(one) for one in report.errors] == errors
    found = [str(one) for one in report.warnings if "argument limit" not in str(one)]
    assert found == warnings
