"""Which conditions stay in front of the fence, and where pipelines get one (decision 49)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from bson import Regex

from docgraph.exchange.errors import QueryError, SecurityViolation
from docgraph.store.guard.fence import (
    FENCE,
    Ground,
    check_found,
    check_searches,
    find_unsafe,
    match_behind,
    split,
)
from docgraph.store.guard.rewrite import guard_pipeline
from docgraph.store.guard.shield import Shield

EXPR = {"$expr": {"$gt": ["$a", "$b"]}}
PATTERN = {"t": {"$regex": "x"}}
SAFE = {"a": 1}

SAFE_FILTERS: tuple[Any, ...] = (
    {},
    {"a": 1, "b": None, "c": {"d": Regex("x")}, "e": [Regex("x")]},
    {"a": {"$eq": Regex("x"), "$ne": 1, "$gt": 1, "$gte": 1, "$lt": 1, "$lte": 1}},
    {"a": {"$in": [1, "x", None, [Regex("x")]], "$nin": []}},
    {"a": {"$exists": True, "$type": "string", "$size": 1, "$mod": [2, 0]}},
    {"a": {"$all": [1, {"$elemMatch": {"b": 1}}]}},
    {"a": {"$bitsAllSet": 1, "$bitsAnySet": 1, "$bitsAllClear": 1, "$bitsAnyClear": 1}},
    {"a": {"$geoWithin": {"$box": [[0, 0], [1, 1]]}}, "b": {"$geoIntersects": {}}},
    {"a": {"$not": {"$gt": 1}}, "b": {"$elemMatch": {"$gt": 1, "$lt": 2}}},
    {"b": {"$elemMatch": {"c": 1, "$or": [{"d": 1}, {"e": {"$elemMatch": {"f": 2}}}]}}},
    {"$and": [{"$or": [{"a": 1}, {"$nor": [{"b": 2}]}]}], "$comment": "c"},
    {"$text": {"$search": "x"}},
    {"a": {"$near": [0, 0], "$maxDistance": 1}},
    {"a": "$expr", "b": {"c": "$where"}},
)
UNSAFE_FILTERS: tuple[tuple[Any, str], ...] = (
    (EXPR, "$expr"),
    ({"$jsonSchema": {}}, "$jsonSchema"),
    ({"$sampleRate": 0.5}, "$sampleRate"),
    ({"$unheardOf": 1}, "$unheardOf"),
    ({"a": {"$unheardOf": 1}}, "$unheardOf"),
    ({"a": {"$regex": "x"}}, "$regex"),
    ({"a": {"$options": "i", "$regex": "x"}}, "$options"),
    ({"a": Regex("x")}, "a regular expression"),
    ({"a": re.compile("x")}, "a regular expression"),
    ({"a": {"$in": [1, Regex("x")]}}, "a regular expression"),
    ({"a": {"$nin": [re.compile("x")]}}, "a regular expression"),
    ({"a": {"$all": [Regex("x")]}}, "a regular expression"),
    ({"a": {"$all": [{"$elemMatch": {"b": Regex("x")}}]}}, "a regular expression"),
    ({"a": {"$not": Regex("x")}}, "$not"),
    ({"a": {"$not": {"$regex": "x"}}}, "$regex"),
    ({"a": {"$elemMatch": {"b": {"$regex": "x"}}}}, "$regex"),
    ({"a": {"$elemMatch": {"$regex": "x"}}}, "$regex"),
    ({"a": {"$elemMatch": {"$expr": True}}}, "$expr"),
    ({"$and": [{"$or": [SAFE, {"$nor": [EXPR]}]}]}, "$expr"),
    ({"$and": "no list"}, "$and"),
    ({"a": {"$in": "no list"}}, "$in"),
    ({"$or": ["no filter"]}, "a filter that is no object"),
)


@pytest.mark.parametrize("filter", SAFE_FILTERS, ids=str)
def test_conditions_that_cannot_fail_need_no_fence(filter: Any) -> None:
    assert find_unsafe(filter) is None
    assert split(filter) == (filter, {})


@pytest.mark.parametrize(("filter", "name"), UNSAFE_FILTERS, ids=str)
def test_what_is_not_known_to_be_safe_is_behind_the_fence(filter: Any, name: str) -> None:
    assert find_unsafe(filter) == name
    front, behind = split(filter)
    assert find_unsafe(front) is None
    assert find_unsafe(behind) is not None


@pytest.mark.parametrize(
    ("filter", "front", "behind"),
    [
        ({**SAFE, **EXPR}, SAFE, EXPR),
        ({"$and": [SAFE, {"$and": [EXPR, {"b": 2}]}]}, {"$and": [SAFE, {"b": 2}]}, EXPR),
        ({"$or": [SAFE, EXPR]}, {}, {"$or": [SAFE, EXPR]}),
        (
            {"$or": [SAFE, {"b": 2, **EXPR}]},
            {"$or": [SAFE, {"b": 2}]},
            {"$or": [SAFE, {"b": 2, **EXPR}]},
        ),
        ({"$nor": [SAFE, EXPR]}, {"$nor": [SAFE]}, {"$nor": [SAFE, EXPR]}),
        ({"$nor": [EXPR]}, {}, {"$nor": [EXPR]}),
        ({"a": {"$not": {"$regex": "^x"}}}, {}, {"a": {"$not": {"$regex": "^x"}}}),
        (
            {"a": {"$gt": 1, "$regex": "^x"}},
            {"a": {"$gt": 1, "$gte": "x", "$lt": "y"}},
            {"a": {"$gt": 1, "$regex": "^x"}},
        ),
        (
            {"a": {"$elemMatch": {"k": 1, "v": Regex("^x")}}},
            {"a": {"$elemMatch": {"k": 1, "v": {"$gte": "x", "$lt": "y"}}}},
            {"a": {"$elemMatch": {"k": 1, "v": Regex("^x")}}},
        ),
        ({"$text": {"$search": "x"}, **EXPR}, {"$text": {"$search": "x"}}, EXPR),
    ],
    ids=str,
)
def test_a_filter_leaves_in_front_what_it_implies(filter: Any, front: Any, behind: Any) -> None:
    assert split(filter, by_bytes=True) == (front, behind)


@pytest.mark.parametrize(
    ("pattern", "first", "last"),
    [
        ("^abc", "abc", "abd"),
        ("\\Aabc", "abc", "abd"),
        ("^abc.*", "abc", "abd"),
        ("^abc*", "ab", "ac"),
        ("^abc?", "ab", "ac"),
        ("^abc+", "ab", "ac"),
        ("^abc{0,2}", "ab", "ac"),
        ("^a\\.b", "a.b", "a.c"),
        ("^a\\|b", "a|b", "a|c"),
        ("^a-\\d", "a-", "a."),
        ("^ab(c|d)", None, None),
        ("^ab|c", None, None),
        ("^(?i)abc", None, None),
        ("(?i)^abc", None, None),
        ("^*abc", None, None),
        ("^a*", None, None),
        ("^.a", None, None),
        ("^[a]b", None, None),
        ("abc", None, None),
        ("^", None, None),
        ("^\\dabc", None, None),
        ("^é", None, None),
        # What follows the last code point, or the last one below the surrogates, is no text.
        ("^ab\\\U0010ffff", "ab", "ac"),
        ("^ab\\\ud7ff", "ab", "ac"),
        (re.compile("^abc"), "abc", "abd"),
        (re.compile("^abc", re.DOTALL), "abc", "abd"),
        (re.compile("^abc", re.IGNORECASE), None, None),
        (re.compile("^abc", re.MULTILINE), None, None),
        (Regex("^abc", "x"), None, None),
    ],
)
def test_a_literal_prefix_leaves_its_range_in_front(
    pattern: Any, first: str | None, last: str | None
) -> None:
    expected = {"t": {"$gte": first, "$lt": last}} if first else {}
    is_text = isinstance(pattern, str)

    assert split({"t": Regex(pattern) if is_text else pattern}, by_bytes=True).front == expected
    assert split({"t": {"$regex": pattern}}, by_bytes=True).front == expected
    assert split({"t": {"$regex": pattern}}).front == {}, "texts may be compared another way"


@pytest.mark.parametrize("options", ["i", "m", "x", "is", 5])
def test_options_that_change_what_a_prefix_means_leave_no_range(options: Any) -> None:
    assert split({"t": {"$regex": "^a", "$options": options}}, by_bytes=True).front == {}
    assert split({"t": {"$regex": "^a", "$options": "s"}}, by_bytes=True).front != {}


@pytest.mark.parametrize(
    "filter",
    [
        {"a": {"$near": [0, 0]}, **EXPR},
        {"$and": [{"a": {"$nearSphere": [0, 0]}}, PATTERN]},
        {"$or": [{"$text": {"$search": "x"}}, PATTERN]},
    ],
    ids=str,
)
def test_what_can_stand_neither_in_front_nor_behind_is_refused(filter: Any) -> None:
    with pytest.raises(QueryError, match="under a row filter") as refused:
        split(filter)
    assert refused.value.hint


# --- pipelines ------------------------------------------------------------------------------------

ROW = {"owner": "ann"}
MIXED = {"$match": {**SAFE, **EXPR}}
SHIELD = Shield(rows={"blog.posts": ROW})
ROWED = {"$match": ROW}
SORT = {"$sort": {"d": 1}}
MATCHED = {"$match": SAFE}
WHOLE = match_behind({})
SERVED = {"blog.posts": Ground(by_bytes=True, serves=lambda sort, filter: "d" in sort)}


def guard(*stages: Any, on: str = "posts", grounds: Any = None) -> list[Any]:
    return list(guard_pipeline(list(stages), "blog", on, SHIELD, grounds))


def match(*conditions: Any) -> list[Any]:
    return [{"$match": one} for one in conditions]


@pytest.mark.parametrize(
    "stage",
    [
        {"$set": {"x": 1}},
        {"$addFields": {"x": 1}},
        {"$unwind": "$a"},
        {"$redact": "$$KEEP"},
        {"$replaceRoot": {"newRoot": "$a"}},
        {"$replaceWith": "$a"},
        {"$lookup": {"from": "others", "localField": "a", "foreignField": "b", "as": "c"}},
        {"$unionWith": "others"},
    ],
    ids=lambda stage: next(iter(stage)),
)
def test_the_fence_is_in_front_of_stages_that_the_database_moves_conditions_across(
    stage: Any,
) -> None:
    """Decision 49: an unsafe condition behind them would be moved next to the row filter."""
    stages = guard(stage, {"$match": EXPR})

    assert stages[stages.index(stage) - 2 : stages.index(stage)] == [FENCE, WHOLE]
    assert FENCE not in guard(stage, {"$match": SAFE})


PIPELINES: dict[str, tuple[list[Any], list[Any]]] = {
    "no condition": ([{"$group": {"_id": "$a"}}], [ROWED, {"$group": {"_id": "$a"}}]),
    "safe": (match(SAFE), match(ROW, SAFE)),
    "mixed": ([MIXED], [*match(ROW, SAFE), FENCE, match_behind(EXPR)]),
    "unsafe": (match(PATTERN), [ROWED, FENCE, match_behind(PATTERN)]),
    "behind others": (
        [{"$project": {"a": 1}}, {"$unwind": "$a"}, *match(SAFE, PATTERN)],
        [ROWED, {"$project": {"a": 1}}, FENCE, WHOLE, {"$unwind": "$a"}, *match(SAFE, PATTERN)],
    ),
    "computed": (
        [MATCHED, {"$project": {"a": "$b"}}, SORT, *match(PATTERN)],
        [ROWED, MATCHED, FENCE, WHOLE, {"$project": {"a": "$b"}}, SORT, *match(PATTERN)],
    ),
    "sorted and computed": (
        [SORT, {"$set": {"b": 1}}, MIXED],
        [ROWED, FENCE, WHOLE, SORT, {"$set": {"b": 1}}, MIXED],
    ),
    "grouped": (
        [{"$group": {"_id": "$a"}}, *match(PATTERN)],
        [ROWED, {"$group": {"_id": "$a"}}, FENCE, match_behind(PATTERN)],
    ),
    "one fence is enough": (
        [*match(PATTERN), {"$set": {"b": 1}}, *match(EXPR)],
        [ROWED, FENCE, match_behind(PATTERN), {"$set": {"b": 1}}, *match(EXPR)],
    ),
    "sorted before": ([SORT, MIXED], [*match(ROW, SAFE), FENCE, match_behind(EXPR), SORT]),
    "sorted after": ([MIXED, SORT], [*match(ROW, SAFE), FENCE, match_behind(EXPR), SORT]),
    "sorted and cut": (
        [SORT, {"$limit": 3}, *match(EXPR)],
        [ROWED, SORT, {"$limit": 3}, *match(EXPR)],
    ),
    "facet": (
        [{"$facet": {"x": match(EXPR)}}],
        [ROWED, FENCE, WHOLE, {"$facet": {"x": match(EXPR)}}],
    ),
    "safe facet": (
        [{"$facet": {"x": match(SAFE)}}],
        [ROWED, {"$facet": {"x": match(SAFE)}}],
    ),
    "text": (
        match({"$text": {"$search": "x"}, **EXPR}),
        [*match({"$and": [ROW, {"$text": {"$search": "x"}}]}), FENCE, match_behind(EXPR)],
    ),
}


@pytest.mark.parametrize(("stages", "expected"), PIPELINES.values(), ids=PIPELINES.keys())
def test_a_pipeline_gets_one_fence_where_it_needs_one(
    stages: list[Any], expected: list[Any]
) -> None:
    assert guard(*stages) == expected


@pytest.mark.parametrize("stages", [[SORT, MIXED], [MIXED, SORT]], ids=["before", "after"])
def test_a_sort_that_an_index_serves_stays_in_front(stages: list[Any]) -> None:
    assert guard(*stages, grounds=SERVED) == [*match(ROW, SAFE), SORT, FENCE, match_behind(EXPR)]
    behind_more = [{"$unwind": "$a"}, *stages]
    assert guard(*behind_more, grounds=SERVED)[1] == FENCE
    more = [SORT, {"$set": {"b": 1}}, MIXED]
    assert guard(*more, grounds=SERVED) == [ROWED, SORT, FENCE, WHOLE, *more[1:]]


def join(name: str, *stages: Any) -> Any:
    if name == "$unionWith":
        return {name: {"coll": "posts", "pipeline": list(stages)}}
    return {name: {"from": "posts", "pipeline": list(stages), "as": "found"}}


@pytest.mark.parametrize("name", ["$lookup", "$unionWith"])
def test_joins_get_a_fence_of_their_own(name: str) -> None:
    assert guard(join(name, MIXED), on="users") == [
        join(name, *match(ROW, SAFE), FENCE, match_behind(EXPR))
    ]
    # What follows could be moved into the join: `$lookup`, `$unwind` and `$match` become one.
    unwind = {"$unwind": "$found"}
    assert guard(join(name), unwind, *match(SAFE, PATTERN), on="users") == [
        join(name, ROWED),
        unwind,
        *match(SAFE),
        FENCE,
        match_behind(PATTERN),
    ]
    # Behind a fence inside the join nothing gets past it.
    assert guard(join(name, MIXED), *match(PATTERN), on="users")[1:] == match(PATTERN)


def test_collections_without_row_filters_stay_as_they_are() -> None:
    stages = [MIXED, SORT, {"$lookup": {"from": "tags", "pipeline": match(EXPR), "as": "t"}}]

    assert guard(*stages, on="users") == stages


# --- where there is no room for a fence -----------------------------------------------------------

GRAPH = {
    "from": "posts",
    "startWith": "$a",
    "connectFromField": "a",
    "connectToField": "b",
    "as": "found",
}
NEAR = {"near": [0, 0], "distanceField": "far"}


@pytest.mark.parametrize("condition", [PATTERN, EXPR, {"$or": [SAFE, PATTERN]}], ids=str)
@pytest.mark.parametrize("name", ["$graphLookup", "$geoNear"])
def test_a_search_takes_safe_conditions_only(name: str, condition: Any) -> None:
    key, body = ("restrictSearchWithMatch", GRAPH) if name == "$graphLookup" else ("query", NEAR)
    on = "users" if name == "$graphLookup" else "posts"

    (guarded,) = guard({name: {**body, key: SAFE}}, on=on)
    assert guarded[name][key] == {"$and": [ROW, SAFE]}
    with pytest.raises(SecurityViolation, match=r"cannot hold \$"):
        guard({name: {**body, key: condition}}, on=on)
    with pytest.raises(QueryError, match=r"stages\[0\].*would not run under a row filter"):
        check_searches([{name: {**body, key: condition}}])
    with pytest.raises(QueryError, match=r"stages\[0\]\.\$facet\.x\[1\]"):
        check_searches([{"$facet": {"x": [{"$limit": 1}, {name: {**body, key: condition}}]}}])


@pytest.mark.parametrize(
    "condition",
    [{"a": {"$arg": "x"}}, {"a": {"$in": {"$var": "x"}}}, {"$and": [{"$ifarg": ["x", SAFE]}]}, {}],
    ids=str,
)
def test_values_that_come_later_are_left_to_the_run(condition: Any) -> None:
    check_searches([{"$geoNear": {**NEAR, "query": condition}}])


def test_a_write_finds_its_documents_by_what_is_safe() -> None:
    check_found({})
    check_found({"$and": [SAFE, {"_etag": {"$in": [1, None]}}]})
    with pytest.raises(SecurityViolation, match=r"cannot hold \$expr") as refused:
        check_found({"$and": [SAFE, EXPR]})
    assert "_id" in str(refused.value.hint)
