"""No expression makes a larger value on a real server than the bound says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from bson import ObjectId
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from docgraph.exchange.errors import ExpressionTooLarge
from docgraph.store.guard.expression_checks import check_pipeline_cost
from docgraph.store.guard.expression_cost import Analysis
from docgraph.store.guard.references import ExpressionPath
from docgraph.store.guard.sizes import ELEMENT, CostModel, Size, measure_constant
from tests.chance import examples

Document = dict[str, Any]
Strategy = st.SearchStrategy[Any]

# The largest document of this model; what is stored is not larger than that.
SMALL = CostModel(elements=8, bytes=1024, depth=4)
STORED: Document = {
    "_id": 1,
    "n": 3,
    "s": "aXbXcé",
    "t": "XXXXXXXX",
    "a": [1, 2, 3, 4, 5, 6],
    "w": ["x", "yX", "zzzzzzzz", ""],
    "d": [{"k": "p", "tags": ["u", "v"]}, {"k": "qqqqqqqqqq", "tags": []}, {"k": "r"}],
    "o": {"x": 1, "y": [1, 2], "z": "text"},
}

Names = tuple[str, ...]


def numbers(depth: int, names: Names) -> Strategy:
    """Expressions that result in a number."""
    leaves = st.one_of(st.integers(-3, 8), st.just("$n"), st.builds(_literal, st.integers(0, 9)))
    if not depth:
        return leaves
    one, several = (
        numbers(depth - 1, names),
        st.lists(numbers(depth - 1, names), min_size=2, max_size=3),
    )
    return st.one_of(
        leaves,
        _operator("$add $multiply $min $max", several),
        _operator("$subtract $mod", st.tuples(one, one).map(list)),
        _operator("$abs $floor $toInt $round", one),
        _operator("$size $sum $max", arrays(depth - 1, names)),
        _operator("$strLenCP $strLenBytes", texts(depth - 1, names)),
    )


def texts(depth: int, names: Names) -> Strategy:
    """Expressions that result in a text."""
    known = [f"$${name}" for name in names if name != "value"]
    leaves = st.sampled_from(["", "X", "ab", "é", "$s", "$t", "$o.z", *known])
    if not depth:
        return leaves
    one, number = texts(depth - 1, names), st.integers(0, 5)
    inside = texts(depth - 1, (*names, "this", "text"))
    return st.one_of(
        leaves,
        _operator("$concat", st.lists(one, min_size=1, max_size=3)),
        _operator("$toUpper $toLower $toString", one),
        _operator("$toString", numbers(depth - 1, names)),
        _operator("$substrCP", st.tuples(one, number, number).map(list)),
        _operator("$trim", st.fixed_dictionaries({"input": one})),
        _operator(
            "$replaceAll $replaceOne",
            st.fixed_dictionaries(
                {"input": one, "find": st.sampled_from(["X", "ab"]), "replacement": one}
            ),
        ),
        st.builds(
            lambda over, first, more: _reduce(over, first, {"$concat": more}),
            st.sampled_from(["$w", "$d.k", ["a", "b", "c"]]),
            one,
            st.lists(st.one_of(inside, st.just("$$value")), min_size=1, max_size=3),
        ),
        _choice(one),
    )


def arrays(depth: int, names: Names) -> Strategy:
    """Expressions that result in an array."""
    leaves = st.sampled_from(["$a", "$w", "$d", "$d.k", "$d.tags", [1, 2], [], ["X", ["Y", "$s"]]])
    if not depth:
        return leaves
    one, number = arrays(depth - 1, names), numbers(depth - 1, names)
    anything = st.one_of(one, number, texts(depth - 1, names), values(0, names))
    inside = st.one_of(values(depth - 1, (*names, "this")), st.just("$$this"))
    accumulated = st.one_of(one, st.just("$$value"), st.just(["$$this"]))
    return st.one_of(
        leaves,
        st.lists(anything, max_size=3),
        _operator(
            "$concatArrays $setUnion $setIntersection", st.lists(one, min_size=1, max_size=3)
        ),
        _operator("$reverseArray", one),
        _operator("$range", st.tuples(number, number).map(list)),
        _operator("$slice", st.tuples(one, st.integers(1, 4)).map(list)),
        _operator(
            "$split", st.tuples(texts(depth - 1, names), st.sampled_from(["X", "ab"])).map(list)
        ),
        _operator("$objectToArray", st.sampled_from(["$o", {"a": "$s", "b": "$a"}, "$$ROOT"])),
        _operator("$sortArray", st.fixed_dictionaries({"input": one, "sortBy": st.just(1)})),
        _operator("$firstN $maxN", st.fixed_dictionaries({"input": one, "n": st.integers(1, 3)})),
        _operator(
            "$regexFindAll",
            st.fixed_dictionaries(
                {
                    "input": texts(depth - 1, names),
                    "regex": st.sampled_from(["X", "", ".", "(.)(X)", "(?=(.*))", "(?:a|b)+"]),
                }
            ),
        ),
        st.builds(
            lambda inputs, filled: {"$zip": {"inputs": inputs, **filled}},
            st.lists(one, min_size=2, max_size=2),
            st.sampled_from(
                [{}, {"useLongestLength": True, "defaults": ["$s", "$a"]}],
            ),
        ),
        st.builds(lambda over, body: {"$map": {"input": over, "in": body}}, one, inside),
        st.builds(
            lambda over, n: {"$filter": {"input": over, "cond": {"$gte": ["$$this", n]}}},
            one,
            number,
        ),
        st.builds(
            lambda over, more: _reduce(over, [], {"$concatArrays": more}),
            one,
            st.lists(accumulated, min_size=1, max_size=3),
        ),
        st.builds(
            _reduce,
            st.sampled_from(["$a", "$d", [1, 2]]),
            one,
            values(depth - 1, (*names, "this", "value")),
        ),
        _choice(one),
    )


def conversions(depth: int) -> Strategy:
    """Expressions that make numbers of texts, dates and names, and values that these are in."""
    leaves = st.sampled_from(
        [
            *(0, 3, -4, 5.5, True, "7", "-900", "1.5", "$n", {}, {"-800": 6}, {"700": -5}),
            *([2, "-70"], ["90", 1], {"$literal": [-60, 4]}, {"$toDate": -5000}),
            *(_literal(datetime(1969, 12, 31, tzinfo=UTC)), _literal(ObjectId("f" * 24))),
        ]
    )
    if not depth:
        return leaves
    one = conversions(depth - 1)
    several = st.lists(one, min_size=2, max_size=3)
    converted = {
        "input": one,
        "to": st.sampled_from(["int", "long", "double", "date", "string", 18]),
        "onError": one,
        "onNull": one,
    }
    return st.one_of(
        leaves,
        several,
        _operator("$min $max $add $ifNull", several),
        _operator("$subtract", st.tuples(one, one).map(list)),
        _operator("$toInt $toLong $toDouble $toDecimal $abs $floor $bsonSize", one),
        _operator("$first $last $objectToArray", one),
        _operator("$convert", st.fixed_dictionaries(converted)),
        st.builds(
            lambda field, input: {"$toLong": {"$getField": {"field": field, "input": input}}},
            st.sampled_from("kv"),
            _operator("$first", _operator("$objectToArray", one)),
        ),
        st.builds(
            lambda filled: {
                "$last": {"$zip": {"inputs": [[1], [2, 3]], "useLongestLength": True, **filled}}
            },
            st.fixed_dictionaries({"defaults": st.tuples(one, one).map(list)}),
        ),
        _choice(one),
    )


def values(depth: int, names: Names) -> Strategy:
    """Expressions of any kind."""
    known = [f"$${name}" for name in names]
    leaves = st.sampled_from(["$o", "$d", "$$ROOT", None, "$missing", *known])
    if not depth:
        return leaves
    one = values(depth - 1, names)
    return st.one_of(
        leaves,
        numbers(depth, names),
        texts(depth, names),
        arrays(depth, names),
        st.dictionaries(st.sampled_from(["p", "q", "longer"]), one, max_size=2),
        _operator(
            "$mergeObjects",
            st.lists(st.sampled_from(["$o", "$$ROOT", {"p": "$a"}, *known]), max_size=3),
        ),
        _operator("$ifNull", st.tuples(one, one).map(list)),
        _operator("$first $last", arrays(depth - 1, names)),
        _operator("$first $last $objectToArray $arrayToObject", one),
        _operator("$getField", st.sampled_from(["a", "d", {"field": "tags", "input": "$o"}])),
        st.builds(lambda input: {"$getField": {"field": "p", "input": input}}, one),
        st.builds(
            lambda value, body: {"$let": {"vars": {"v": value}, "in": body}},
            one,
            values(depth - 1, (*names, "v")),
        ),
        st.builds(
            lambda input, value: {"$setField": {"field": "new", "input": input, "value": value}},
            st.sampled_from(["$o", "$$ROOT", {}, *known]),
            one,
        ),
        _choice(one),
    )


def _literal(value: Any) -> Document:
    return {"$literal": value}


def _operator(names: str, operands: Strategy) -> Strategy:
    return st.builds(lambda name, body: {name: body}, st.sampled_from(names.split()), operands)


def _reduce(over: Any, first: Any, body: Any) -> Document:
    return {"$reduce": {"input": over, "initialValue": first, "in": body}}


def _choice(one: Strategy) -> Strategy:
    return st.builds(lambda a, b: {"$cond": [{"$gt": ["$n", 2]}, a, b]}, one, one)


def evaluate(client: MongoClient[Document], stages: list[Document]) -> Document:
    """The stored document after these stages; what the server rejects is no example."""
    source = [{"$documents": [{"$literal": STORED}]}]
    try:
        (found,) = client.admin.aggregate([*source, *stages])
    except OperationFailure as error:
        assume(error.code == 0)
        raise
    return found


def holds(bound: Size, found: Any) -> None:
    """The real value is not larger than its bound."""
    real = measure_constant(found, supplied=True, trusted=False)
    event(f"bytes: {len(str(int(real.bytes.constant)))} digits")
    event(f"levels: {real.depth.levels}")
    assert max(bound.bytes.bound(), ELEMENT) >= real.bytes.constant
    assert bound.depth.levels >= real.depth.levels
    assert not bound.depth.parts
    if isinstance(found, list | dict):
        assert bound.length.bound() >= len(found)
        assert bound.inner.bound() >= real.inner.constant
    if isinstance(found, int | float) and not isinstance(found, bool):
        assert bound.low <= found <= bound.high


def test_the_stored_document_is_the_largest_of_its_model() -> None:
    real = measure_constant(STORED, supplied=True, trusted=False)
    assert real.bytes.constant <= SMALL.bytes
    assert max(real.length.constant, real.inner.constant) <= SMALL.elements
    assert real.depth.levels == SMALL.depth


@settings(
    max_examples=examples(1200),
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(expression=values(3, ()))
def test_the_bound_of_an_expression_holds(
    mongo_client: MongoClient[Document], expression: Any
) -> None:
    analysis = Analysis(SMALL)
    try:
        bound = analysis.measure(expression, analysis.scope(), 1, ExpressionPath(None, "x"))
    except ExpressionTooLarge:
        assume(False)
        raise
    found = evaluate(mongo_client, [{"$replaceWith": {"v": expression}}])
    if "v" in found:
        holds(bound, found["v"])


@settings(
    max_examples=examples(800),
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(expression=conversions(3))
def test_the_bounds_of_converted_values_hold(
    mongo_client: MongoClient[Document], expression: Any
) -> None:
    analysis = Analysis(SMALL)
    bound = analysis.measure(expression, analysis.scope(), 1, ExpressionPath(None, "x"))
    found = evaluate(mongo_client, [{"$replaceWith": {"v": expression}}])
    if "v" in found:
        holds(bound, found["v"])


paths = st.sampled_from(["a", "n", "s", "o", "new", "d", "d.k", "d.new", "o.x.y", "w"])
stages = st.one_of(
    st.builds(
        lambda name, body: {name: body},
        st.sampled_from(["$set", "$addFields"]),
        st.dictionaries(paths, values(2, ()), min_size=1, max_size=2),
    ),
    st.builds(
        lambda body: {"$replaceWith": {"$mergeObjects": ["$$ROOT", body]}},
        st.dictionaries(st.sampled_from(["a", "x"]), values(2, ()), min_size=1),
    ),
)


@settings(
    max_examples=examples(800),
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(pipeline=st.lists(stages, min_size=1, max_size=4))
def test_the_bounds_of_stages_after_one_another_hold(
    mongo_client: MongoClient[Document], pipeline: list[Document]
) -> None:
    try:
        scope = check_pipeline_cost(pipeline, "x", model=SMALL)
    except ExpressionTooLarge:
        assume(False)
        raise
    found = evaluate(mongo_client, pipeline)
    holds(scope.document, found)
    for name, value in found.items():
        holds(scope.read(name), value)
