"""Predicates of rules, whatever is written and whoever asks."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from docgraph.access.language import compile_predicate
from docgraph.access.role_escalation import RolePlace, may_give
from docgraph.codec.roles_path import RolesPath
from docgraph.exchange import Account, Write, WriteKind
from docgraph.predicates import PredicateError
from tests.unit.access.harness import RESOLVERS, evaluate

PRINTABLE = st.characters(exclude_categories=["C", "Z"]) | st.just(" ")
SEGMENTS = st.text(PRINTABLE, min_size=1, max_size=8).filter(lambda text: text not in (".", ".."))
PARTS = st.sampled_from(
    ["path('/a')", "equals(@user.x, 1)", "${id}", "%{i,", "@qparams['x']", "and", "or", "not",
     "(", ")", "{", "}", "'", '"', "=", ",", " ", "path-template('/{id}')", "\\", "values={}"]
)  # fmt: skip


@given(st.one_of(st.text(max_size=60), st.lists(PARTS, max_size=12).map("".join)))
def test_any_text_is_a_predicate_or_a_mistake_with_a_column(text: str) -> None:
    column = 1
    try:
        compile_predicate(text, RESOLVERS.variables)
    except PredicateError as error:
        column = error.column
    assert 1 <= column <= len(text) + 1


@given(st.lists(SEGMENTS, max_size=4), st.lists(SEGMENTS, max_size=4))
def test_a_path_matches_itself_however_it_is_encoded_and_no_other(
    wanted: list[str], asked: list[str]
) -> None:
    """Decision 39."""
    raw = "/" + "/".join(quote(segment, safe="") for segment in asked)
    written = "/" + "/".join(wanted)
    if any(mark in written for mark in "'\"\\%${}@") or any("/" in one for one in wanted):
        return  # what a rule spells otherwise
    holds = asyncio.run(evaluate(f"path('{written}')", "GET", raw))
    assert holds is (wanted == asked)


ROLES = RolePlace(RolesPath("$.roles"))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=10)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(VALUES, st.text(max_size=10))
def test_a_condition_and_its_contrary_never_both_hold(value: Any, asked: str) -> None:
    account = Account("ada", (), {"x": value})
    path = "/" + quote(asked, safe="") if asked.strip(".") and "\0" not in asked else "/none"
    text = "equals(@user.x, ${id})"

    async def ask(predicate: str) -> bool:
        return await evaluate(
            f"path-template('/{{id}}') and {predicate}", "GET", path, account=account
        )

    both = asyncio.run(ask(text)), asyncio.run(ask(f"not {text}"))
    assert both != (True, True)
    if value is None:
        assert both == (False, False)


@given(VALUES, st.sampled_from(["$set", "$push", "$addToSet", "$setOnInsert", "$max"]))
def test_a_role_is_found_wherever_it_hides(value: Any, operator: str) -> None:
    carried = [value, {"deep": ["root-role", value]}]
    for path in ("roles", "roles.0", "roles.$[]"):
        assert may_give(
            Write(WriteKind.UPDATE, update={operator: {path: carried}}), "root-role", ROLES
        )
    assert may_give(Write(WriteKind.INSERT, ({"roles": carried},)), "root-role", ROLES)
