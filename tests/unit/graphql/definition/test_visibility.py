"""Who sees which part of a schema (decision 20)."""

from __future__ import annotations

import pytest
from graphql import (
    GraphQLSchema,
    get_introspection_query,
    graphql_sync,
    introspection_from_schema,
    parse,
    print_schema,
    validate,
    validate_schema,
)

from docgraph.graphql.definition.check_visibility import check_visibility
from docgraph.graphql.definition.schema import build_schema, parse_schema
from docgraph.graphql.definition.visibility import build_visible_schema, read_visibility


def view(text: str, *roles: str) -> GraphQLSchema:
    document = parse_schema(text)
    schema = build_schema(document)
    hidden = read_visibility(schema).hidden_from(roles)
    return build_visible_schema(document, schema, hidden)


def errors(schema: GraphQLSchema, query: str) -> list[str]:
    return [error.message for error in validate(schema, parse(query), hide_suggestions=True)]


SDL = """
type Query {
  posts(first: Int): [Post]
  audit(by: AuditFilter, kind: Kind): Audit @visible(roles: ["auditor", "admin"])
  nobody: Int @visible(roles: [])
}
type Post { title: String author: User salary: Int @visible(roles: ["admin"]) }
type User { name: String email: String @visible(roles: ["admin"]) }
type Audit { entries: [Entry] }
type Entry { at: DateTime }
input AuditFilter { from: DateTime more: Inner }
input Inner { a: Int }
enum Kind { LOGIN }
"""


def test_fields_are_visible_to_those_who_have_one_of_the_roles() -> None:
    assert errors(view(SDL, "admin"), "{posts{salary author{email}} audit{entries{at}}}") == []
    assert errors(view(SDL, "auditor", "x"), "{audit{entries{at}}}") == []
    assert errors(view(SDL, "auditor"), "{posts{salary}}") == [
        "Cannot query field 'salary' on type 'Post'."
    ]


def test_a_hidden_field_is_told_like_one_that_never_existed() -> None:
    schema = view(SDL)

    assert errors(schema, "{audit{entries{at}}}") == ["Cannot query field 'audit' on type 'Query'."]
    assert errors(schema, "{nothing{entries{at}}}") == [
        "Cannot query field 'nothing' on type 'Query'."
    ]
    assert errors(schema, "{posts{title}} fragment F on Audit {entries{at}}")[0] == (
        "Unknown type 'Audit'."
    )


def test_no_roles_hide_from_everyone() -> None:
    assert errors(view(SDL, "admin", "auditor", "nobody"), "{nobody}") != []


def test_types_that_only_hidden_fields_reach_vanish_with_them() -> None:
    names = set(view(SDL).type_map)

    assert {"Query", "Post", "User"} <= names
    assert names.isdisjoint({"Audit", "Entry", "AuditFilter", "Inner", "Kind"})
    assert {"Audit", "Entry", "AuditFilter", "Inner", "Kind"} <= set(view(SDL, "auditor").type_map)


def test_nothing_hidden_is_in_the_introspection() -> None:
    text = str(introspection_from_schema(view(SDL)))

    for name in ("audit", "Audit", "salary", "email", "nobody", "Kind", "auditor", "admin"):
        assert f"'{name}'" not in text


def test_a_type_left_without_fields_vanishes_and_the_fields_that_return_it() -> None:
    schema = view(
        """
        type Query { a: A b: Int }
        type A { b: B }
        type B { secret: Int @visible(roles: ["x"]) other: C }
        type C { c: Int @visible(roles: ["x"]) }
        """
    )

    assert print_schema(schema).count("type ") == 1
    assert errors(schema, "{a{b{secret}}}") == ["Cannot query field 'a' on type 'Query'."]


def test_unions_lose_members_and_vanish_without_any() -> None:
    sdl = """
    type Query { u: U v: V n: Int }
    union U = A | B
    union V = B
    type A { a: Int }
    type B { b: Int @visible(roles: ["x"]) }
    """
    schema = view(sdl)

    assert errors(schema, "{u{... on A {a}}}") == []
    assert errors(schema, "{u{... on B {b}}}") == ["Unknown type 'B'."]
    assert "V" not in schema.type_map
    assert errors(view(sdl, "x"), "{u{... on B {b}} v{__typename}}") == []


