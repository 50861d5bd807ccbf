"""Change streams in the metadata of a collection: checked when written, isolated when read."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.codec import as_meant
from docgraph.exchange.errors import DefinitionError
from docgraph.rest.properties import check_properties, to_stored
from docgraph.rest.stream_definitions import InvalidStream, find_stream
from docgraph.store import Policy

GOOD: dict[str, Any] = {"uri": "all", "stages": []}


def find_mistakes(*entries: Any) -> list[str]:
    try:
        check_properties({"streams": list(entries)}, db="db", policy=Policy(), of_collection=True)
    except DefinitionError as error:
        details: list[str] = error.details
        return details
    return []


@pytest.mark.parametrize(
    "entry",
    [
        GOOD,
        {"uri": "x", "stages": [{"$match": {"fullDocument.a": {"$var": "a"}}}]},
        {"uri": "x", "stages": [{"_$match": {"fullDocument::a": {"_$var": ["a", 1]}}}]},
        {"uri": "x", "stages": [{"$ifvar": ["a", {"$match": {"operationType": "insert"}}]}]},
        {"uri": "x", "stages": [{"$project": {"fullDocument": 1}}, {"$unset": ["fullDocument.x"]}]},
        {"uri": "x", "stages": [], "notify_when": {"fullDocument::room.id": {"$var": "room"}}},
        {"uri": "x", "stages": [], "before": True, "snapshot": {}},
        {"uri": "x", "stages": [], "snapshot": {"filter": {"a": {"$var": "a"}}, "limit": 5}},
        {"uri": "x", "stages": [], "snapshot": {"filter": {"$ifvar": ["a", {"_$or": [{"a": 1}]}]}}},
    ],
)
def test_what_can_work_is_taken(entry: dict[str, Any]) -> None:
    assert find_mistakes(entry) == []


@pytest.mark.parametrize(
    ("entry", "mistake"),
    [
        (5, "streams[0]: must be an object with uri and stages"),
        (
            {"stages": []},
            "streams[0].uri: must be a text, the last part of the path of the change stream",
        ),
        (
            {"uri": "x", "stages": [], "notify_when": {"fullDocument::a": {"$var": "before"}}},
            "streams[0].notify_when: 'before' is a parameter of every stream",
        ),
        ({"uri": "x", "stages": [], "before": 1}, "streams[0].before: must be true or false"),
        (
            {"uri": "x", "stages": [], "snapshot": True},
            "streams[0].snapshot: must be an object with filter and limit",
        ),
        (
            {"uri": "x", "stages": [], "snapshot": {"sort": 1}},
            "streams[0].snapshot.sort: is not known",
        ),
        (
            {"uri": "x", "stages": [], "snapshot": {"limit": 0}},
            "streams[0].snapshot.limit: must be a whole number of documents, at least 1",
        ),
        (
            {"uri": "x", "stages": [], "snapshot": {"limit": True}},
            "streams[0].snapshot.limit: must be a whole number of documents, at least 1",
        ),
        (
            {"uri": "x", "stages": [], "snapshot": {"filter": {"$text": {"$search": "a"}}}},
            "streams[0].snapshot.filter: must not use $text, $near or $nearSphere",
        ),
        (
            {"uri": "x", "stages": [], "snapshot": {"filter": {"a": {"$var": 1}}}},
            "streams[0].snapshot.filter.a.$var: the name must be a string, not a number",
        ),
        ({"uri": "a/b", "stages": []}, "streams[0].uri: must not contain a slash"),
        ({"uri": "x"}, "streams[0].stages: must be an array of stages, not null"),
        ({"uri": "x", "stages": [], "pipeline": 1}, "streams[0].pipeline: is not known"),
        (
            {"uri": "x", "stages": [{"$unset": "_id"}]},
            "streams[0].stages[0]: must leave the _id of an event as it is",
        ),
        (
            {"uri": "x", "stages": [{"$match": {}}, {"$project": {"_id": 0}}]},
            "streams[0].stages[1]: must leave the _id of an event as it is",
        ),
        (
            {"uri": "x", "stages": [], "notify_when": {}},
            "streams[0].notify_when: notify_when must have exactly one entry",
        ),
        (
            {"uri": "x", "stages": [], "notify_when": {"fullDocument::a": "b"}},
            'streams[0].notify_when: notify_when value must be { "$var": "<varName>" }',
        ),
        (
            {"uri": "x", "stages": [], "notify_when": {"fullDocument::a": {"$var": "@user"}}},
            'streams[0].notify_when: notify_when value must be { "$var": "<varName>" }',
        ),
        (
            {"uri": "x", "stages": [], "notify_when": {"room": {"$var": "r"}}},
            "streams[0].notify_when: notify_when must use '::' separator",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(entry: Any, mistake: str) -> None:
    assert mistake in find_mistakes(entry)


@pytest.mark.parametrize(
    "stage",
    [
        {"$out": "other"},
        {"$merge": {"into": "other"}},
        {"$lookup": {"from": "other", "localField": "a", "foreignField": "b", "as": "c"}},
        {"$group": {"_id": "$x"}},
        {"$match": {"$where": "true"}},
        {"$set": {"x": {"$function": {"body": "", "args": [], "lang": "js"}}}},
    ],
)
def test_stages_that_a_stream_may_not_have_are_refused(stage: dict[str, Any]) -> None:
    (mistake,) = find_mistakes({"uri": "x", "stages": [stage]})
    assert mistake.startswith("streams[0].stages")


def test_names_are_given_once() -> None:
    assert find_mistakes(GOOD, GOOD) == ["streams[1].uri: there is another change stream 'all'"]


def test_a_bad_entry_does_no_harm_to_the_others() -> None:
    metadata = as_meant(to_stored({"streams": [{"stages": 5}, {"uri": "bad", "stages": 5}, GOOD]}))
    assert find_stream(metadata, "all") is not None
    assert find_stream(metadata, "unknown") is None
    with pytest.raises(InvalidStream):
        find_stream(metadata, "bad")


def test_the_condition_of_a_stream_is_a_path_and_a_parameter() -> None:
    condition = {"fullDocument::room.id": {"$var": "room"}}
    stored = to_stored({"streams": [{**GOOD, "notify_when": condition}]})
    found = find_stream(as_meant(stored), "all")
    assert found is not None
    assert (found.notify_path, found.notify_parameter) == (("fullDocument", "room", "id"), "room")
