"""Plans: which operation, which commands, which fields of the documents."""

from __future__ import annotations

import pytest
from graphql import parse

from docgraph.graphql.errors import Classification, OperationRefused
from docgraph.graphql.plan.plan import build_plan, select_operation
from tests.unit.graphql.planning_harness import first_fetch, make_app, make_plan


def test_plan_explains_itself() -> None:
    plan = make_plan(
        "query Blog($more: Boolean!) { posts(limit: 3) { title author @include(if: $more) "
        "{ name posts { _id } } later { title } } }"
    )

    assert plan.explain() == (
        "query Blog\n"
        "└─ posts: find blog.posts, one command\n"
        "     filter {draft: $draft}\n"
        "     sort {_id: 1}\n"
        "     limit $limit\n"
        "     fields _id, authorId, title\n"
        "   ├─ title\n"
        "   ├─ author: find blog.users, one command for all parents, joined in memory"
        " @include(if: $more)\n"
        "   │    join _id = parent's authorId\n"
        "   │    fields _id, name\n"
        "   │  ├─ name\n"
        "   │  └─ posts: find blog.posts, one command for all parents, joined in memory\n"
        "   │       join authorId = parent's _id\n"
        "   │       fields _id, authorId\n"
        "   │     └─ _id\n"
        "   └─ later: find blog.posts, equal queries once, different ones together\n"
        '        filter {_id: {$gt: {$fk: "_id"}}}\n'
        "        limit $limit\n"
        "        fields title\n"
        "      └─ title"
    )


def test_types_of_a_union_are_explained_one_by_one() -> None:
    plan = make_plan("{ things { __typename ... on User { name } } }")

    assert plan.explain().splitlines()[-4:] == [
        "   ├─ … on Post",
        "   │  └─ __typename",
        "   └─ … on User",
        "      └─ __typename, name",
    ]


@pytest.mark.parametrize(
    ("text", "name", "message", "code"),
    [
        (
            "query A { x } query B { x }",
            "foo",
            "Unknown operation named 'foo'.",
            "unknown-operation",
        ),
        (
            "query A { x } query B { x }",
            None,
            "Must provide operation name if query contains multiple operations.",
            "operation-name-required",
        ),
        ("fragment F on Query { x }", None, "Must provide an operation.", "no-operation"),
    ],
)
def test_operation_that_cannot_be_found_is_refused(
    text: str, name: str | None, message: str, code: str
) -> None:
    with pytest.raises(OperationRefused) as refused:
        select_operation(parse(text), name)

    (error,) = refused.value.errors
    assert (error.message, error.code) == (message, code)
    assert error.classification is Classification.VALIDATION


@pytest.mark.parametrize("kind", ["mutation", "subscription"])
def test_only_queries_are_supported(kind: str) -> None:
    """Decision 52."""
    with pytest.raises(OperationRefused) as refused:
        select_operation(parse(f"{kind} {{ x }}"), None)

    (error,) = refused.value.errors
    assert error.message == f"Schema is not configured for {kind}s."
    assert error.classification is Classification.UNSUPPORTED


def test_named_operation_is_chosen() -> None:
    plan = make_plan("query A { posts { _id } } query B { things { __typename } }", operation="B")

    assert [fetch.key for fetch in plan.tree({}).fetches] == ["things"]


def test_plan_does_not_depend_on_the_values_of_variables() -> None:
    plan = make_plan("query ($n: Int) { posts(limit: $n) { _id } }")

    assert plan.conditions == ()
    assert plan.tree({"n": 1}) is plan.tree({"n": 2})


def test_conditions_are_decided_at_execution() -> None:
    plan = make_plan(
        "query ($a: Boolean!) { posts { title @skip(if: $a) author @include(if: $a) { name } } }"
    )

    def keys(outcome: bool) -> list[str]:
        selection = plan.tree({"a": outcome}).fetches[0].selection
        assert selection is not None
        return [field.key for field in selection.only_block.fields]

    assert keys(True) == ["author"]
    assert keys(False) == ["title"]


def test_order_of_fields_is_that_of_their_first_included_occurrence() -> None:
    plan = make_plan("query ($a: Boolean!) { posts { title @include(if: $a) _id title } }")

    selection = plan.tree({"a": False}).fetches[0].selection

    assert selection is not None
    assert [field.key for field in selection.only_block.fields] == ["_id", "title"]


@pytest.mark.parametrize(
    ("selection", "projection"),
    [
        ("title", {"title": 1, "_id": 0}),
        ("_id", {"_id": 1}),
        ("__typename", {"_id": 1}),
        ("title author { name }", {"title": 1, "authorId": 1, "_id": 0}),
        ("city", {"place.city": 1, "_id": 0}),
        ("first", {"tags": 1, "_id": 0}),
        ("cities", {"places": 1, "_id": 0}),
        ("box { n } raw", {"box": 1, "_id": 0}),
        ("near { title }", {"place": 1, "_id": 0}),
        ("author { posts { near { _id } } }", {"authorId": 1, "place": 1, "_id": 0}),
    ],
)
def test_projection_has_what_is_needed_and_nothing_else(
    selection: str, projection: dict[str, int]
) -> None:
    """Decision 15."""
    assert first_fetch(f"{{ posts {{ {selection} }} }}").projection == projection


def test_type_resolvers_get_the_fields_they_ask_for() -> None:
    fetch = first_fetch("{ things { ... on User { _id } } }")

    assert fetch.projection == {"_id": 1, "name": 1, "title": 1}


def test_to_one_relation_of_one_document_is_folded_into_its_command() -> None:
    folded = first_fetch("{ post(id: 1) { title author { name } later { title } } }")
    many = first_fetch("{ posts { author { name } } }")

    assert [fold.fetch.key for fold in folded.folds] == ["author"]
    assert many.folds == ()


def test_selections_with_the_same_nodes_are_planned_once() -> None:
    """An interface in an interface in an interface must not multiply."""
    app = make_app(
        "type Query { node: Node } interface Node { next: Node } "
        + " ".join(f"type T{n} implements Node {{ next: Node }}" for n in range(10)),
        {
            "Query": {"node": {"db": "d", "collection": "c", "find": {}}},
            "Node": {"$typeResolver": {f"T{n}": "true" for n in range(10)}},
        },
    )
    depth = 12

    plan = make_plan("{ node " + "{ next " * depth + "{ __typename }" + " }" * (depth + 1), app)

    assert "as above" in plan.explain()


def test_plan_that_grows_without_reason_is_refused() -> None:
    """Every alias once for each of the types."""
    app = make_app(
        "type Query { node: Node } interface Node { name: String } "
        + " ".join(f"type T{n} implements Node {{ name: String }}" for n in range(300)),
        {
            "Query": {"node": {"db": "d", "collection": "c", "find": {}}},
            "Node": {"$typeResolver": {f"T{n}": "true" for n in range(300)}},
        },
    )
    names = " ".join(f"a{n}: name" for n in range(40))

    with pytest.raises(OperationRefused) as refused:
        build_plan(app, parse(f"{{ node {{ {names} }} }}"), None)

    assert refused.value.errors[0].code == "query-too-complex"
