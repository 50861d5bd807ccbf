"""The database's account of a command, read from the forms that it has."""

from __future__ import annotations

from typing import Any

from docgraph.store.query_plan import read_execution

FIND: dict[str, Any] = {
    "queryPlanner": {
        "winningPlan": {
            "stage": "FETCH",
            "inputStage": {"stage": "IXSCAN", "indexName": "a_1", "indexBounds": {"a": ["[1, 1]"]}},
        }
    },
    "executionStats": {
        "nReturned": 2,
        "executionTimeMillis": 7,
        "totalKeysExamined": 3,
        "totalDocsExamined": 2,
        "executionStages": {"stage": "FETCH", "docsExamined": 2},
    },
}


def test_a_find_tells_index_keys_documents_and_time() -> None:
    took = read_execution(FIND)

    assert took.as_dict() == {
        "indexes": ["a_1"],
        "scan": False,
        "sortsInMemory": False,
        "keysExamined": 3,
        "documentsExamined": 2,
        "returned": 2,
        "ms": 7,
    }


def test_the_stages_of_a_pipeline_are_added_up() -> None:
    lookup = {"$lookup": {}, "totalDocsExamined": 50, "totalKeysExamined": 0, "collectionScans": 5}
    group = {"$group": {}, "nReturned": 4, "executionTimeMillisEstimate": 9}

    took = read_execution({"stages": [{"$cursor": FIND, "nReturned": 2}, lookup, group]})

    assert (took.keys, took.documents, took.returned, took.milliseconds) == (3, 52, 4, 9)
    assert took.plan.is_scan
    assert took.plan.indexes == ("a_1",)


def test_an_index_of_a_join_and_a_sort_of_a_pipeline_are_told() -> None:
    lookup = {"$lookup": {}, "totalDocsExamined": 2, "indexesUsed": ["b_1"]}

    took = read_execution({"stages": [{"$cursor": FIND}, lookup, {"$sort": {}, "nReturned": 1}]})

    assert took.plan.indexes == ("a_1", "b_1")
    assert took.plan.sorts


def test_a_sort_that_an_index_serves_is_none_in_memory() -> None:
    command = {"aggregate": "a", "pipeline": [{"$sort": {"a": 1}}, {"$limit": 5}]}

    assert not read_execution({**FIND, "command": command}).plan.sorts
    assert not read_execution({"stages": [{"$cursor": FIND}], "command": command}).plan.sorts


def test_the_totals_of_a_cluster_are_not_counted_twice() -> None:
    shards = [{"executionStages": {}, "totalDocsExamined": 1} for _ in range(2)]
    stats = {**FIND["executionStats"], "executionStages": {"shards": shards}}

    assert read_execution({**FIND, "executionStats": stats}).documents == 2


def test_an_answer_of_another_form_is_not_known() -> None:
    took = read_execution({"ok": 1})

    assert not took.plan.is_known
    assert (took.documents, took.returned) == (0, 0)
