"""The author's SDL, what is predeclared, and what is refused (decision 7)."""

from __future__ import annotations

import pytest
from graphql import DocumentNode, GraphQLSchema, graphql_sync, is_object_type, parse
from graphql.validation.validate import validate_sdl

from docgraph.codec.forms import JsonMode
from docgraph.graphql.definition.schema import (
    MAX_ERRORS,
    SchemaError,
    build_schema,
    extend_base,
    find_sdl_errors,
    parse_schema,
)


def build(text: str) -> GraphQLSchema:
    return build_schema(parse_schema(text))


def reject(text: str) -> list[str]:
    with pytest.raises(SchemaError) as error:
        build(text)
    return [str(finding) for finding in error.value.findings]


def test_bson_scalars_and_visible_are_predeclared() -> None:
    schema = build(
        """
        type Query {
          a: BsonDocument b: ObjectId c: Decimal128 d: Timestamp e: DateTime f: Regex
          g: Long @visible(roles: ["admin"]) h: Int @visible(roles: "admin")
        }
        """
    )

    assert schema.query_type is not None
    assert [str(field.type) for field in schema.query_type.fields.values()] == [
        "BsonDocument",
        "ObjectId",
        "Decimal128",
        "Timestamp",
        "DateTime",
        "Regex",
        "Long",
        "Int",
    ]


def test_all_kinds_of_types_are_understood() -> None:
    schema = build(
        '''
        "The root" type Query { n(id: ID = "1", f: F = {a: 1}): Node @deprecated u: [U!]! }
        interface Node { id: ID! } interface Named implements Node { id: ID! name: String }
        type A implements Named & Node { id: ID! name: String e: E }
        type B { b: Int } union U = A | B enum E { X Y @deprecated(reason: "old") }
        """An input""" input F @oneOf { a: Int b: [ObjectId!] }
        extend type Query { more: Int } extend enum E { Z } extend union U = C type C { c: Int }
        directive @own(x: Int) on FIELD_DEFINITION
        '''
    )

    assert schema.query_type is not None
    assert list(schema.query_type.fields) == ["n", "u", "more"]
    assert schema.query_type.description == "The root"
    assert schema.query_type.fields["n"].args["id"].default is not None


def test_an_explicit_schema_definition_is_fine_when_it_says_query() -> None:
    assert build("schema { query: Query } type Query { a: Int }").query_type is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("type X { a: Int }", "schema (line 1, column 1): there is no type Query"),
        (
            "type Query {\n  a: Int\n  b: Foo\n}",
            "schema (line 3, column 6): Unknown type 'Foo'",
        ),
        ("type Query {\n a: [Int }", "schema (line 2, column 10): Syntax Error: Expected ']'"),
        ("scalar DateTime type Query { a: DateTime }", "DateTime is predeclared"),
        ("type ObjectId { a: Int } type Query { a: Int }", "ObjectId is predeclared"),
        ("scalar JSON type Query { a: JSON }", "the scalar JSON is not known"),
        ("scalar String type Query { a: Int }", "String is a type of GraphQL itself"),
        (
            "directive @visible(roles: [String!]!) on FIELD_DEFINITION type Query { a: Int }",
            "@visible is predeclared",
        ),
        ("directive @skip on FIELD type Query { a: Int }", "Directive '@skip' already exists"),
        ("type Query { a: Int } type Mutation { b: Int }", "a type Mutation is not allowed"),
        ("type Query { a: Int } type Subscription { b: Int }", "a type Subscription is not"),
        (
            "schema { query: Query mutation: M } type Query { a: Int } type M { b: Int }",
            "a mutation type is not allowed",
        ),
        (
            "type Query { a: Int } extend schema { subscription: S } type S { b: Int }",
            "a subscription type is not allowed",
        ),
        (
            "schema { query: Root } type Root { a: Int } type Query { a: Int }",
            "the query type must be Query, not Root",
        ),
        ("interface Query { a: Int }", "Query must be an object type"),
        ("type Query", "Type Query must define one or more fields"),
        ("type Query { a: Int } { a }", "a schema cannot contain an operation or fragment"),
        (
            "type Query { a: I } interface I { x: Int } type T implements I { y: Int }",
            "Interface field I.x expected but T does not provide it",
        ),
        ("type Query { a(x: Int = true): Int }", "has invalid default value"),
        ('type Query { a(x: ObjectId = "zz"): Int }', "has invalid default value"),
        ("type Query { a(f: F): Int } input F { f: F! }", "references itself"),
        ("type Query { a: Int @unknown }", "Unknown directive '@unknown'"),
        ("type Query { a: Int a: Int }", "can only be defined once"),
    ],
)
def test_what_cannot_work_is_told_with_its_place(text: str, expected: str) -> None:
    """Decision 7."""
    assert any(expected in finding for finding in reject(text)), reject(text)


