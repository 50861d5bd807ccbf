"""What the preview of a query says of the access to its collections."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.graphql.execute.cost_estimate import FetchEstimate
from docgraph.store.query_plan import QueryPlan


@pytest.mark.parametrize(
    ("facts", "warning"),
    [
        ({"needs_index": False}, ""),
        ({"needs_index": False, "is_scan": True}, ""),
        ({}, "Query.a sorts all that it finds in d.a in memory"),
        ({"is_scan": True, "stored": None}, "Query.a scans d.a: no index serves it"),
        (
            {"is_scan": True},
            "Query.a scans d.a, which has about 7 documents: no index serves it",
        ),
    ],
)
def test_a_field_that_an_index_would_serve_has_a_warning(
    facts: dict[str, Any], warning: str
) -> None:
    plain = {"is_scan": False, "stored": 7, "examined": 7, "needs_index": True}
    fetch = FetchEstimate("Query.a", "find", "", 5, "d.a", QueryPlan((), ()), **{**plain, **facts})

    assert fetch.warning == warning
