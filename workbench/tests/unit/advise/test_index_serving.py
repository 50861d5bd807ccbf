"""Which branches of a row filter no index begins with."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.tools.data import Index
from docgraph_workbench.advise.index_serving import find_unindexed

BY_OWNER = Index((("owner", 1), ("at", -1)))
EITHER = {"$or": [{"owner": "@user._id"}, {"team": {"$in": ["a", "b"]}}]}


@pytest.mark.parametrize(
    ("filter", "indexes", "fixed"),
    [
        ({"owner": 1}, [], [["owner"]]),
        ({"owner": 1}, [BY_OWNER], []),
        ({"at": 1}, [BY_OWNER], [["at"]]),  # not its beginning
        ({"owner": 1}, [Index((("owner", -1),))], []),
        ({"owner": 1}, [Index((("owner", "hashed"),))], []),
        ({"owner": 1}, [Index((("owner", "text"),))], [["owner"]]),
        ({"owner": 1}, [Index((("owner", 1),), complete=False)], [["owner"]]),  # partial, sparse
        ({"owner": {"$var": "@user._id"}, "team": {"$eq": 2}}, [], [["owner", "team"]]),
        ({"$and": [{"n": {"$gt": 1}}, {"owner": 1}]}, [BY_OWNER], []),
        (EITHER, [BY_OWNER], [["team"]]),
        (EITHER, [], [["owner"], ["team"]]),
        ({"$and": [EITHER, {"n": {"$gt": 1}}]}, [BY_OWNER], [["team"]]),
        ({"$or": [EITHER, {"kind": 1}]}, [BY_OWNER], [["team"], ["kind"]]),
        ({"owner": 1, **EITHER}, [BY_OWNER], []),
        ({"owner": {"$ne": 1}}, [], []),
        ({"$or": [{"owner": 1}, {"n": {"$gt": 1}}]}, [], []),  # one branch scans anyway
        ({}, [], []),
    ],
)
def test_branches_without_an_index_are_found(
    filter: dict[str, Any], indexes: list[Index], fixed: list[list[str]]
) -> None:
    assert [paths for _, paths in find_unindexed(filter, indexes)] == fixed