@pytest.mark.parametrize(
    "text",
    [
        'type Query @visible(roles: ["a"]) { a: Int }',
        'type Query { a: E } enum E { A @visible(roles: ["a"]) }',
        'type Query { a: Int } directive @d(x: Int @visible(roles: ["a"])) on FIELD',
        'type Query { a(f: F): Int } input F @visible(roles: ["a"]) { a: Int }',
        'type Query { a: U } union U @visible(roles: ["a"]) = Query',
        'type Query { a: E } enum E @visible(roles: ["a"]) { A }',
        "extend type Query @visible(roles: []) { b: Int } type Query { a: Int }",
    ],
)
def test_visible_is_allowed_on_fields_arguments_and_input_fields_only(text: str) -> None:
    """Decisions 20 and 59."""
    (finding,) = reject(text)

    assert "@visible is allowed only on fields, their arguments, and input fields" in finding


@pytest.mark.parametrize(
    "directive", ["@visible", "@visible(roles: 3)", "@visible(roles: [A])", "@visible(role: [])"]
)
def test_visible_needs_a_list_of_roles(directive: str) -> None:
    assert reject(f"type Query {{ a: Int {directive} }}")


def test_a_misspelt_directive_is_told_with_the_one_that_was_meant() -> None:
    with pytest.raises(SchemaError) as refused:
        parse_schema('type Query { a: Int @visble(roles: ["x"]) }')

    (finding,) = refused.value.findings
    assert finding.hint == "did you mean @visible?"


def test_all_mistakes_are_told() -> None:
    findings = reject("scalar X scalar Long type Query { a: Foo } type Mutation { a: Bar }")

    assert len(findings) == 5


def test_defaults_are_coerced_to_stored_values() -> None:
    schema = build('type Query { a(x: Long = "7", y: DateTime = 5): String }')
    seen: dict[str, object] = {}

    def resolve(_root: object, _info: object, **arguments: object) -> str:
        seen.update({name: type(value).__name__ for name, value in arguments.items()})
        return "ok"

    assert schema.query_type is not None
    schema.query_type.fields["a"].resolve = resolve
    result = graphql_sync(schema, "{a}")

    assert result.errors is None
    assert seen == {"x": "Int64", "y": "datetime"}


@pytest.mark.parametrize(
    "text",
    [
        "type Query { a: " + "[" * 5000 + "Int" + "]" * 5000 + " }",
        "type Query { a(x: Int = " + "[" * 5000 + "]" * 5000 + "): Int }",
        '"""' + "x" * (5 * 1024 * 1024) + '""" type Query { a: Int }',
        "type Query { a: Int } " + "interface I implements I { a: Int } ",
    ],
)
def test_bombs_are_refused(text: str) -> None:
    """Reliability D03."""
    assert reject(text)


def test_a_large_schema_is_built() -> None:
    """Reliability D03 at a tenth of its size."""
    types = "\n".join(f"type T{i} {{ a: String b: T{(i + 1) % 1000} }}" for i in range(1000))
    description = '"""' + "x" * 1_000_000 + '"""'

    schema = build(f"{description} type Query {{ a: T0 }} {types}")

    assert is_object_type(schema.type_map["T999"])


