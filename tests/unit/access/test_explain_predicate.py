"""Which conditions of a predicate keep it from being true."""

from __future__ import annotations

import pytest

from docgraph.access.language.predicate import find_failures
from docgraph.access.language.view import RequestView
from tests.unit.access.harness import RESOLVERS, make_exchange

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("true", []),
        ("false", [("false", False)]),
        ("path-prefix('/a')", []),
        ("path-prefix('/b')", [("path-prefix('/b')", False)]),
        ("not path-prefix('/a')", [("not path-prefix('/a')", True)]),
        ("not path-prefix('/b')", []),
        ("path-prefix('/a') and method('PUT')", [("method('PUT')", False)]),
        ("path-prefix('/b') or method('GET')", []),
        (
            "path-prefix('/b') or method('PUT')",
            [("path-prefix('/b')", False), ("method('PUT')", False)],
        ),
        ("not (path-prefix('/b') and method('GET'))", []),
        (
            "not (path-prefix('/a') or method('GET'))",
            [("not path-prefix('/a')", True), ("not method('GET')", True)],
        ),
        ("equals(@user.none, 1)", [("equals(@user.none, 1)", None)]),
        ("not equals(@user.none, 1)", [("not equals(@user.none, 1)", None)]),
    ],
)
async def test_the_conditions_that_deny_a_request_are_named(
    text: str, failed: list[tuple[str, bool | None]]
) -> None:
    view = RequestView(make_exchange("GET", "/a/x"), RESOLVERS)

    found = await find_failures(text, RESOLVERS.variables, view)

    assert [(one.condition, one.truth) for one in found] == failed
