"""Rendering of pipelines: optional stages, literals, sorts."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from docgraph.variables import (
    NotBound,
    Scope,
    TemplateError,
    UnusableValue,
    Variables,
    compile_template,
    flatten_stages,
    mark_caller,
)

NULL = {"$arg": ["@user._id", None]}


def render(
    source: Any,
    arguments: dict[str, Any] | None = None,
    variables: dict[str, Any] | None = None,
    **documents: Any,
) -> Any:
    template = compile_template(source, context="stages")
    return template.render(Scope(arguments or {}, Variables(variables), **documents))


# --- optional stages -------------------------------------------------------------------------


def test_an_optional_stage_runs_when_its_argument_is_given() -> None:
    """Decision 9."""
    source = [{"$ifarg": ["n", {"$limit": {"$arg": "n"}}]}, {"$count": "c"}]

    assert render(source, {"n": 2}) == [{"$limit": 2}, {"$count": "c"}]
    assert render(source, {"n": None}) == [{"$limit": None}, {"$count": "c"}]
    assert render(source) == [{"$count": "c"}]


def test_all_names_of_a_list_must_be_given() -> None:
    source = [{"$ifarg": [["a", "b"], {"$limit": 1}, {"$limit": 2}]}]

    assert render(source, {"a": 1, "b": 1}) == [{"$limit": 1}]
    assert render(source, {"a": 1}) == [{"$limit": 2}]


def test_several_stages_can_stand_in_place_of_one() -> None:
    source = [{"$ifarg": ["a", [{"$limit": 1}, {"$skip": 1}], [{"$limit": 2}, {"$skip": 2}]]}]

    assert render(source, {"a": 1}) == [{"$limit": 1}, {"$skip": 1}]
    assert render(source) == [{"$limit": 2}, {"$skip": 2}]


def test_names_of_optional_stages_can_be_paths_variables_and_the_root() -> None:
    source = [
        {"$ifarg": ["o.sort", {"$limit": 1}]},
        {"$ifarg": ["@user._id", {"$limit": 2}]},
        {"$ifarg": ["rootDoc.x", {"$limit": 3}]},
    ]

    assert render(source, {"o": {}}) == []
    rendered = render(source, {"o": {"sort": 1}}, {"@user._id": 1}, root={"x": None})
    assert rendered == [{"$limit": 1}, {"$limit": 2}, {"$limit": 3}]


@pytest.mark.parametrize(
    ("wrap", "path"),
    [
        (lambda s: {"$facet": {"f": s}}, ("$facet", "f")),
        (
            lambda s: {"$lookup": {"from": "c", "as": "x", "pipeline": s}},
            ("$lookup", "pipeline"),
        ),
        (lambda s: {"$unionWith": {"coll": "c", "pipeline": s}}, ("$unionWith", "pipeline")),
    ],
)
def test_optional_stages_stand_wherever_a_list_of_stages_does(
    wrap: Any, path: tuple[str, str]
) -> None:
    """Decision 9."""
    source = [wrap([{"$match": {"a": 1}}, {"$ifarg": ["n", {"$limit": {"$arg": "n"}}]}])]

    (given,), (omitted,) = render(source, {"n": 3}), render(source)

    assert given[path[0]][path[1]] == [{"$match": {"a": 1}}, {"$limit": 3}]
    assert omitted[path[0]][path[1]] == [{"$match": {"a": 1}}]


def test_a_facet_is_never_left_without_a_stage() -> None:
    source = [{"$facet": {"f": [{"$ifarg": ["n", {"$limit": 1}]}]}}]

    assert render(source) == [{"$facet": {"f": [{"$match": {}}]}}]


def test_optional_stages_nest() -> None:
    source = [{"$ifarg": ["a", [{"$ifarg": ["b", {"$limit": 1}]}, {"$skip": 1}]]}]

    assert render(source, {"a": 1}) == [{"$skip": 1}]
    assert render(source, {"a": 1, "b": 1}) == [{"$limit": 1}, {"$skip": 1}]


def test_all_combinations_of_six_optional_arguments() -> None:
    """Reliability N08."""
    source = [{"$ifarg": [name, {"$limit": i + 1}]} for i, name in enumerate("abcdef")]
    template = compile_template(source, context="stages")

    for given in product((False, True), repeat=6):
        arguments = {name: 1 for name, is_given in zip("abcdef", given, strict=True) if is_given}
        expected = [{"$limit": i + 1} for i, is_given in enumerate(given) if is_given]
        assert template.render(Scope(arguments)) == expected


# --- values ----------------------------------------------------------------------------------


def test_a_match_is_a_filter() -> None:
    """Decision 20a."""
    source = [{"$match": {"a": {"$arg": "x"}}}]

    assert render(source, {"x": {"$gt": ""}}) == [{"$match": {"a": {"$eq": {"$gt": ""}}}}]


@pytest.mark.parametrize("value", ["$password", "$$ROOT", {"$sum": 1}, [1], 1, True, None])
@pytest.mark.parametrize(
    "stage",
    [
        {"$project": {"x": "HERE"}},
        {"$addFields": {"x": {"y": {"$concat": ["a", "HERE"]}}}},
        {"$group": {"_id": "HERE", "n": {"$sum": "HERE"}}},
        {"$replaceWith": {"$mergeObjects": ["$$ROOT", "HERE"]}},
        {"$match": {"$expr": {"$eq": ["$a", "HERE"]}}},
        {"$lookup": {"from": "c", "let": {"v": "HERE"}, "pipeline": [], "as": "x"}},
        {"$bucket": {"groupBy": "HERE", "boundaries": [1, 2]}},
        {"$setWindowFields": {"output": {"x": {"$sum": "HERE", "window": {"range": [0, 1]}}}}},
        {"$graphLookup": {"from": "c", "startWith": "HERE", "connectFromField": "a"}},
    ],
)
def test_in_expressions_supplied_values_are_literals(stage: Any, value: Any) -> None:
    """Decision 20a: a string `"$password"` is a text, not a path."""
    rendered = render([_replace(stage, {"$arg": "x"})], {"x": value})

    assert rendered == [_replace(stage, {"$literal": value})]


def _replace(value: Any, here: Any) -> Any:
    if value == "HERE":
        return here
    if isinstance(value, dict):
        return {key: _replace(item, here) for key, item in value.items()}
    return [_replace(item, here) for item in value] if isinstance(value, list) else value


def test_a_foreign_key_and_the_root_are_literals_in_expressions() -> None:
    source = [{"$addFields": {"a": {"$fk": "k"}, "b": {"$arg": "rootDoc.r"}}}]

    assert render(source, parent={"k": "$x"}, root={"r": {"$y": 1}}) == [
        {"$addFields": {"a": {"$literal": "$x"}, "b": {"$literal": {"$y": 1}}}}
    ]


def test_inside_a_literal_a_value_is_not_wrapped_twice() -> None:
    source = [{"$addFields": {"a": {"$literal": {"b": {"$arg": "x"}}}}}]

    assert render(source, {"x": "$p"}) == [{"$addFields": {"a": {"$literal": {"b": "$p"}}}}]


def test_numbers_of_stages_are_plain() -> None:
    source = [
        {"$skip": {"$arg": "s"}},
        {"$limit": {"$arg": ["n", 5]}},
        {"$sample": {"size": {"$arg": "n"}}},
        {"$bucketAuto": {"groupBy": "$a", "buckets": {"$arg": "n"}}},
    ]

    assert render(source, {"s": 1, "n": 2}) == [
        {"$skip": 1},
        {"$limit": 2},
        {"$sample": {"size": 2}},
        {"$bucketAuto": {"groupBy": "$a", "buckets": 2}},
    ]


def test_geo_near_takes_a_filter_and_values() -> None:
    point = {"type": "Point", "coordinates": [1, 2]}
    source = [{"$geoNear": {"near": {"$arg": "p"}, "query": {"a": {"$arg": "x"}}}}]

    assert render(source, {"p": point, "x": {"$gt": 1}}) == [
        {"$geoNear": {"near": point, "query": {"a": {"$eq": {"$gt": 1}}}}}
    ]


# --- the null default in expressions ---------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (NULL, {"$literal": None}),
        ({"$ifNull": [NULL, "nobody"]}, {"$ifNull": [{"$literal": None}, "nobody"]}),
        ({"$eq": ["$o", NULL]}, False),
        ({"$ne": ["$o", NULL]}, False),
        ({"$not": [{"$eq": ["$o", NULL]}]}, False),
        ({"$in": [NULL, "$members"]}, False),
        ({"$eq": ["$o", {"$toString": NULL}]}, False),
        (
            {"$cond": [{"$eq": ["$o", NULL]}, "mine", "not mine"]},
            {"$cond": [False, "mine", "not mine"]},
        ),
        (
            {"$filter": {"input": "$l", "cond": {"$eq": ["$$this", NULL]}}},
            {"$filter": {"input": "$l", "cond": False}},
        ),
        ({"a": {"b": NULL}, "c": "$x"}, {"a": {"b": {"$literal": None}}, "c": "$x"}),
    ],
)
def test_a_comparison_with_an_absent_value_is_false(expression: Any, expected: Any) -> None:
    """Decision 9, in aggregation expressions."""
    assert render([{"$addFields": {"x": expression}}]) == [{"$addFields": {"x": expected}}]


def test_a_match_that_cannot_hold_matches_nothing() -> None:
    """Decision 9."""
    assert render([{"$match": {"o": NULL}}]) == [{"$match": {"_id": {"$in": []}}}]
    assert render([{"$match": {"$expr": {"$eq": ["$o", NULL]}}}]) == [
        {"$match": {"_id": {"$in": []}}}
    ]


# --- sorts -----------------------------------------------------------------------------------


def test_a_sort_takes_directions() -> None:
    source = [{"$sort": {"a": {"$arg": ["x", -1]}, "b": 1}}]

    assert render(source) == [{"$sort": {"a": -1, "b": 1}}]
    assert render(source, {"x": 1}) == [{"$sort": {"a": 1, "b": 1}}]
    assert render(source, {"x": 1.0}) == [{"$sort": {"a": 1, "b": 1}}]
    assert render([{"$sort": {"$arg": "s"}}], {"s": {"a": 1}}) == [{"$sort": {"a": 1}}]


def test_a_direction_that_is_null_is_left_out() -> None:
    source = [{"$sort": {"a": {"$arg": ["x", None]}, "b": 1}}]

    assert render(source) == [{"$sort": {"b": 1}}]
    assert render([{"$sort": {"a": {"$arg": ["x", None]}}}]) == []


@pytest.mark.parametrize("value", [0, 2, "2", "a", True, {"$meta": "textScore"}, [1]])
def test_a_supplied_direction_must_be_one_or_minus_one(value: Any) -> None:
    with pytest.raises(UnusableValue, match="1 or -1"):
        render([{"$sort": {"a": {"$arg": "x"}}}], {"x": value})


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ({"$limit": {"$arg": "n"}}, {"$limit": 3}),
        ({"$skip": {"$arg": ["m", {"$arg": "n"}]}}, {"$skip": 3}),
        ({"$sample": {"size": {"$arg": "n"}}}, {"$sample": {"size": 3}}),
        ({"$sort": {"a": {"$arg": "d"}}}, {"$sort": {"a": -1}}),
        ({"$match": {"a": {"$arg": "n"}}}, {"$match": {"a": "3"}}),
    ],
)
def test_a_whole_number_in_text_is_taken_where_a_number_must_stand(
    stage: Any, expected: Any
) -> None:
    """Parameters of a request are always text."""
    assert render([stage], {"n": "3", "d": "-1"}) == [expected]


def test_operators_cannot_come_in_a_sort() -> None:
    for sort in ({"$where": 1}, mark_caller({"a": {"$meta": "x"}}), 1, "a"):
        with pytest.raises(UnusableValue):
            render([{"$sort": {"$arg": "s"}}], {"s": sort})


def test_sort_by_of_an_operator_is_a_sort() -> None:
    source = [
        {"$group": {"_id": "$a", "t": {"$topN": {"n": 2, "sortBy": {"b": {"$arg": "d"}}}}}},
        {"$set": {"l": {"$sortArray": {"input": "$l", "sortBy": 1}}}},
    ]

    assert render(source, {"d": -1}) == [
        {"$group": {"_id": "$a", "t": {"$topN": {"n": 2, "sortBy": {"b": -1}}}}},
        {"$set": {"l": {"$sortArray": {"input": "$l", "sortBy": 1}}}},
    ]


# --- what can never be supplied --------------------------------------------------------------


@pytest.mark.parametrize(
    ("stages", "where"),
    [
        ({"$arg": "x"}, "$arg"),
        ([{"$arg": "x"}], "[0].$arg"),
        ([{"$ifarg": ["a", {"$arg": "x"}]}], "[0].$ifarg[1].$arg"),
        ([{"$facet": {"f": {"$arg": "x"}}}], "[0].$facet.f.$arg"),
        ([{"$facet": {"$arg": "x"}}], "[0].$facet.$arg"),
        ([{"$lookup": {"from": {"$arg": "x"}}}], "[0].$lookup.from.$arg"),
        ([{"$lookup": {"from": "c", "pipeline": {"$arg": "x"}}}], "[0].$lookup.pipeline.$arg"),
        ([{"$lookup": {"$arg": "x"}}], "[0].$lookup.$arg"),
        ([{"$unionWith": {"$arg": "x"}}], "[0].$unionWith.$arg"),
        ([{"$unionWith": {"coll": {"$arg": "x"}}}], "[0].$unionWith.coll.$arg"),
        ([{"$graphLookup": {"from": {"$arg": "x"}}}], "[0].$graphLookup.from.$arg"),
        ([{"$unwind": {"path": {"$arg": "x"}}}], "[0].$unwind.path.$arg"),
        ([{"$unset": {"$arg": "x"}}], "[0].$unset.$arg"),
        ([{"$count": {"$arg": "x"}}], "[0].$count.$arg"),
        ([{"$project": {"$arg": "x"}}], "[0].$project.$arg"),
        ([{"$group": {"$arg": "x"}}], "[0].$group.$arg"),
        ([{"$geoNear": {"key": {"$arg": "x"}}}], "[0].$geoNear.key.$arg"),
        ([{"$geoNear": {"distanceField": {"$arg": "x"}}}], "[0].$geoNear.distanceField.$arg"),
        ([{"$set": {"a": {"$meta": {"$arg": "x"}}}}], "[0].$set.a.$meta.$arg"),
        (
            [{"$set": {"a": {"$map": {"input": "$l", "as": {"$arg": "x"}, "in": 1}}}}],
            "[0].$set.a.$map.as.$arg",
        ),
        ([{"$match": {"$jsonSchema": {"$arg": "x"}}}], "[0].$match.$jsonSchema.$arg"),
        (
            [{"$match": {"$and": [{"$jsonSchema": {"required": [{"$arg": "x"}]}}]}}],
            "[0].$match.$and[0].$jsonSchema.required[0].$arg",
        ),
        ([{"$search": {"text": {"path": {"$arg": "x"}}}}], "[0].$search.text.path.$arg"),
        ([{"$search": {"text": {"path": [{"$arg": "x"}]}}}], "[0].$search.text.path[0].$arg"),
        ([{"$search": {"index": {"$arg": "x"}}}], "[0].$search.index.$arg"),
        (
            [{"$search": {"compound": {"must": [{"queryString": {"query": {"$arg": "x"}}}]}}}],
            "[0].$search.compound.must[0].queryString.query.$arg",
        ),
        ([{"$searchMeta": {"$arg": "x"}}], "[0].$searchMeta.$arg"),
        ([{"$vectorSearch": {"path": {"$arg": "x"}}}], "[0].$vectorSearch.path.$arg"),
    ],
)
def test_stages_and_names_cannot_come_from_outside(stages: Any, where: str) -> None:
    """Decision 20a, reliability N05."""
    with pytest.raises(TemplateError, match="cannot") as error:
        compile_template(stages, context="stages")

    assert error.value.flaws[0].where == where


NAMES_FROM_OUTSIDE: tuple[Any, ...] = (
    {"$arg": "x"},
    {"$arg": ["x", "name"]},
    {"$fk": "x"},
    {"$literal": {"$arg": "x"}},
    {"$concat": ["pass", {"$arg": "x"}]},
    {"$ifNull": [{"$arg": "x"}, "name"]},
    "$$n",  # what a variable, or a property that an earlier stage has set, can hold
    "$n",
)


@pytest.mark.parametrize("name", NAMES_FROM_OUTSIDE, ids=str)
@pytest.mark.parametrize("operator", ["$getField", "$setField", "$unsetField"])
def test_the_name_of_a_field_cannot_come_from_outside(operator: str, name: Any) -> None:
    """Decision 20a: a value that a caller supplies stays a value."""
    uses = [{operator: {"field": name, "input": "$$ROOT", "value": 1}}]
    if operator == "$getField":
        uses.append({operator: name})
    for use in uses:
        for stage in (
            {"$project": {"a": {"$let": {"vars": {"n": {"$arg": "x"}}, "in": use}}}},
            {"$group": {"_id": None, "a": {"$push": {"b": [use]}}}},
            {"$match": {"$or": [{"$expr": {"$eq": [use, 1]}}]}},
            {"$facet": {"f": [{"$replaceWith": use}]}},
            {"$lookup": {"from": "c", "let": {"a": use}, "pipeline": [], "as": "d"}},
            {"$lookup": {"from": "c", "pipeline": [{"$set": {"a": use}}], "as": "d"}},
            {"$setWindowFields": {"output": {"a": {"$max": use}}}},
        ):
            with pytest.raises(TemplateError, match="the name of a field must be written here"):
                compile_template([stage], context="stages")


def test_the_name_of_a_field_that_the_author_wrote_is_taken() -> None:
    for use in (
        {"$getField": "a.b"},
        {"$getField": {"$literal": "$price"}},
        {"$getField": {"field": {"$literal": "$price"}, "input": {"$arg": "x"}}},
    ):
        compile_template([{"$set": {"v": use}}], context="stages")
    source = [{"$set": {"v": {"$setField": {"field": "a", "input": {}, "value": {"$arg": "x"}}}}}]
    value = {"$literal": "$password"}
    expected = {"$setField": {"field": "a", "input": {}, "value": value}}
    assert render(source, {"x": "$password"}) == [{"$set": {"v": expected}}]


def test_a_search_takes_what_is_looked_for() -> None:
    source = [
        {"$search": {"compound": {"must": [{"text": {"path": "t", "query": {"$arg": "q"}}}]}}},
        {"$search": {"range": {"path": "n", "gte": {"$arg": "n"}}}},
        {"$vectorSearch": {"path": "v", "queryVector": {"$arg": "v"}, "filter": {"a": 1}}},
    ]
    assert render(source, {"q": "x", "n": 3, "v": [0.5]}) == [
        {"$search": {"compound": {"must": [{"text": {"path": "t", "query": "x"}}]}}},
        {"$search": {"range": {"path": "n", "gte": 3}}},
        {"$vectorSearch": {"path": "v", "queryVector": [0.5], "filter": {"a": 1}}},
    ]


@pytest.mark.parametrize(
    ("stages", "where", "words"),
    [
        ({"$match": {}}, "", "must be an array of stages"),
        ([1], "[0]", "a stage must be an object"),
        ([{}], "[0]", "exactly one key"),
        ([{"$match": {}, "$limit": 1}], "[0]", "exactly one key"),
        ([{"match": {}}], "[0]", "exactly one key"),
        ([{"$ifarg": "x"}], "[0].$ifarg", "must be [name"),
        ([{"$ifarg": ["x"]}], "[0].$ifarg", "must be [name"),
        ([{"$ifarg": ["x", {"$limit": 1}, {"$limit": 1}, 4]}], "[0].$ifarg", "must be [name"),
        ([{"$ifarg": [1, {"$limit": 1}]}], "[0].$ifarg[0]", "must be a string"),
        ([{"$ifarg": [[], {"$limit": 1}]}], "[0].$ifarg[0]", "one argument or more"),
        ([{"$ifarg": ["x", 3]}], "[0].$ifarg[1]", "a stage must be an object"),
        ([{"$ifarg": ["x", {"$limit": 1}], "a": 1}], "[0].$ifarg", "only key"),
        ([{"$set": {"$ifarg": ["x", {}]}}], "[0].$set.$ifarg", "list of stages"),
        ([{"$match": {"a": {"$ifarg": ["x", {}]}}}], "[0].$match.a.$ifarg", "list of stages"),
        ([{"$sort": {"a": 3}}], "[0].$sort.a", "1, -1"),
        ([{"$sort": 1}], "[0].$sort", "must be an object"),
        ([{"$facet": []}], "[0].$facet", "object of pipelines"),
        ([{"$match": {"a": {"$arg": 1}}}], "[0].$match.a.$arg", "must be a string"),
    ],
)
def test_a_wrong_shape_is_told_with_its_place(stages: Any, where: str, words: str) -> None:
    """Decision 7."""
    with pytest.raises(TemplateError) as error:
        compile_template(stages, context="stages")

    assert error.value.flaws[0].where == where
    assert words in error.value.flaws[0].what


def test_a_name_that_is_not_bound_fails() -> None:
    with pytest.raises(NotBound, match="variable not bound: x"):
        render([{"$limit": {"$arg": "x"}}])


def test_flattening_shows_every_stage_that_could_run() -> None:
    stages = [
        {"$ifarg": ["a", {"$limit": 1}, [{"$out": "x"}, {"$ifarg": ["b", {"$merge": "y"}]}]]},
        {"$facet": {"f": [{"$ifarg": ["c", {"$skip": 1}]}]}},
        {"$lookup": {"from": "c", "pipeline": [{"$ifarg": ["d", {"$count": "n"}]}]}},
        {"$ifarg": "broken"},
        3,
    ]

    assert flatten_stages(stages, "$ifarg") == [
        {"$limit": 1},
        {"$out": "x"},
        {"$merge": "y"},
        {"$facet": {"f": [{"$skip": 1}]}},
        {"$lookup": {"from": "c", "pipeline": [{"$count": "n"}]}},
    ]