def test_interface_fields_are_hidden_like_others() -> None:
    schema = view(
        """
        type Query { n: N }
        interface N { id: ID secret: Int @visible(roles: ["x"]) }
        type A implements N { id: ID secret: Int @visible(roles: ["x"]) }
        """
    )

    assert validate_schema(schema) == []
    assert errors(schema, "{n{id ... on A {id}}}") == []
    assert errors(schema, "{n{secret}}") != []
    assert errors(schema, "{n{... on A {secret}}}") != []


def test_an_interface_without_a_field_vanishes_from_the_types_that_implement_it() -> None:
    schema = view(
        """
        type Query { a: A }
        interface N { s: Int @visible(roles: ["x"]) }
        type A implements N { s: Int b: Int }
        """
    )

    assert validate_schema(schema) == []
    assert "N" not in schema.type_map
    assert errors(schema, "{a{s b}}") == []


def test_an_interface_field_goes_when_a_type_loses_it() -> None:
    schema = view(
        """
        type Query { n: N }
        interface N { id: ID u: U }
        union U = X | Y
        type X { x: Int @visible(roles: ["r"]) }
        type Y { y: Int }
        type A implements N { id: ID u: X }
        type B implements N { id: ID u: Y }
        """
    )

    assert validate_schema(schema) == []
    assert errors(schema, "{n{u{__typename}}}") == ["Cannot query field 'u' on type 'N'."]
    assert errors(schema, "{n{... on B {u{y}}}}") == []


def test_fields_of_extensions_are_hidden_too() -> None:
    schema = view(
        """
        type Query { a: Int }
        extend type Query { b: Int @visible(roles: ["x"]) }
        """
    )

    assert errors(schema, "{b}") != []


def test_without_a_visible_field_every_selection_is_an_ordinary_error() -> None:
    schema = view('type Query { a: Int @visible(roles: ["x"]) }')

    assert errors(schema, "{a}") == ["Cannot query field 'a' on type 'Query'."]
    assert graphql_sync(schema, "{__typename}").data == {"__typename": "Query"}
    assert graphql_sync(schema, get_introspection_query()).errors is None


@pytest.mark.parametrize(
    ("interface", "own", "allowed"),
    [
        ("", "", True),
        ('@visible(roles: ["a"])', "", True),
        ('@visible(roles: ["a"])', '@visible(roles: ["a"])', True),
        ('@visible(roles: ["a"])', '@visible(roles: ["a", "b"])', True),
        ("@visible(roles: [])", '@visible(roles: ["a"])', True),
        ("", '@visible(roles: ["a"])', False),
        ('@visible(roles: ["a", "b"])', '@visible(roles: ["a"])', False),
        ('@visible(roles: ["a"])', "@visible(roles: [])", False),
    ],
)
def test_a_field_may_not_be_more_hidden_than_the_interfaces(
    interface: str, own: str, allowed: bool
) -> None:
    """Decision 20."""
    schema = build_schema(
        parse_schema(
            f"type Query {{ n: N }} interface N {{ f: Int {interface} }} "
            f"type A implements N {{ f: Int {own} }}"
        )
    )

    findings = list(check_visibility(schema, read_visibility(schema)))

    assert (not findings) is allowed
    if findings:
        assert str(findings[0]).startswith("schema: A.f: it is more hidden than N.f")


