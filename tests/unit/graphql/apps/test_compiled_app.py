"""Apps: compiled definitions, and what each caller sees of them."""

from __future__ import annotations

from typing import Any

import pytest
from graphql import GraphQLEnumType, parse, validate
from graphql.execution.values import get_argument_values

from docgraph.exchange.errors import DefinitionError
from docgraph.graphql.apps.compiled_app import MAX_VIEWS, App, build_app
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.definition.mapping import AggregationMapping, FieldMapping, QueryMapping
from docgraph.graphql.sections import Graphql, GraphqlLimits

SDL = """
type Query {
  posts(status: Status = LIVE): [Post]
  stats: [Stat] @visible(roles: ["admin"])
  unmapped: Int
}
type Post { title: String author: User }
type User { name: String @visible(roles: ["admin", "editor"]) id: ID }
type Stat { n: Int }
enum Status { DRAFT LIVE }
"""
MAPPINGS: dict[str, Any] = {
    "Query": {
        "posts": {"db": "blog", "collection": "posts", "find": {"status": {"$arg": "status"}}},
        "stats": {"db": "blog", "collection": "posts", "stages": [{"$count": "n"}]},
    },
    "Post": {
        "title": "meta.title",
        "author": {"db": "blog", "collection": "users", "find": {"_id": {"$fk": "author"}}},
    },
    "Status": {"LIVE": 1},
}


def make_app(schema: str = SDL, settings: Graphql | None = None, **descriptor: Any) -> App:
    document = {"_id": "blog", "schema": schema, "mappings": MAPPINGS, "descriptor": descriptor}
    return build_app(decode_definition(document), settings or Graphql())


def test_every_field_but_those_of_query_has_a_mapping() -> None:
    app = make_app()

    assert isinstance(app.mappings["Query"]["posts"], QueryMapping)
    assert isinstance(app.mappings["Query"]["stats"], AggregationMapping)
    assert "unmapped" not in app.mappings["Query"]
    assert app.mappings["Post"]["title"] == FieldMapping(("meta", "title"))
    assert app.mappings["User"] == {"name": FieldMapping(("name",)), "id": FieldMapping(("id",))}
    assert app.mappings["Stat"] == {"n": FieldMapping(("n",))}


def test_fields_of_extensions_have_their_default_mapping_too() -> None:
    app = make_app(SDL + " extend type Stat { more: Int }")

    assert app.mappings["Stat"]["more"] == FieldMapping(("more",))


def test_enum_arguments_are_coerced_to_what_is_stored() -> None:
    """Graphql-behaviour 5.1: a name without mapping stores itself."""
    app = make_app()
    for schema in (app.schema, app.visible_to([]).schema):
        assert schema.query_type is not None
        field = schema.query_type.fields["posts"]
        (given,) = parse("{posts(status: DRAFT)}").definitions[0].selection_set.selections  # type: ignore[attr-defined]
        (default,) = parse("{posts}").definitions[0].selection_set.selections  # type: ignore[attr-defined]

        assert get_argument_values(field, given) == {"status": "DRAFT"}
        assert get_argument_values(field, default) == {"status": 1}
        assert isinstance(schema.type_map["Status"], GraphQLEnumType)
    assert app.enums["Status"].name_of(1.0) == "LIVE"


def test_limits_are_those_of_the_section_with_the_apps_own() -> None:
    """Decision 26."""
    settings = Graphql(limits=GraphqlLimits(depth=9))

    app = make_app(settings=settings, limits={"aliases": 3})

    assert (app.limits.depth, app.limits.aliases, app.limits.tokens) == (9, 3, 2500)


def test_a_wrong_definition_lists_every_error() -> None:
    document = {
        "_id": "x",
        "schema": "type Query { a: Foo }",
        "mappings": {"Query": {"a": {"db": 1}}},
    }

    with pytest.raises(DefinitionError) as error:
        build_app(decode_definition(document), Graphql())

    assert error.value.message.startswith(
        "Wrong GraphQL App definition: schema (line 1, column 17)"
    )
    assert len(error.value.message.splitlines()) == 3


def test_callers_with_the_same_roles_that_matter_share_a_view() -> None:
    """Decision 20."""
    app = make_app()

    anonymous = app.visible_to([])

    assert app.visible_to(["reader", "other"]) is anonymous
    assert anonymous.key == frozenset()
    assert app.visible_to(["editor", "x"]).key == {"editor"}
    assert app.visible_to(("admin",)).schema is app.schema
    assert anonymous.app.mappings is app.mappings
    assert anonymous.app.version == app.version


def test_views_hide_what_their_roles_do_not_see() -> None:
    app = make_app()
    query = parse("{stats{n} posts{author{name}}}")

    assert validate(app.visible_to(["admin"]).schema, query) == []
    assert len(validate(app.visible_to(["editor"]).schema, query)) == 1
    assert len(validate(app.visible_to([]).schema, query)) == 2
    assert "Stat" not in app.visible_to([]).schema.type_map


def test_views_are_bounded() -> None:
    roles = [f"r{i}" for i in range(8)]
    fields = " ".join(f'f{i}: Int @visible(roles: ["{role}"])' for i, role in enumerate(roles))
    app = make_app(f"type Query {{ a: Int {fields} }}")

    for number in range(2**8):
        held = [role for i, role in enumerate(roles) if number >> i & 1]
        assert app.visible_to(held).key == frozenset(held)

    assert len(app._views) == MAX_VIEWS


def test_without_visible_everybody_sees_the_whole_schema() -> None:
    app = make_app("type Query { a: Int } type Orphan { b: Int }")

    assert app.visible_to(["any"]).schema is app.schema
