"""What expressions may cost: those that callers write, and supplied values in those of authors."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from bson import Decimal128, Int64, Regex

from docgraph.access.enforce import restrict
from docgraph.exchange.data import TrustedDocument, Write, WriteKind
from docgraph.exchange.errors import ExpressionTooLarge, LoopTooLarge, QueryError, SecurityViolation
from docgraph.store import Policy, check_filter, check_pipeline
from docgraph.store.guard.expression_cost import _SPECIAL
from docgraph.store.guard.operator_sizes import RULES
from docgraph.store.guard.rewrite import check_write
from docgraph.store.guard.stage_checks import check_projection
from docgraph.variables.shapes import _EXPRESSION

STEPS = "more than 100000 steps for one document"
SIZE = "a value of more than 1 MiB"
LEVELS = "a value of more than 1000 levels"
BOUNDS = r"the bounds of \$range must be known"


def given(value: Any) -> dict[str, Any]:
    """A supplied value, as it is in an expression."""
    return {"$literal": value}


def up_to(value: Any) -> dict[str, Any]:
    return {"$range": [0, value]}


def loop(over: Any, body: Any = 1) -> dict[str, Any]:
    return {"$map": {"input": over, "in": body}}


def reduce(over: Any, body: Any, first: Any = "") -> dict[str, Any]:
    return {"$reduce": {"input": over, "initialValue": first, "in": body}}


def nested(times: int, doubled: Any, first: Any = ("a",)) -> dict[str, Any]:
    """`$let` inside of `$let`, each of which makes `doubled` of the `$$v` around it."""
    body: Any = {"$type": "$$v"}
    for _ in range(times):
        body = {"$let": {"vars": {"v": doubled}, "in": body}}
    return {"$let": {"vars": {"v": first}, "in": body}}


def check_in_filter(expression: Any) -> None:
    check_filter({"$or": [{"$expr": {"$eq": [expression, 1]}}]}, policy=Policy())


def check_in_projection(expression: Any) -> None:
    check_projection({"a": 1, "x": expression}, policy=Policy())


def check_update(*stages: Any) -> None:
    write = Write(WriteKind.UPDATE, filter={}, pipeline=stages)
    check_write(write, db="d", policy=Policy(), hidden=())


def check_in_update(expression: Any) -> None:
    check_update({"$set": {"x": expression}})


def check_in_pull(expression: Any) -> None:
    update = {"$pull": {"a": {"$expr": expression}}}
    write = Write(WriteKind.UPDATE, filter={}, update=update)
    check_write(write, db="d", policy=Policy(), hidden=())


def check_in_written_filter(expression: Any) -> None:
    write = Write(WriteKind.DELETE, filter={"$and": [{"a": 1}, {"$expr": expression}]})
    check_write(write, db="d", policy=Policy(), hidden=())


WRITTEN = pytest.mark.parametrize(
    "check",
    [check_in_filter, check_in_projection, check_in_update, check_in_pull, check_in_written_filter],
)

LOOKING_AHEAD = {"$regexFindAll": {"input": "$s", "regex": "(?=(.*))"}}

DEEP = reduce(up_to(999), ["$$value"], 1)
DEEPER: Any = "$$value"
for _ in range(60):
    DEEPER = [DEEPER]
# What a turn of `$reduce` makes of its value: one level more, each time.
NESTING: list[Any] = [
    ["$$value"],
    {"a": "$$value"},
    {"a": {"b": "$$value.a"}},
    {"$concatArrays": [["$$value"], ["$$this"]]},
    {"$setUnion": [["$$value"]]},
    {"$let": {"vars": {"v": "$$value"}, "in": ["$$v"]}},
    {"$map": {"input": [1], "in": "$$value"}},
    {"$filter": {"input": ["$$value"], "cond": True}},
    {"$zip": {"inputs": [[], [1]], "useLongestLength": True, "defaults": ["$$value", 1]}},
    {"$mergeObjects": [{"a": 1}, {"b": "$$value"}]},
    {"$setField": {"field": "a", "input": {}, "value": "$$value"}},
    {"$objectToArray": {"a": "$$value"}},
    {"$arrayToObject": [[{"k": "a", "v": "$$value"}]]},
    {"$arrayToObject": [[["a", "$$value"]]]},
    {"$cond": [True, ["$$value"], 1]},
    {"$cond": {"if": True, "then": {"a": "$$value"}, "else": 1}},
    {"$switch": {"branches": [{"case": True, "then": ["$$value"]}]}},
    {"$ifNull": [None, ["$$value"]]},
    {"$max": [1, ["$$value"]]},
    {"$slice": [["$$value"], 1]},
    {"$reverseArray": [["$$value"]]},
    {"$sortArray": {"input": ["$$value"], "sortBy": 1}},
    {"$firstN": {"input": ["$$value"], "n": 1}},
    {"$first": [[["$$value"]]]},
    {"$getField": {"field": "a", "input": {"a": ["$$value"]}}},
    {"$reduce": {"input": [1], "initialValue": "$$value", "in": ["$$value"]}},
]

TOO_LARGE: list[tuple[Any, str]] = [
    (loop(up_to(400), loop(up_to(400))), STEPS),
    (loop("$items", loop("$items")), STEPS),
    (loop("$items", {"$let": {"vars": {"i": "$items"}, "in": loop("$$i")}}), STEPS),
    (loop(["$items", "$items"], loop("$items", loop(up_to(100)))), STEPS),
    (reduce(up_to(1000), {"$sum": up_to(3000)}), STEPS),
    ({"$filter": {"input": "$items", "cond": {"$in": [1, up_to(3000)]}}}, STEPS),
    (loop("$items", {"$sortArray": {"input": "$items", "sortBy": 1}}), STEPS),
    (loop("$items", {"$setUnion": ["$items", "$others", "$more"]}), STEPS),
    (loop("$items", {"$regexMatch": {"input": "$s", "regex": "^a"}}), STEPS),
    (loop("$items", [{"$indexOfCP": ["$s", "$$this"]} for _ in range(4)]), STEPS),
    (nested(27, {"$concatArrays": ["$$v", "$$v"]}), SIZE),
    (nested(27, {"$concat": ["$$v", "$$v"]}, "a"), SIZE),
    (nested(27, {"$setUnion": ["$$v", "$$v"]}), SIZE),
    (nested(27, {"$mergeObjects": ["$$v", {"a": "$$v"}, "$$v"]}, {"b": 1}), "MiB"),
    (nested(27, ["$$v", "$$v"]), "more than 64 MiB"),
    (nested(27, {"a": "$$v", "b": "$$v"}), "more than 64 MiB"),
    (nested(27, {"$cond": ["$x", ["$$v", "$$v"], 1]}), "more than 64 MiB"),
    (nested(27, {"$zip": {"inputs": ["$$v", "$$v"]}}), "more than"),
    (nested(9, {"$replaceAll": {"input": "$$v", "find": "a", "replacement": "aaaa"}}, "a"), SIZE),
    (nested(27, {"$switch": {"branches": [{"case": 1, "then": ["$$v", "$$v"]}]}}), "64 MiB"),
    (reduce(up_to(30), {"$concat": ["$$value", "$$value"]}, "a"), SIZE),
    (reduce(up_to(30), {"$concatArrays": ["$$value", "$$value"]}, [1]), SIZE),
    (reduce("$items", {"$concat": ["$$value", "$$value", "$$this"]}), SIZE),
    (reduce("$items", {"$concatArrays": ["$$value", "$$value"]}, []), SIZE),
    (
        reduce(
            up_to(30), {"$let": {"vars": {"v": "$$value"}, "in": {"$concat": ["$$v", "$$v"]}}}, "a"
        ),
        SIZE,
    ),
    (reduce([1, 2], loop("$$value", 1), []), r"a loop over the \$\$value of \$reduce"),
    ({"$concat": ["$s"] * 65}, SIZE),
    ({"$concatArrays": [loop("$items", {"$concat": ["$prefix", "$$this"]}), "$items"]}, SIZE),
    (loop(up_to(1000), {"$toUpper": "$s"}), SIZE),
    # A code point has four bytes at most.
    (loop(up_to(300), {"$substrCP": ["$s", 0, 1000]}), SIZE),
    ({"$replaceAll": {"input": "$s", "find": "a", "replacement": "x" * 100}}, SIZE),
    ({"$replaceAll": {"input": "$s", "find": "", "replacement": "x" * 100}}, SIZE),
    ({"$replaceAll": {"input": "$s", "find": "$t", "replacement": "$s"}}, STEPS),
    (
        {
            "$zip": {
                "inputs": ["$a", up_to(60000)],
                "useLongestLength": True,
                "defaults": ["x" * 100, 1],
            }
        },
        "MiB",
    ),
    (LOOKING_AHEAD, STEPS),
    ({"$regexFindAll": {"input": "$s", "regex": "$pattern"}}, STEPS),
    (up_to(70_000), SIZE),
    (up_to(1e300), BOUNDS),
    (up_to("$n"), BOUNDS),
    (up_to({"$multiply": ["$n", 2]}), BOUNDS),
    (up_to({"$toInt": "$n"}), BOUNDS),
    (up_to({"$max": ["$n", 5]}), BOUNDS),
    (up_to({"$min": ["$n", "5"]}), BOUNDS),
    (up_to({"$min": ["$n", [5]]}), BOUNDS),
    (up_to({"$min": ["$n", None]}), BOUNDS),
    (up_to({"$min": ["$n", {"$arrayElemAt": [[5], 7]}]}), BOUNDS),
    (up_to({"$pow": [10, 9]}), BOUNDS),
    (up_to({"$toLong": "$$NOW"}), BOUNDS),
    ({"$range": ["$n", 0]}, BOUNDS),
    ({"$range": [0, "$n", 5]}, BOUNDS),
    ({"$range": [{"$arrayElemAt": [[0, -(10**7)], "$n"]}, 0]}, STEPS),
    ({"$range": [0, {"$arrayElemAt": [[10**7, 0], "$n"]}]}, STEPS),
    ({"$range": [{"$arrayElemAt": [[{"$abs": 0}, {"$subtract": [0, 10**7]}], "$n"]}, 0]}, STEPS),
    ({"$range": [0, {"$arrayElemAt": [[{"$add": [10**7, 1]}, {"$abs": 0}], "$n"]}]}, STEPS),
    ({"$range": [0, 10**7, {"$max": [-1, {"$min": ["$n", 1]}]}]}, STEPS),
    ({"$range": [10**7, 0, {"$max": [-1, {"$min": ["$n", 1]}]}]}, STEPS),
    (nested(30, {"$concat": [{"$toString": "$$v"}, {"$toString": "$$v"}]}, "a"), SIZE),
    (nested(30, {"$replaceOne": {"input": "$$v", "find": "a", "replacement": "$$v"}}, "a"), SIZE),
    (nested(30, {"$concat": [{"$trim": {"input": "$$v"}}, "$$v"]}, "a"), SIZE),
    ({"$let": {"vars": {"CURRENT": up_to(60_000)}, "in": {"$concatArrays": ["$a", "$a"]}}}, SIZE),
    ({"$add": [{"$abs": 1} for _ in range(1000)]}, "more than 1000 operators"),
    # A text that the expression itself makes can be all delimiters.
    (loop({"$split": [{"$concat": [" " * 8000, "$s"]}, " "]}, loop(up_to(5))), STEPS),
    (loop({"$split": [" " * 30_000, " "]}, loop(up_to(5))), STEPS),
    # Whole values are compared and hashed, whatever their size.
    (loop(up_to(500), {"$type": {"$max": ["$$ROOT"] * 40}}), STEPS),
    (loop(up_to(500), {"$type": {"$min": ["$items"] * 40}}), STEPS),
    (loop(up_to(100), {"$setEquals": [["$$ROOT"] * 20, ["$$ROOT"] * 20]}), STEPS),
    (loop(up_to(200), {"$setIsSubset": [["$items"] * 20, ["$items"] * 20]}), STEPS),
    (loop(up_to(500), {"$size": {"$setUnion": [["$items"] * 20]}}), STEPS),
    (loop(up_to(500), {"$size": {"$setIntersection": [["$items"] * 20, ["$a"]]}}), STEPS),
    (loop(up_to(500), {"$size": {"$setDifference": [["$items"] * 20, ["$a"]]}}), STEPS),
    (loop(up_to(3000), {"$toHashedIndexKey": "$$ROOT"}), STEPS),
    (loop(up_to(4000), {"$toHashedIndexKey": "$items"}), STEPS),
    (loop("$arr", {"$eq": ["$$ROOT", "$$ROOT"]}), STEPS),
    (loop("$arr", {"$let": {"vars": {"v": "$$ROOT"}, "in": {"$eq": ["$$v", "$$v"]}}}), STEPS),
    (loop("$arr", {"$eq": [["$$ROOT"], ["$$CURRENT"]]}), STEPS),
    (loop("$arr", {"$eq": [{"$cond": [1, "$$ROOT", 1]}, {"$ifNull": ["$$ROOT", 1]}]}), STEPS),
    (loop(up_to(200), {"$in": ["$items", ["$items"] * 20]}), STEPS),
    (loop(up_to(200), {"$indexOfArray": [["$items"] * 20, "$items"]}), STEPS),
    (loop(up_to(100), {"$sortArray": {"input": ["$items"] * 20, "sortBy": 1}}), STEPS),
    (loop(up_to(100), {"$maxN": {"input": ["$items"] * 20, "n": 1}}), STEPS),
    # MongoDB unpacks a whole document for each operator that reads it.
    (loop("$arr", [{"$max": ["$$ROOT", "$$ROOT"]}] * 3), "(MiB|steps)"),
    (loop("$arr", {"$max": ["$$ROOT", "$$ROOT"]}), "(MiB|steps)"),
    *((reduce(up_to(1100), one, []), LEVELS) for one in NESTING),
    *((reduce("$items", one, [[1]]), LEVELS) for one in NESTING),
    (reduce(up_to(40), reduce(up_to(40), ["$$value"], "$$value"), []), LEVELS),
    (reduce(up_to(2), {"$size": reduce(up_to(999), ["$$value"], DEEP)}, 1), LEVELS),
    ({"$size": reduce(up_to(501), [["$$value"]], [])}, LEVELS),
    # What a turn builds and drops again counts, on top of what is there already.
    (reduce(up_to(950), {"$cond": [{"$size": [DEEPER]}, ["$$value"], 1]}, []), LEVELS),
    (loop([1], reduce(up_to(1000), [{"$ifNull": ["$$value", "$$this"]}], "$$this")), LEVELS),
]

COMMA = {"$cond": [{"$eq": ["$$value", ""]}, "", ", "]}
STARTS = {"$regexMatch": {"input": "$$this.name", "regex": "^a"}}
PAIRS = {"input": {"$objectToArray": "$$ROOT"}, "cond": {"$ne": ["$$this.k", "x"]}}
BRANCHES = [{"case": {"$gt": ["$n", n]}, "then": "text"} for n in range(50)]

WORDS = {"$split": ["$s", " "]}
FIRST = {"$substrCP": ["$$this", 0, 1]}
REST = {"$strLenCP": "$$this"}

PAIR = {"k": "$$this.k", "v": {"$add": ["$$value.n", 1]}}
SOME = {"$slice": ["$items", 200]}

ORDINARY: list[Any] = [
    loop("$items"),
    loop("$items", {"$concat": ["$prefix", "$$this"]}),  # one iteration over what is stored
    loop("$items", {"name": "$$this.name", "sum": {"$multiply": ["$$this.n", "$$this.price"]}}),
    loop("$items", {"name": "$$this.name", "owner": "$owner"}),
    loop("$items", {"$mergeObjects": ["$$this", {"total": {"$sum": "$$this.prices"}}]}),
    loop("$items", loop("$$this.tags", {"$toUpper": "$$this"})),
    loop("$items", {"$concat": [{"$substrCP": ["$prefix", 0, 100]}, "/", "$$this.path"]}),
    loop("$items", {"$add": [{"$multiply": ["$$this.n", n]} for n in range(900)]}),
    loop(up_to(100), loop(up_to(100))),
    loop({"$slice": ["$items", 100]}, loop({"$slice": ["$items", 100]})),
    loop(up_to({"$size": "$items"}), {"$arrayElemAt": ["$items", "$$this"]}),
    {"$filter": {"input": "$items", "as": "i", "cond": {"$eq": ["$$i.owner", "$owner"]}}},
    {"$filter": {"input": "$items", "cond": {"$in": ["$$this.id", "$ids"]}}},
    {"$filter": {"input": "$items", "cond": STARTS}},
    reduce("$items", {"$concat": ["$$value", COMMA, "$$this.first", " ", "$$this.last"]}),
    reduce("$items", {"$concatArrays": ["$$value", "$$this.tags"]}, []),
    reduce("$items", {"$concatArrays": ["$$value", ["$$this.x"]]}, []),
    reduce("$items", {"$add": ["$$value", {"$multiply": ["$$this.n", "$$this.price"]}]}, 0),
    reduce("$items", {"$setUnion": ["$$value", "$$this.tags"]}, []),
    nested(10, {"$concatArrays": ["$$v", "$$v"]}),
    {"$sum": {"$map": {"input": "$items", "in": {"$multiply": ["$$this.n", "$$this.price"]}}}},
    {"$in": ["$id", list(range(5000))]},
    {"$setIntersection": ["$a", "$b"]},
    {"$sortArray": {"input": "$items", "sortBy": {"n": -1}}},
    {"$arrayToObject": {"$filter": PAIRS}},
    {"$zip": {"inputs": ["$a", "$b"], "useLongestLength": True, "defaults": [0, 0]}},
    {"$concat": ["$first", " ", "$last"]},
    {"$dateToString": {"format": "%Y-%m-%dT%H:%M:%S", "date": "$at", "timezone": "+01:00"}},
    {"$regexFindAll": {"input": "$text", "regex": "#[a-z]+"}},
    {"$replaceAll": {"input": "$text", "find": " ", "replacement": "&nbsp;"}},
    loop({"$split": ["$text", ","]}, {"$trim": {"input": "$$this"}}),
    {"$switch": {"branches": BRANCHES, "default": "x"}},
    {"$cond": {"if": {"$isArray": "$a"}, "then": {"$size": "$a"}, "else": 0}},
    up_to({"$min": ["$n", 100]}),
    {"$range": [{"$max": ["$n", 0]}, 100]},
    {"$range": [0, {"$divide": [1000, 10]}]},
    {"$range": [0, 100, {"$max": [-1, {"$min": ["$n", 1]}]}]},
    loop(up_to(250), {"$substrCP": ["$s", 0, 1000]}),
    loop(up_to(300), {"$substrBytes": ["$s", 0, 1000]}),
    loop({"$objectToArray": {"$dateToParts": {"date": "$at"}}}, "$$this.v"),
    {
        "$concat": [
            {"$toString": "$n"},
            {"$replaceOne": {"input": "$s", "find": "a", "replacement": "b"}},
        ]
    },
    {"$setField": {"field": "a", "input": "$$ROOT", "value": {"$rand": {}}}},
    loop(WORDS, {"$concat": [{"$toUpper": FIRST}, {"$substrCP": ["$$this", 1, REST]}]}),
    loop(WORDS, {"$concat": [{"$toUpper": FIRST}, {"$toLower": {"$substrCP": ["$$this", 1, 50]}}]}),
    reduce(WORDS, {"$concat": ["$$value", FIRST]}),
    reduce({"$split": [{"$toLower": "$s"}, " "]}, {"$concat": ["$$value", FIRST]}),
    {"$eq": ["$$ROOT", {"a": 1}]},
    {"$max": ["$a", "$b", "$c"]},
    {"$setEquals": ["$a", "$b"]},
    {"$toHashedIndexKey": "$$ROOT"},
    loop("$items", {"$max": ["$$this.n", 0]}),
    loop("$items", {"$mergeObjects": ["$defaults", "$$this"]}),
    loop({"$slice": ["$items", 100]}, ["$$ROOT", "$$this"]),
    {"$map": {"input": "$items", "in": {"$setUnion": ["$$this.tags", ["all"]]}}},
    given({"$range": [0, 10**9]}),
    reduce(up_to(300), ["$$value"], "$stored"),
    reduce({"$slice": ["$items", 300]}, {"name": "$$this", "inner": "$$value"}, None),
    reduce("$items", {"$concatArrays": ["$$value", [["$$this", {"a": "$$this"}]]]}, []),
    reduce("$items", {"n": {"$add": ["$$value.n", 1]}, "last": "$$this"}, {"n": 0}),
    reduce("$items", {"all": {"$concatArrays": ["$$value.all", ["$$this"]]}}, {"all": []}),
    reduce("$items", {"a": {"b": {"$concatArrays": ["$$value.a.b", ["$$this"]]}}}, {}),
    reduce("$items", [{"$add": [{"$arrayElemAt": ["$$value", 0]}, "$$this.n"]}, "$$this"], [0, 0]),
    reduce("$items", [{"$first": "$$value"}, {"$size": "$$value"}, ["$$this"]], [0]),
    reduce(SOME, {"$mergeObjects": ["$$value", {"$arrayToObject": [[PAIR]]}]}, {}),
    reduce(SOME, {"$setField": {"field": "n", "input": "$$value", "value": "$$this"}}, {}),
    reduce("$items", {"ok": {"$in": ["$$this", ["$$value"]]}}, {}),
    {"$objectToArray": {"$arrayToObject": {"$objectToArray": "$$ROOT"}}},
]


@WRITTEN
@pytest.mark.parametrize(("expression", "reason"), TOO_LARGE)
def test_costly_expressions_of_callers_are_rejected_with_place_and_reason(
    check: Callable[[Any], None], expression: Any, reason: str
) -> None:
    with pytest.raises(ExpressionTooLarge, match=rf"^(filter|projection|update)\S*: .*{reason}"):
        check(expression)


@WRITTEN
@pytest.mark.parametrize("expression", ORDINARY)
def test_ordinary_expressions_pass(check: Callable[[Any], None], expression: Any) -> None:
    check(expression)


def test_the_place_is_that_of_the_operator() -> None:
    with pytest.raises(ExpressionTooLarge, match=r"^projection\.x\.\$add\[1\]\.\$range: "):
        check_in_projection({"$add": [1, up_to("$n")]})
    with pytest.raises(ExpressionTooLarge, match=r"^filter\.\$or\[0\]\.\$expr\.\$eq\[0\]\.\$range"):
        check_in_filter(up_to("$n"))
    with pytest.raises(ExpressionTooLarge, match=r"^update\[1\]\.\$set\.x\.\$range"):
        check_update({"$set": {"a": 1}}, {"$set": {"x": up_to("$n")}})
    branches = [{"case": True, "then": 1}, {"case": False, "then": up_to("$n")}]
    with pytest.raises(ExpressionTooLarge, match=r"\.\$switch\.branches\[1\]\.then\.\$range: "):
        check_in_projection({"$switch": {"branches": branches}})


@pytest.mark.parametrize(
    "stage",
    [
        {"$set": {"a": {"$concatArrays": ["$a", "$a"]}}},
        {"$addFields": {"a": {"$concat": ["$a", "$a"]}}},
        {"$project": {"a": {"$concatArrays": ["$a", "$a"]}}},
        {"$set": {"a.b": {"$concat": ["$a.b", "$a.b"]}}},
        {"$set": {"a": {"b": {"$concat": ["$a.b", "$a.b"]}}}},
        {"$set": {"a": ["$a", "$a"]}},
        {"$replaceWith": {"a": "$$ROOT", "b": "$$ROOT"}},
        {"$replaceRoot": {"newRoot": {"a": "$$CURRENT", "b": "$a"}}},
        {"$set": {"a": {"$mergeObjects": ["$$ROOT", {"b": "$$ROOT"}]}}},
    ],
)
def test_stages_see_what_those_before_them_computed(stage: Any) -> None:
    check_update(stage)
    with pytest.raises(ExpressionTooLarge, match=r"^update\[\d+\]\.\$"):
        check_update(*[stage] * 30)


def wrap(value: Any, times: int) -> Any:
    for _ in range(times):
        value = [value]
    return value


SHOWING = {"$replaceWith": {"z": "$$v"}}
DEEPENING: list[Any] = [
    {"$set": {"z": ["$z"]}},
    {"$set": {"z": wrap("$z", 50)}},
    {"$set": {"z": {"a": 1, "b": ["$z"]}}},
    {"$set": {"z.a": "$z"}},
    {"$set": {"z.a.b": wrap("$z.a", 20)}},
    {"$set": {"z": ["$$ROOT"]}},
    {"$set": {"z": [{"$getField": "z"}]}},
    {"$set": {"z": [{"$getField": {"field": "z"}}]}},
    {"$project": {"z": ["$z"]}},
    {"$addFields": {"z": {"$let": {"vars": {"CURRENT": ["$$CURRENT"]}, "in": "$$CURRENT"}}}},
    {"$replaceWith": {"z": "$$ROOT"}},
    {"$replaceRoot": {"newRoot": {"z": ["$z"]}}},
]
# Only in stored aggregations and mappings.
DEEPENING_STAGES: list[Any] = [
    {"$group": {"_id": None, "z": {"$push": "$z"}}},
    {"$group": {"_id": ["$_id"]}},
    {"$group": {"_id": None, "z": {"$first": wrap("$z", 50)}}},
    {"$bucket": {"groupBy": "$n", "boundaries": [0, 1], "output": {"z": {"$push": "$z"}}}},
    {"$bucketAuto": {"groupBy": "$n", "buckets": 1, "output": {"z": {"$push": "$z"}}}},
    {"$setWindowFields": {"output": {"z": {"$push": "$z", "window": {}}}}},
    {"$setWindowFields": {"output": {"z": {"$shift": {"output": wrap("$z", 50), "by": 1}}}}},
    {"$fill": {"output": {"z": {"value": wrap("$z", 50)}}}},
    {"$sortByCount": ["$_id"]},
    {"$facet": {"z": []}},
    {"$facet": {"z": [{"$set": {"z": wrap("$z", 50)}}]}},
    {"$lookup": {"from": "c", "let": {"v": wrap("$z", 50)}, "pipeline": [SHOWING], "as": "z"}},
    {"$unionWith": {"coll": "c", "pipeline": [{"$set": {"z": wrap("$z", 50)}}]}},
]


@pytest.mark.parametrize("stage", DEEPENING)
def test_updates_nest_no_values_without_end(stage: Any) -> None:
    check_update(stage)
    with pytest.raises(
        ExpressionTooLarge, match=rf"^update\[\d+\]\.\$\S+: .*({LEVELS}|MiB|{STEPS})"
    ):
        check_update(*[stage] * 1000)


@pytest.mark.parametrize("stage", [*DEEPENING, *DEEPENING_STAGES])
def test_stored_stages_nest_no_values_without_end(stage: Any) -> None:
    check_pipeline([stage], db="d", policy=Policy(), trusted=False)
    with pytest.raises(ExpressionTooLarge, match=rf"({LEVELS}|MiB|{STEPS})"):
        check_pipeline([stage] * 1000, db="d", policy=Policy(), trusted=False)


def test_stages_that_nest_nothing_pass() -> None:
    check_update(*[{"$set": {"a": {"b": "$c"}, f"x{n}": ["$y"]}} for n in range(2)])
    check_update(*[{"$set": {"a": [{"b": "$c"}], "d": {"$first": "$a"}}} for _ in range(300)])
    lookups: list[Any] = [
        {"$lookup": {"from": "c", "localField": "a", "foreignField": "b", "as": "d"}}
    ] * 60
    groups: list[Any] = [
        {"$group": {"_id": "$_id", "all": {"$push": "$all"}}},
        {"$unwind": "$all"},
    ] * 20
    plain: list[Any] = [
        {"$sort": {"a": 1}},
        {"$limit": 9},
        {"$match": {"a": 1}},
        {"$set": {"a": "$b"}},
    ] * 100
    for stages in (lookups, groups, plain):
        check_pipeline(stages, db="d", policy=Policy(), trusted=False)


def test_stages_that_compute_nothing_new_pass() -> None:
    check_update(*[{"$set": {f"a{n}": {"$concat": ["$first", "$last"]}}} for n in range(30)])
    check_update(*[{"$set": {"n": {"$add": ["$n", 1]}}} for _ in range(30)])


@pytest.mark.parametrize(
    ("projection", "reason"),
    [
        # MongoDB evaluates it once for each element of `a`.
        ({"a.b": {"$concat": ["$first"] * 8}}, STEPS),
        ({"a": {"b": {"$concat": ["$first"] * 8}}}, STEPS),
        ({"a.b": loop("$items")}, STEPS),
        ({"a.b": {"$sum": up_to(3000)}}, STEPS),
    ],
)
def test_what_is_computed_inside_of_arrays_counts_for_each_element(
    projection: Any, reason: str
) -> None:
    with pytest.raises(ExpressionTooLarge, match=reason):
        check_projection(projection, policy=Policy())
    with pytest.raises(ExpressionTooLarge, match=reason):
        check_update({"$set": projection})


@pytest.mark.parametrize(
    "projection",
    [
        {"address.line": {"$concat": ["$address.street", ", ", "$address.city"]}},
        {"totals.sum": {"$sum": "$items.price"}},
        {"name.full": {"$concat": ["$first", " ", "$last"]}},
        {"profile.bio": given("x" * 100_000)},
        {"profile": {"bio": {"$toUpper": "$profile.bio"}}},
        {"items": {"$elemMatch": {"n": {"$gt": 1}}}, "tags": {"$slice": [1, 5]}},
        {"score": {"$meta": "textScore"}, "s": {"$slice": ["$tags", 5]}, "t": "$title", "u": {}},
    ],
)
def test_ordinary_projections_pass(projection: Any) -> None:
    check_projection(projection, policy=Policy())


def test_all_properties_together_are_bounded() -> None:
    """Each alone passes: their values are in memory at the same time."""
    repeated = loop("$items", {"$concatArrays": ["$a", "$b"]})
    projection = {f"x{n}": repeated for n in range(3)}
    check_projection({"x0": repeated, "x1": 1}, policy=Policy())
    with pytest.raises(ExpressionTooLarge, match=r"^projection\.x2\S*: .*64 MiB"):
        check_projection(projection, policy=Policy())
    with pytest.raises(ExpressionTooLarge, match=r"^update\[2\]\S*: .*64 MiB"):
        check_update(*({"$set": {name: repeated}} for name in projection))


def test_operators_that_are_not_known_are_rejected_where_callers_write_them() -> None:
    with pytest.raises(QueryError, match=r"^projection\.x\.\$newest: the operator is not known"):
        check_in_projection({"$newest": 1})
    check_pipeline([{"$project": {"x": {"$newest": "$a"}}}], db="d", policy=Policy())


@pytest.mark.parametrize("operand", [1, None, True, "x", [], {}, [[1]], {"$literal": 1}])
def test_operands_of_any_type_have_a_bound(operand: Any) -> None:
    """What is wrong with them is up to the database to say."""
    for name in RULES:
        with suppress(ExpressionTooLarge):
            check_in_projection({name: operand})


def test_every_operator_that_definitions_know_has_a_bound() -> None:
    unbounded = {"$literal", "$const", "$accumulator", "$function"}
    assert _EXPRESSION - RULES.keys() - _SPECIAL.keys() == unbounded


def test_expressions_are_not_nested_without_end() -> None:
    expression: Any = "$a"
    for _ in range(150):
        expression = {"$abs": expression}
    with pytest.raises(QueryError, match="nested deeper than 100 levels"):
        check_in_projection(expression)


@pytest.mark.parametrize(
    "filter",
    [
        {"a": {"$regex": "a" * 513}},
        {"a": {"$not": {"$regex": "a" * 513}}},
        {"a": Regex("a" * 513)},
        {"a": {"$in": [1, Regex("a" * 513)]}},
        {"$or": [{"a": {"$elemMatch": {"b": Regex("a" * 513, "i")}}}]},
        {"$expr": {"$regexMatch": {"input": "$a", "regex": "a" * 513}}},
        {"$expr": {"$regexMatch": {"input": "$a", "regex": Regex("a" * 513)}}},
    ],
)
def test_regular_expressions_of_callers_have_a_longest(filter: Any) -> None:
    with pytest.raises(QueryError, match="may have 512 characters at most"):
        check_filter(filter, policy=Policy())
    check_filter(filter, policy=Policy(), trusted=True)
    check_filter({"a": Regex("a" * 512)}, policy=Policy())


PATTERNS = [f"a.*b{n}" for n in range(11)]


@pytest.mark.parametrize(
    "build",
    [
        lambda all: {"$or": [{"s": {"$regex": one}} for one in all]},
        lambda all: {"$or": [{"s": {"$regex": one, "$options": "i"}} for one in all]},
        lambda all: {"$or": [{"s": {"$regex": Regex(one)}} for one in all]},
        lambda all: {"$and": [{"s": {"$not": Regex(one)}} for one in all]},
        lambda all: {"s": {"$in": [Regex(one) for one in all]}},
        lambda all: {"a": {"$elemMatch": {"s": {"$nin": [re.compile(one) for one in all]}}}},
        lambda all: {f"s{n}": Regex(one) for n, one in enumerate(all)},
        lambda all: {"$jsonSchema": {"a": 1}, "$nor": [{"s": Regex(one)} for one in all]},
    ],
)
def test_a_filter_of_a_caller_has_ten_regular_expressions_at_most(
    build: Callable[[list[str]], Any],
) -> None:
    check_filter(build(PATTERNS[:10]), policy=Policy())
    with pytest.raises(ExpressionTooLarge, match=r"^filter\.\S+: .*more than 10 regular") as caught:
        check_filter(build(PATTERNS), policy=Policy())
    assert caught.value.hint
    check_filter(build(PATTERNS), policy=Policy(), trusted=True)
    rule = TrustedDocument(build(PATTERNS))
    check_filter({"$and": [rule, build(PATTERNS[:10])]}, policy=Policy())


def test_the_filter_of_a_rule_is_not_bounded() -> None:
    rule = {"$expr": loop("$items", loop("$items"))}
    check_filter({"$and": [{"a": 1}, TrustedDocument(rule)]}, policy=Policy())
    check_filter(rule, policy=Policy(), trusted=True)
    supplied = {"$expr": {"$in": [1, up_to(given(10**9))]}}
    with pytest.raises(LoopTooLarge):
        check_filter({"$and": [{"a": 1}, TrustedDocument(supplied)]}, policy=Policy())


def test_the_write_filter_of_a_rule_is_not_that_of_the_caller() -> None:
    costly = {"$expr": loop("$items", loop("$items"))}
    own = restrict(Write(WriteKind.DELETE, filter={"a": 1}), costly)
    check_write(own, db="d", policy=Policy(), hidden=())
    theirs = restrict(Write(WriteKind.DELETE, filter=costly), {"a": 1})
    with pytest.raises(ExpressionTooLarge):
        check_write(theirs, db="d", policy=Policy(), hidden=())


# --- what authors write ---------------------------------------------------------------------------


def place_in_pipeline(*stages: Any) -> None:
    check_pipeline(list(stages), db="d", policy=Policy())


# Every place of a definition that an expression can have.
PLACES: dict[str, Callable[[Any], None]] = {
    "project": lambda one: place_in_pipeline({"$project": {"x": one}}),
    "lookup": lambda one: place_in_pipeline(
        {"$lookup": {"from": "c", "pipeline": [{"$project": {"x": one}}], "as": "y"}}
    ),
    "let": lambda one: place_in_pipeline(
        {"$lookup": {"from": "c", "let": {"v": one}, "pipeline": [], "as": "y"}}
    ),
    "facet": lambda one: place_in_pipeline({"$facet": {"y": [{"$set": {"x": one}}]}}),
    "union": lambda one: place_in_pipeline(
        {"$unionWith": {"coll": "c", "pipeline": [{"$set": {"x": one}}]}}
    ),
    "group": lambda one: place_in_pipeline({"$group": {"_id": one}}),
    "accumulator": lambda one: place_in_pipeline({"$group": {"_id": 1, "n": {"$sum": one}}}),
    "sort by count": lambda one: place_in_pipeline({"$sortByCount": one}),
    "bucket": lambda one: place_in_pipeline({"$bucketAuto": {"groupBy": one, "buckets": 2}}),
    "window": lambda one: place_in_pipeline(
        {"$setWindowFields": {"sortBy": {"n": 1}, "output": {"x": {"$sum": one}}}}
    ),
    "graph": lambda one: place_in_pipeline(
        {
            "$graphLookup": {
                "from": "c",
                "startWith": "$a",
                "connectFromField": "a",
                "connectToField": "b",
                "as": "y",
                "restrictSearchWithMatch": {"$expr": {"$eq": [one, 1]}},
            }
        }
    ),
    "replace": lambda one: place_in_pipeline({"$replaceWith": {"x": one}}),
    "match": lambda one: place_in_pipeline({"$match": {"$expr": {"$eq": [one, 1]}}}),
    "filter": lambda one: check_filter({"$expr": {"$eq": [one, 1]}}, policy=Policy(), trusted=True),
}
AUTHORED = pytest.mark.parametrize("check", PLACES.values(), ids=PLACES)


@AUTHORED
@pytest.mark.parametrize(
    "expression",
    [
        up_to(given(100_001)),
        up_to(given(1e300)),
        up_to(given(Int64(2**40))),
        up_to(given(Decimal128("1E+9"))),
        {"$range": [given(-100_001), 0]},
        {"$range": [given(0), 100_000, given(1)]},
        {"$range": [100_000, 0, given(-1)]},
        up_to({"$multiply": [given(9_000), given(9_000)]}),
        up_to({"$pow": [given(10), given(9)]}),
        up_to({"$toInt": given("100000000")}),
        up_to({"$toInt": given("0" * 200 + "100000000")}),
        up_to({"$multiply": ["$n", given(100_000)]}),
        loop(up_to(given(400)), loop(up_to(given(400)))),
        loop(given(list(range(400))), loop(given(list(range(400))))),
        reduce(up_to(given(60_000)), loop(up_to(given(2))), 0),
        {"$filter": {"input": up_to(given(2_000)), "cond": {"$in": [1, up_to(given(2_000))]}}},
        {"$let": {"vars": {"r": up_to(given(400))}, "in": loop("$$r", loop("$$r"))}},
        loop({"$concatArrays": [up_to(given(60_000)), up_to(given(60_000))]}),
        reduce(given(list("abc") * 10), {"$concat": ["$$value", "$$value", "$$this"]}),
        reduce(up_to(given(30_000)), ["$$value"], []),
        reduce(given([1] * 1100), {"a": "$$value"}, []),
        {
            "$replaceAll": {
                "input": given("a" * 2000),
                "find": "a",
                "replacement": given("b" * 2000),
            }
        },
    ],
)
def test_a_supplied_value_may_not_make_an_expression_too_large(
    check: Callable[[Any], None], expression: Any
) -> None:
    with pytest.raises(LoopTooLarge):
        check(expression)


@AUTHORED
@pytest.mark.parametrize(
    "expression",
    [
        up_to(given(30_000)),
        reduce(up_to(30_000), ["$$value"], []),
        reduce(up_to(given(300)), ["$$value"], []),
        {"$range": [given(1), given(1_000_000), given(1_000)]},
        up_to({"$min": [given(1_000_000), 100]}),
        up_to(1_000_000),
        up_to("$n"),
        up_to({"$pow": ["$n", 9]}),
        up_to({"$size": "$items"}),
        loop("$items", loop("$items", loop("$items"))),
        loop("$items", {"$concat": ["$prefix", "$$this"]}),
        loop(list(range(1000)), loop(list(range(1000)))),
        loop(up_to(given(100)), loop(up_to(given(100)))),
        loop(up_to(given(10_000)), {"$add": ["$$this", given(1_000_000)]}),
        {"$filter": {"input": "$items", "cond": {"$in": ["$$this", given(list(range(900)))]}}},
        {"$add": [given(1_000_000), 1]},
        given({"$range": [0, {"$literal": 1_000_000}]}),
        up_to(given("many")),
        up_to(given(None)),
    ],
)
def test_what_authors_write_is_not_bounded(check: Callable[[Any], None], expression: Any) -> None:
    check(expression)


@pytest.mark.parametrize("place", ["project", "filter"])
def test_the_loops_of_authors_may_use_long_lists_of_supplied_values(place: str) -> None:
    """The same in every place; looking at such a list takes long."""
    among = {"$in": ["$$this", given(list(range(90_000)))]}
    PLACES[place]({"$filter": {"input": "$items", "cond": among}})


@pytest.mark.parametrize("argument", [1, "x", None, [], {}, [1], {"a": 1}, {"input": 1}, b"x"])
def test_an_operator_with_a_wrong_argument_never_fails_unexpectedly(argument: Any) -> None:
    """The database explains what is wrong; the check of costs only bounds what it does."""
    for name in sorted(_EXPRESSION):
        for stage in ({"$set": {"v": {name: argument}}}, {"$match": {"$expr": {name: argument}}}):
            with suppress(QueryError, SecurityViolation):
                check_pipeline([stage], db="x", policy=Policy())