ARGUMENTS = """
type Query {
  people(name: String, salaryMin: Int @visible(roles: ["hr"]), by: Filter, only: Secret): [Person]
  pages(of: Outer): [Person]
}
type Person { name: String salary: Int @visible(roles: ["hr"]) }
input Filter { name: String pay: Range @visible(roles: ["hr"]) and: [Filter!] secret: Secret }
input Range { min: Int max: Int }
input Secret { code: String @visible(roles: ["hr"]) not: Secret }
input Outer { secret: Secret }
"""


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ("salaryMin: 1", "salaryMin"),
        ("by: {pay: {min: 1}}", "pay"),
        ("by: {and: [{pay: {min: 1}}]}", "pay"),
        ('by: {secret: {code: "x"}}', "secret"),
        ("only: {not: {}}", "only"),
    ],
)
def test_hidden_arguments_and_input_fields_do_not_exist(arguments: str, name: str) -> None:
    """Decision 59: they are rejected like names that never existed."""
    query = f"{{ people({arguments}) {{ name }} }}"

    assert errors(view(ARGUMENTS, "hr"), query) == []
    found = errors(view(ARGUMENTS), query)

    assert found != []
    assert found == [
        one.replace("nothing", name)
        for one in errors(view(ARGUMENTS), query.replace(name, "nothing"))
    ]
    shown = str(introspection_from_schema(view(ARGUMENTS)))
    for hidden in ("salaryMin", "pay", "Range", "only", "secret", "Secret", "code", "of", "hr"):
        assert f"'{hidden}'" not in shown
    assert validate_schema(view(ARGUMENTS)) == []


HIDE = '@visible(roles: ["a"])'


@pytest.mark.parametrize(
    ("sdl", "where"),
    [
        (f"type Query {{ f(x: Int! {HIDE}): Int }}", "Query.f(x:)"),
        (f"type Query {{ f(x: Int! {HIDE}): Int {HIDE} }}", None),
        (f"type Query {{ f(x: Int! = 1 {HIDE}): Int }}", None),
        (f'type Query {{ f(x: Int! {HIDE}): Int @visible(roles: ["a", "b"]) }}', "Query.f(x:)"),
        (f"type Query {{ f(x: I): Int }} input I {{ a: Int! {HIDE} b: Int }}", "I.a"),
        (f"type Query {{ f(x: I): Int }} input I {{ a: Int! {HIDE} }}", None),
        (f"type Query {{ f(x: I!): Int }} input I {{ a: Int! {HIDE} }}", "Query.f(x:)"),
        (
            f"type Query {{ f(x: O!): Int }} input O {{ i: I! }} input I {{ a: Int {HIDE} }}",
            "Query.f(x:)",
        ),
        (
            f"type Query {{ f(x: I = {{a: 1}}): Int }} input I {{ a: Int {HIDE} b: Int }}",
            "Query.f(x:)",
        ),
        (
            f"type Query {{ f(x: I = {{a: 1}} {HIDE}): Int }} input I {{ a: Int {HIDE} b: Int }}",
            None,
        ),
        (
            f"type Query {{ f(x: O): Int }} input O {{ i: [I] = [{{a: 1}}] }} "
            f"input I {{ a: Int {HIDE} b: Int }}",
            "O.i",
        ),
        (
            f"type Query {{ n: N }} interface N {{ f(x: Int): Int }} "
            f"type A implements N {{ f(x: Int {HIDE}): Int }}",
            "A.f(x:)",
        ),
        (
            f"type Query {{ n: N }} interface N {{ f(x: Int {HIDE}): Int }} "
            f"type A implements N {{ f(x: Int): Int }}",
            None,
        ),
        (
            f"type Query {{ n: N }} interface N {{ f(x: Int! = 1 {HIDE}): Int }} "
            f"type A implements N {{ f(x: Int!): Int }}",
            "A.f(x:)",
        ),
    ],
)
def test_nothing_that_is_needed_is_more_hidden_than_what_needs_it(
    sdl: str, where: str | None
) -> None:
    """Decision 59: a caller who sees a field can give what it requires."""
    schema = build_schema(parse_schema(sdl))

    findings = [one.where for one in check_visibility(schema, read_visibility(schema))]

    assert findings == ([] if where is None else [f"schema: {where}"])
    for roles in ((), ("a",), ("b",), ("a", "b")):
        visible = view(sdl, *roles)
        if visible.query_type is not None and visible.query_type.fields and where is None:
            assert validate_schema(visible) == []


def test_a_field_whose_required_argument_only_two_roles_together_see_is_hidden_with_it() -> None:
    sdl = """
    type Query { ok: Int f(o: O!): Int }
    input O { i: I! @visible(roles: ["a"]) }
    input I { x: Int @visible(roles: ["b"]) }
    """
    assert errors(view(sdl, "a", "b"), "{ f(o: {i: {x: 1}}) }") == []
    assert errors(view(sdl, "a"), "{ f }") == ["Cannot query field 'f' on type 'Query'."]