_QUERY = "type Query { a: String } "


@pytest.mark.parametrize(
    "mistakes",
    [
        " ".join(f"type T{i} {{ a: Unknown{i} }}" for i in range(300)),
        " ".join(f"extend type Unknown{i} {{ a: Int }}" for i in range(300)),
        f"type T {{ {'a: Int ' * 300} }}",
        f"type T {{ {' '.join(f'a{i}: Int @visible(roles: 1)' for i in range(300))} }}",
        f"type T {{ {' '.join(f'__a{i}: Int' for i in range(300))} }}",
        f"interface I {{ {' '.join(f'a{i}: Int' for i in range(300))} }} "
        "type T implements I { b: Int }",
    ],
)
def test_of_very_many_mistakes_the_first_are_told(mistakes: str) -> None:
    # The line of each is looked up in the whole text: all of them would take hours.
    assert MAX_ERRORS <= len(reject(_QUERY + mistakes)) <= 2 * MAX_ERRORS


def test_a_mistake_at_many_places_is_told_with_the_first() -> None:
    members = " | ".join(["Query"] * 3)

    assert reject(f"{_QUERY} union U = {members}")[0].startswith("schema (line 1, column 37)")


def test_names_that_might_be_meant_are_not_looked_for_in_long_texts() -> None:
    short = f"{_QUERY} type Person {{ a: Persom }}"

    assert "Did you mean 'Person'" in reject(short)[0]
    assert "Did you mean" not in reject(f"{short} #{' ' * 20_000}\n type X {{ a: Int }}")[0]


def test_types_that_implement_very_many_interfaces_are_refused() -> None:
    names = [f"I{i}" for i in range(80)]
    chain = " ".join(
        f"interface {name} implements {' & '.join(names[:i])} {{ a: Int }}"
        for i, name in enumerate(names)
        if i
    )

    (finding,) = reject(f"{_QUERY} interface I0 {{ a: Int }} {chain}")
    assert finding == "schema: its types implement too many interfaces and fields"


def test_a_circle_of_very_many_inputs_is_refused() -> None:
    circle = " ".join(f"input A{i} {{ b: A{(i + 1) % 3000}! }}" for i in range(3000))

    (finding,) = reject(_QUERY + circle)
    assert finding == "schema: too many types lead from one to the next"


def test_the_last_texts_are_parsed_once_and_mistakes_are_reported_each_time() -> None:
    text = "type Query { parsed: Int }"

    assert parse_schema(text) is parse_schema(text)
    assert reject("type Query { a: Nope }") == reject("type Query { a: Nope }") != []


def test_the_rules_for_definitions_find_what_graphql_core_finds() -> None:
    """They skip names and descriptions: no error may be lost, or in another order."""
    base = build("type Query { a: Int } directive @tag(x: Int!, y: T) on OBJECT input T { u: Int }")
    broken = parse(
        """
        schema { query: Query query: Query } schema { query: Missing }
        "twice" type Query { a: Int a(b: Int, b: None): Int } type Two @tag @tag(x: 1) { a: Int }
        enum E { A A } input I { i: Int i: Int } directive @tag on FIELD
        directive @two(a: Int, a: Int) on ENUM extend type Nothing { a: Int }
        type Z @tag(x: 1, x: 2, z: 3) { a: Int @tag(x: 1) @unknown } extend enum Two { B }
        union U = Z | Missing interface J @tag(x: 1, y: {u: 1, u: 2}) { j: [Mising!] }
        """
    )
    expected = [str(error) for error in validate_sdl(broken, base)]
    assert [str(error) for error in find_sdl_errors(broken, base)] == expected
    assert len(expected) > 15


def test_a_schema_without_definitions_leaves_the_predeclared_part_as_it_is() -> None:
    """A caller who sees no field of an app gets such a schema."""
    empty = extend_base(DocumentNode(definitions=()), JsonMode.GRAPHQL)
    assert extend_base(DocumentNode(definitions=()), JsonMode.GRAPHQL) is not empty
