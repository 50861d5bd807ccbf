"""The SDL of a subgraph: the directives of the specification, and what gateways get."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest
from graphql import introspection_from_schema

from docgraph.exchange.errors import NotFound
from docgraph.graphql.apps.compiled_app import App, build_app
from docgraph.graphql.definition.check import check_definition
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.federation.specification import DIRECTIVES
from docgraph.graphql.sections import Graphql

QUERY = "type Query { posts: [Post!]! }"
LINK = '@link(url: "https://specs.apollo.dev/federation/v2.%s", import: [%s])'
POSTS = {"db": "blog", "collection": "posts"}
POST_BY_ID = ' type Post @key(fields: "id") { id: ID! }'
# Of the app below without `federation`, as introspected before there was one.
PLAIN = "64c099afccc2b042724607618681935f8a79a413b135078ba45c8502def423e6"


def define(schema: str, federation: Any = True, **mapping: Any) -> dict[str, Any]:
    mappings: dict[str, Any] = {"Query": {"posts": {**POSTS, **mapping}}, "Post": {"id": "_id"}}
    for name in re.findall(r"type (\w+)[^{]*?@\w*[kK]ey\(", schema):
        mappings[name] = {**mappings.get(name, {}), "$entity": POSTS}
    descriptor = {} if federation is None else {"federation": federation}
    return {"_id": "a", "descriptor": descriptor, "schema": schema, "mappings": mappings}


def build(schema: str, federation: Any = True, **mapping: Any) -> App:
    return build_app(decode_definition(define(schema, federation, **mapping)), Graphql())


def link(minor: int | str = 7, *names: str) -> str:
    imports = ", ".join(name if name.startswith("{") else f'"@{name}"' for name in names)
    return f"extend schema {LINK % (minor, imports)} {QUERY}"


def find_errors(schema: str, federation: Any = True, **mapping: Any) -> list[str]:
    report = check_definition(define(schema, federation, **mapping), settings=Graphql())
    return [f"{error} ({error.hint})" for error in report.errors]


def test_without_the_option_the_schema_is_what_it_was() -> None:
    schema = f"{QUERY} type Post {{ id: ID! title: String }}"
    pages = {"connection": {}, "filter": {"fields": {"title": ["eq"]}}}

    for federation in (None, False):
        app = build(schema, federation, **pages)
        content = json.dumps(introspection_from_schema(app.visible_to(()).schema))
        assert hashlib.sha256(content.encode()).hexdigest() == PLAIN
        with pytest.raises(NotFound):
            app.print_sdl(())


def test_without_the_option_directives_of_federation_are_unknown() -> None:
    (error,) = find_errors(f'{QUERY} type Post @key(fields: "id") {{ id: ID }}', None)

    assert "Unknown directive '@key'" in error


EVERYTHING = """
{link}
directive @mine(x: Int) on FIELD_DEFINITION
type Post implements Node
  @key(fields: "id") @key(fields: "a b {{ c }}", resolvable: false) @tag(name: "x") {{
  id: ID! @mine(x: 1)
  a: Int @shareable
  b: Box @provides(fields: "c")
  weight: Int @external
  size: Int @requires(fields: "weight") @override(from: "old", label: "percent(1)")
  secret: Int @inaccessible @authenticated @requiresScopes(scopes: [["a", "b"], ["c"]])
  other: Int @policy(policies: [["p"]])
}}
type Box @shareable {{ c: Int }}
interface Node @key(fields: "id") {{ id: ID! }}
type Media @interfaceObject @key(fields: "id") {{ id: ID! }}
type Old @extends @key(fields: "id") {{ id: ID! @external(reason: "x") }}
extend type Query {{ media: Media old: Old }}
"""
RESOLVER = {"Node": {"$typeResolver": {"Post": "true"}}}


def build_everything(schema: str) -> App:
    document = define(schema)
    document["mappings"] |= RESOLVER
    return build_app(decode_definition(document), Graphql())


def test_every_directive_is_accepted_and_printed() -> None:
    extra = '{ name: "@key", as: "@key" }'
    names = [name for name in DIRECTIVES if name != "key"]
    schema = EVERYTHING.format(link=link(7, extra, *names))

    sdl = build_everything(schema).print_sdl(())

    for name in DIRECTIVES.keys() - {"composeDirective"}:
        assert f"@{name}" in sdl, name
    assert 'label: "percent(1)"' in sdl
    assert "directive @mine(x: Int) on FIELD_DEFINITION" in sdl
    assert "resolvable: false" in sdl
    for hidden in ("_Service", "_Entity", "_Any", "_entities", "directive @key", "FieldSet"):
        assert hidden not in sdl


def test_names_are_renamed_and_have_a_namespace() -> None:
    schema = link(3, '{ name: "@key", as: "@primaryKey" }') + (
        ' type Post @primaryKey(fields: "id") { id: ID! a: Int @federation__shareable }'
    )

    assert '@primaryKey(fields: "id")' in build(schema).print_sdl(())


def test_federation_1_has_no_link() -> None:
    schema = f'{QUERY} extend type Post @key(fields: "id") {{ id: ID! @external }}'

    assert 'type Post @key(fields: "id") @extends' in build(schema).print_sdl(())


def test_federation_1_has_the_forms_that_gateways_know() -> None:
    schema = (
        QUERY
        + """ type Post @key(fields: "id", resolvable: true) {
      id: ID! a(b: Int @tag(name: "x")): Kind @external(reason: "y")
    } enum Kind @tag(name: "x") { A @tag(name: "x") }"""
    )

    assert not find_errors(schema)


def test_scalars_of_the_specification_may_be_declared() -> None:
    names = "scalar _Any scalar FieldSet scalar link__Import enum link__Purpose { SECURITY }"
    schema = f"{link(7, 'key', 'shareable')} {names} directive @key(fields: FieldSet!) on OBJECT"
    schema = schema.replace('"@shareable"', '"FieldSet"') + POST_BY_ID

    assert "scalar" not in build(schema).print_sdl(())
    first = f"{QUERY} scalar _FieldSet directive @key(fields: _FieldSet!) on OBJECT {POST_BY_ID}"
    assert "scalar" not in build(first).print_sdl(())


def test_fields_of_the_specification_need_no_mapping() -> None:
    schema = define(f'{link(7, "key")} type Post @key(fields: "id") {{ id: ID! }}')

    assert not check_definition(schema, settings=Graphql()).warnings


@pytest.mark.parametrize(
    ("schema", "parts"),
    [
        (f"{QUERY} type Post @shareable {{ id: ID }}", ["@shareable", "@key, @requires"]),
        (f"{link()} type Post @shareable {{ id: ID }}", ['import: ["@shareable"]']),
        (f"{link(2, 'policy')} type Post {{ id: ID }}", ["@policy does not exist", "v2.6"]),
        (f"{link(7, 'cost')} type Post {{ id: ID }}", ["@cost cannot be imported"]),
        (
            f'{link(6, "override")} type Post {{ a: ID @override(from: "a", label: "b") }}',
            ["label"],
        ),
        (f'{link(2, "tag")} extend schema @tag(name: "a") type Post {{ id: ID }}', ["on schema"]),
        (f"{link(1, 'shareable')} type Post @shareable @shareable {{ id: ID }}", ["only be used"]),
        (f"{link('7/')} type Post {{ id: ID }}", ["version v2.7/"]),
        (f"{link(99)} type Post {{ id: ID }}", ["version v2.99", "v2.0 to v2.14"]),
        (f'{link(7, "key")} type Post {{ id: ID @key(fields: "id") }}', ["may not be used"]),
        (f"{link(7, '{name: 1}')} type Post {{ id: ID }}", ["an import of @link"]),
        (f"{link(7)} extend schema {LINK % (7, '')} type Post {{ id: ID }}", ["linked twice"]),
        (f"{link(7)} type Post {{ id: ID }} extend type Query {{ _service: Int }}", ["_service"]),
    ],
)
def test_mistakes_name_what_is_supported(schema: str, parts: list[str]) -> None:
    errors = "\n".join(find_errors(schema))

    for part in parts:
        assert part in errors


@pytest.mark.parametrize("value", ["yes", 1, {"prefix": "1"}, {"prefix": 3}, {"name": "a"}])
def test_the_option_has_a_shape(value: Any) -> None:
    (error,) = find_errors(f"{QUERY} type Post {{ id: ID }}", value)

    assert error.startswith("descriptor.federation")


def test_generated_types_have_a_prefix_and_are_shareable() -> None:
    schema = f"{link(0)} type Post {{ id: ID! title: String when: DateTime }}"
    fields = {"fields": {"title": ["eq"]}}
    order = {"fields": ["title"]}
    app = build(schema, {"prefix": "Shop"}, connection={}, filter=fields, orderBy=order)

    sdl = app.print_sdl(())

    for name in ("PostConnection", "PostEdge"):
        assert f"type Shop{name} @federation__shareable {{" in sdl
    assert "type PageInfo @federation__shareable {" in sdl
    for name in ("ShopPostWhere", "ShopPostWhereTitle", "ShopPostOrder", "ShopSortOrder"):
        assert name in app.schema.type_map
    assert app.schema.type_map.keys().isdisjoint({"PostWhere", "PostConnection", "SortOrder"})
    assert "scalar DateTime" in sdl
    assert "scalar Long" not in sdl


def test_a_prefix_leads_to_no_name_of_the_schema() -> None:
    schema = f"{link()} type Post {{ id: ID! }} type ShopPostEdge {{ a: Int }}"

    (error,) = find_errors(schema, {"prefix": "Shop"}, connection={})

    assert error.startswith("descriptor.federation.prefix: the schema has a type ShopPostEdge")


@pytest.mark.parametrize("prefix", ["", "Shop"])
def test_a_connection_provides_fields_of_its_items(prefix: str) -> None:
    provided = f"{LINK % (7, '')} type Query {{ posts: [Post!]! @federation__provides"
    schema = (
        provided
        + """(fields: "box { c }") }
      type Post { id: ID! box: Box }
      type Box @federation__key(fields: "id", resolvable: false) {
        id: ID! c: Int @federation__external
      }"""
    )
    federation = {"prefix": prefix} if prefix else True
    pages = {"connection": {"field": "postPages"}}
    document = define(f"extend schema {schema}", federation, **pages)
    del document["mappings"]["Box"]

    sdl = build_app(decode_definition(document), Graphql()).print_sdl(())

    assert 'posts: [Post!]! @federation__provides(fields: "box { c }")' in sdl
    own = "nodes { box { c } } edges { node { box { c } } }"
    assert f'{prefix}PostConnection! @federation__provides(fields: "{own}")' in sdl


def test_a_caller_gets_what_is_visible() -> None:
    schema = f'{link(0)} type Post {{ id: ID! a: Int @visible(roles: ["editor"]) }}'
    fields = {"fields": {"a": ["eq"], "id": ["eq"]}}
    app = build(schema, {"prefix": "Shop"}, filter=fields)

    assert "a: Int" not in app.print_sdl(["reader"])
    assert "ShopPostWhereA" not in app.print_sdl(["reader"])
    assert "a: Int" in app.print_sdl(["editor"])
    assert "@visible" not in app.print_sdl(["editor"])


KEYED = "extend schema %s type Query { posts: [Post] } " % (LINK % (3, '"@key"'))


def find_entity_errors(schema: str, entity: Any, **fields: Any) -> str:
    document = define("", entity)
    mappings = {"Query": {"posts": POSTS}, "Post": {"id": "_id", **fields}}
    if entity is not None:
        mappings["Post"]["$entity"] = entity
    document |= {"descriptor": {"federation": True}, "schema": KEYED + schema, "mappings": mappings}
    report = check_definition(document, settings=Graphql())
    return "\n".join(f"{error} ({error.hint})" for error in report.errors)


POST = (
    'type Post @key(fields: "id owner { name }") { id: ID! owner: Owner } type Owner { name: ID }'
)


@pytest.mark.parametrize(
    ("schema", "entity", "part"),
    [
        (POST, None, "mappings.Post.$entity: is missing"),
        (POST, [], "mappings.Post.$entity: is missing"),
        (POST, {**POSTS, "find": {"_id": {"$arg": "uid"}}}, "'uid' is no field of a key"),
        (POST, {**POSTS, "find": {"_id": {"$fk": "id"}}}, "$fk has no meaning here"),
        (POST, {**POSTS, "find": {"a": 1}}, "uses no field of a key"),
        (POST, {**POSTS, "limit": 3}, "mappings.Post.$entity.limit: is not known"),
        (POST, "posts", "must be an object"),
        (POST, {"db": "blog"}, "collection: is missing"),
        ("type Post { id: ID }", POSTS, "has no @key that can be resolved"),
        ('type Post @key(fields: "a") { id: ID }', POSTS, "has no field a"),
        ('type Post @key(fields: "id {") { id: ID }', POSTS, "is no field set"),
        ("type Post @key(fields: 1) { id: ID }", POSTS, "is no field set"),
        ('type Post @key(fields: "id: x") { id: ID x: ID }', POSTS, "names of fields only"),
        ('type Post @key(fields: "id") { id: [ID] }', POSTS, "is a list"),
        ('type Post @key(fields: "id") { id: BsonDocument }', POSTS, "cannot be a key"),
        (
            'type Post @key(fields: "id") { id: ID b: Int @visible(roles: ["a"])'
            ' c: Int @federation__requires(fields: "b") }',
            POSTS,
            "schema: Post.c: @requires: Post.b is hidden from callers who see the field",
        ),
        (
            'type Post @key(fields: "id") { id: ID a: Post @federation__provides(fields: "b")'
            ' b: Int @federation__external @visible(roles: ["a"]) }',
            POSTS,
            "schema: Post.a: @provides: Post.b is hidden from callers who see the field",
        ),
        (
            'type Post @key(fields: "id") { id: ID c: Int @federation__requires(fields: "b") }',
            POSTS,
            "@requires: the type Post has no field b",
        ),
        (
            'type Post @key(fields: "id") { id: ID @visible(roles: ["a"]) b: Int }',
            POSTS,
            "id is hidden from callers who see Post",
        ),
    ],
)
def test_mistakes_of_entities_are_errors(schema: str, entity: Any, part: str) -> None:
    assert part in find_entity_errors(schema, entity)


def test_the_condition_of_a_key_comes_from_the_mappings() -> None:
    mappings = {
        "Query": {"posts": POSTS},
        "Post": {"$entity": POSTS, "id": "_id", "owner": "by"},
        "Owner": {"name": "full.name"},
    }
    document = {**define(KEYED + POST), "mappings": mappings}

    (entity,) = build_app(decode_definition(document), Graphql()).entities["Post"]

    assert entity.paths == (("id",), ("owner", "name"))
    expected = {"_id": {"$fk": "id"}, "by.full.name": {"$fk": "owner.name"}}
    assert entity.mapping.find.source == expected
