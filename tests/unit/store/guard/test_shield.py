"""Hidden properties and row filters of plain reads (decisions 34 and 40)."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.exchange.data import ESCAPING, Read
from docgraph.exchange.errors import SecurityViolation
from docgraph.store.guard.shield import (
    Guard,
    RevealKey,
    Shield,
    check_filter_paths,
    check_order,
    check_projection,
    find_named,
    find_property,
    reject_marker,
    strip,
)
from docgraph.store.guard.stage_checks import Policy

HIDDEN = (("password",), ("profile", "secret"))


@pytest.mark.parametrize(
    "filter",
    [
        {"password": "x"},
        {"password": {"$regex": "^a"}},
        {"password.0": "x"},
        {"password.a.b": {"$exists": True}},
        {"profile": {"secret": "x"}},
        {"profile.secret": "x"},
        {"profile.0.secret": "x"},
        {"profile": {"$elemMatch": {"secret": "x"}}},
        {"$and": [{"a": 1}, {"$or": [{"b": 1}, {"$nor": [{"password": "x"}]}]}]},
        {"$expr": {"$eq": ["$password", "x"]}},
        {"$expr": {"$eq": ["$a", 1]}},
        {"$and": [{"$expr": {"$eq": [{"$getField": "password"}, "x"]}}]},
        {"$jsonSchema": {"properties": {"password": {"pattern": "^a"}}}},
        {"$JSONSchema": {}},
        {"$text": {"$search": "x"}},
        {"a": {"$elemMatch": {"$where": "this.password"}}},
        {"a": {"$not": {"$elemMatch": {"$expr": {"$eq": ["$password", "x"]}}}}},
        {"$_internalSchemaXor": [{"password": "x"}]},
        {"$and": {"password": "x"}},
        {"$or": ["x"]},
    ],
)
def test_filter_that_could_tell_about_a_hidden_property_is_refused(filter: Any) -> None:
    """Decision 34."""
    with pytest.raises(SecurityViolation):
        check_filter_paths(filter, HIDDEN)


@pytest.mark.parametrize(
    "filter",
    [
        {},
        {"name": "password"},
        {"passwordless": True},
        {"$or": [{"name": "x"}, {"roles": {"$in": ["a"]}}], "$comment": "why"},
        {"profile.name": "x"},
        {"accounts": {"$elemMatch": {"password": "another one"}}},
        {"old.password": "another one"},
    ],
)
def test_filter_on_other_properties_passes(filter: Any) -> None:
    check_filter_paths(filter, HIDDEN)


@pytest.mark.parametrize("path", ["password", "profile.secret"])
def test_a_filter_on_a_hidden_property_is_refused_by_the_name_that_the_caller_wrote(
    path: str,
) -> None:
    with pytest.raises(SecurityViolation, match=f"Using filters on the {path} property"):
        check_filter_paths({path: "x"}, HIDDEN)


@pytest.mark.parametrize(
    "projection",
    [
        {"password": 1},
        {"password": True},
        {"password.x": 1},
        {"profile.secret": 1},
        {"profile.0.secret": 1},
        {"x": "$password"},
        {"x": {"$concat": ["$password", ""]}},
        {"x": {"$toUpper": "$$ROOT.password"}},
        {"x": "$$ROOT"},
        {"x": {"$meta": "indexKey"}},
        {"password": {"$slice": 1}},
        {"profile": {"$elemMatch": {"secret": "x"}}},
        {"a": {"password": 1}},
        {"a": ["$password"]},
    ],
)
def test_projection_that_names_or_computes_is_refused(projection: Any) -> None:
    """Decision 34."""
    with pytest.raises(SecurityViolation):
        check_projection(projection, HIDDEN)


@pytest.mark.parametrize(
    "projection",
    [
        {},
        {"name": 1, "_id": 0},
        {"password": 0},
        {"profile": 1},
        {"tags": {"$slice": 2}},
        {"tags": {"$elemMatch": {"n": 1}}},
        {"score": {"$meta": "textScore"}},
    ],
)
def test_ordinary_projection_passes(projection: Any) -> None:
    check_projection(projection, HIDDEN)


@pytest.mark.parametrize(
    ("sort", "hint"),
    [
        ({"password": 1}, None),
        ({"name": 1, "profile": -1}, None),
        ({"profile.secret": 1}, None),
        ({}, {"password": 1}),
        ({}, {"name": 1, "password": 1}),
        ({}, "password_1"),
        ({}, [("password", 1)]),
    ],
)
def test_order_that_follows_a_hidden_property_is_refused(sort: Any, hint: Any) -> None:
    """Decision 34: an order answers questions, too."""
    with pytest.raises(SecurityViolation):
        check_order(sort, hint, HIDDEN)


@pytest.mark.parametrize("hint", [None, "_id_", {"name": 1}, {"$natural": 1}])
def test_other_orders_pass(hint: Any) -> None:
    check_order({"name": 1}, hint, HIDDEN)


def test_filter_that_names_the_password_is_told_so() -> None:
    with pytest.raises(SecurityViolation) as caught:
        check_filter_paths({"$or": [{"password": "x"}]}, HIDDEN)

    assert caught.value.message == "Using filters on the password property is forbidden"


def test_refusal_does_not_name_a_property_that_was_not_asked_for() -> None:
    with pytest.raises(SecurityViolation) as caught:
        check_filter_paths({"profile": {"a": 1}}, HIDDEN)

    assert "secret" not in caught.value.message


def test_hidden_properties_are_taken_out_of_documents_and_arrays() -> None:
    documents: list[dict[str, Any]] = [
        {"password": "p", "profile": {"secret": "s", "name": "a"}},
        {"profile": [{"secret": "s"}, [{"secret": "t", "b": 1}], 7]},
        {"profile": "text"},
        {},
    ]

    strip(documents, HIDDEN)

    assert documents == [
        {"profile": {"name": "a"}},
        {"profile": [{}, [{"b": 1}], 7]},
        {"profile": "text"},
        {},
    ]


def test_key_opens_what_it_was_made_for_and_nothing_else() -> None:
    guard = Guard()
    key = guard.hide("blog", "users", "password")
    guard.hide("blog", "users", "pin")

    assert guard.shield(None, [key]).hidden == {"blog.users": (("pin",),)}
    assert guard.shield().hidden == {"blog.users": (("password",), ("pin",))}


def test_key_of_another_guard_opens_nothing() -> None:
    guard = Guard()
    guard.hide("blog", "users", "password")

    with pytest.raises(ValueError, match="not one of this guard"):
        guard.shield(None, [RevealKey("blog.users", "password")])


def test_row_filters_are_checked_like_any_other_filter() -> None:
    guard, policy = Guard(), Policy(operators=frozenset({"$mod"}))
    rows = {"blog.users": {"age": {"$mod": [2, 0]}}}

    assert guard.shield(rows).rows == rows
    with pytest.raises(SecurityViolation):
        guard.shield(rows, policy=policy)
    with pytest.raises(SecurityViolation):
        guard.shield({"blog.users": {"$where": "true"}})


@pytest.mark.parametrize("path", ["", "a..b", "$a", "a.$b", "a.0"])
def test_only_paths_of_properties_can_be_hidden(path: str) -> None:
    with pytest.raises(ValueError, match="not the path of a property"):
        Guard().hide("blog", "users", path)


def test_row_filter_is_added_to_the_filter() -> None:
    """Decision 40."""
    shield = Shield(rows={"blog.posts": {"owner": "ann"}})

    assert shield.restrict("blog.posts", {"a": 1}).front == {"$and": [{"owner": "ann"}, {"a": 1}]}
    assert shield.restrict("blog.posts", {}).front == {"owner": "ann"}
    assert shield.restrict("blog.users", {"a": 1}).front == {"a": 1}


@pytest.mark.parametrize(
    "read",
    [
        Read({ESCAPING: 1}),
        Read({"$or": [{"a": 1}, {ESCAPING: {"$exists": True}}]}),
        Read({"$expr": {"$eq": [f"${ESCAPING}", 1]}}),
        Read(sort=[("a", 1), (ESCAPING, -1)]),
        Read(hint={ESCAPING: 1}),
        Read(projection={"x": f"${ESCAPING}"}),
    ],
)
def test_a_read_by_the_marker_is_refused(read: Read) -> None:
    with pytest.raises(SecurityViolation):
        reject_marker(read)


@pytest.mark.parametrize(
    "read", [Read({"a": 1}, sort=[("a", 1)], hint={"a": 1}), Read(projection={ESCAPING: 1, "a": 1})]
)
def test_other_reads_pass(read: Read) -> None:
    reject_marker(read)


@pytest.mark.parametrize("shield", [Shield({"db.c": HIDDEN}), Shield(rows={"db.c": {"a": 1}})])
def test_restrictions_cover_the_database_of_their_collection(shield: Shield) -> None:
    assert shield.databases == {"db"}
    assert not Shield().databases


NAMING: dict[str, tuple[Any, str | None]] = {
    "key": ([{"$match": {"password": "x"}}], "password"),
    "path": ([{"$match": {"profile.secret": "x"}}], "profile.secret"),
    "path below": ([{"$match": {"profile.secret.part": "x"}}], "profile.secret"),
    "element": ([{"$match": {"profile.0.secret": "x"}}], "profile.secret"),
    "elements": ([{"$sort": {"profile.0.3.secret": 1}}], "profile.secret"),
    "expression": ([{"$set": {"a": "$password"}}], "password"),
    "expression below": ([{"$set": {"a": {"$max": ["$profile.secret", 1]}}}], "profile.secret"),
    "variable": ([{"$set": {"a": "$$ROOT.password"}}], "password"),
    "text": ([{"$unset": ["a", "profile.secret"]}], "profile.secret"),
    "document of an event": ([{"$match": {"fullDocument.password": "x"}}], "password"),
    "name with the same beginning": ([{"$match": {"passwords": "$passwordless"}}], None),
    "last step alone": ([{"$match": {"secret": "x"}}], None),
    "other order": ([{"$match": {"secret.profile": "x"}}], None),
    "other parent": ([{"$match": {"profile.a.secret": "x"}}], None),
}


@pytest.mark.parametrize(("stages", "named"), NAMING.values(), ids=NAMING)
def test_a_pipeline_names_a_hidden_property_in_keys_texts_and_expressions(
    stages: Any, named: str | None
) -> None:
    assert find_named(stages, HIDDEN) == named


def test_a_schema_names_a_hidden_property_by_its_last_step() -> None:
    schema = {"properties": {"profile": {"properties": {"secret": {"type": "string"}}}}}
    assert find_property(schema, HIDDEN) == "profile.secret"
    assert find_property({"required": ["password"]}, HIDDEN) == "password"
    assert find_property({"properties": {"profile": {"type": "object"}}}, HIDDEN) is None
