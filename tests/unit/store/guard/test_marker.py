"""The marker of documents that are stored escaped is no property that a caller can use."""

from __future__ import annotations

import pytest

from docgraph.exchange.data import ESCAPING, Read
from docgraph.exchange.errors import SecurityViolation
from docgraph.store.guard.marker import reject_marker


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
