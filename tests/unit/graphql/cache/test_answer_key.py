"""Keys of cached answers: different for everything that can make answers differ."""

from __future__ import annotations

from datetime import datetime
from itertools import combinations
from typing import Any
from uuid import UUID

import pytest
from graphql import parse

from docgraph.codec.bson_types import Binary, Decimal128, Int64, ObjectId, Regex
from docgraph.graphql.apps.compiled_app import VisibleApp, build_app
from docgraph.graphql.cache.answer_key import NoKeyError, build_key
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.definition.inputs import ExactFloat
from docgraph.graphql.plan.plan import Plan, build_plan
from docgraph.graphql.sections import Graphql
from docgraph.variables import UNBOUND, CallerDocument, TrustedDocument

SCHEMA = 'type Query { a: Int b: Int @visible(roles: ["x"]) }'


def build(id: str = "app", roles: tuple[str, ...] = (), **descriptor: Any) -> VisibleApp:
    mapping = {"db": "d", "collection": "c", "find": {}, "count": True}
    definition = {"_id": id, "schema": SCHEMA, "descriptor": descriptor}
    definition["mappings"] = {"Query": {"a": mapping, "b": mapping}}
    return build_app(decode_definition(definition), Graphql()).visible_to(roles)


def plan(app: VisibleApp, query: str = "{ a }", name: str | None = None) -> Plan:
    return build_plan(app, parse(query), name)


APP = build()
PLAN = plan(APP)
VALUES: list[Any] = [
    *(1, 1.0, True, "1", None, [1], [[1]], {"a": 1}, {"a": 1.0}, {}, [], "", 0, False, UNBOUND),
    *(Int64(1), Decimal128("1"), Decimal128("1.0"), ExactFloat("1.0"), ExactFloat("1.00")),
    *(ObjectId("0" * 24), "0" * 24, datetime(2026, 1, 1), "2026-01-01", b"1", UUID(int=1)),
    *(Regex("a"), Regex("a", "i"), "a", CallerDocument(a=1), TrustedDocument(a=1)),
    *({"a": 1, "b": 2}, {"b": 2, "a": 1}, ["a", "b"], ["a\nstr 'b'"], "a\nb", ["a", ["b"]]),
]

# Users and rules can have them, JSON cannot.
BINARIES = [Binary(text, subtype) for text in (b"a", b"b") for subtype in (0, 3, 5, 8, 128, 255)]


def keys_of(values: list[Any], part: str) -> list[bytes]:
    """The keys of requests that differ in one value."""
    if part == "variables":
        return [build_key(PLAN, {"v": one}, {}, None) for one in values]
    if part == "values":
        return [build_key(PLAN, {}, {"@user.v": one}, None) for one in values]
    return [build_key(PLAN, {}, {}, {"d.c": {"v": one}}) for one in values]


@pytest.mark.parametrize("part", ["variables", "values", "rows"])
def test_values_that_differ_in_type_or_order_have_keys_of_their_own(part: str) -> None:
    values = VALUES
    if part != "variables":
        values = [*VALUES, *BINARIES, *([one, ObjectId(24 * "a")] for one in BINARIES)]
    keys = keys_of(values, part)
    for one, other in combinations(range(len(values)), 2):
        assert keys[one] != keys[other], (values[one], values[other])
    assert keys == keys_of(values, part)


def test_everything_is_part_of_the_key() -> None:
    both = "query A { a } query B { a }"
    described: tuple[tuple[Plan, Any, Any, Any], ...] = (
        (PLAN, {}, {}, None),
        (plan(build("other")), {}, {}, None),
        (plan(build(description="changed")), {}, {}, None),
        (plan(build(uri="elsewhere")), {}, {}, None),
        (plan(build(roles=("x",))), {}, {}, None),
        (plan(APP, "{ a a }"), {}, {}, None),
        (plan(APP, both, "A"), {}, {}, None),
        (plan(APP, both, "B"), {}, {}, None),
        (PLAN, {"a": 1}, {}, None),
        (PLAN, {}, {"a": 1}, None),
        (PLAN, {}, {}, {"a": 1}),
        (PLAN, {}, {}, {"d.c": {}}),
        *((PLAN, {"a": text}, {}, None) for text in ("x" * 300, "x" * 299 + "y")),
    )
    keys = [build_key(*one) for one in described]
    assert len(set(keys)) == len(keys)
    assert max(map(len, keys)) < 300


def test_a_plan_that_was_built_again_has_the_same_key() -> None:
    assert build_key(plan(build()), {"a": 1}, {}, None) == build_key(PLAN, {"a": 1}, {}, None)


def test_roles_that_no_field_names_do_not_matter() -> None:
    assert plan(build(roles=("y",))).identity == PLAN.identity


def test_a_value_of_an_unknown_type_has_no_key() -> None:
    with pytest.raises(NoKeyError):
        build_key(PLAN, {}, {"@user.v": [object()]}, None)
