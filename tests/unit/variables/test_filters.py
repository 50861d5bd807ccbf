"""Rendering of filters: values stay values, what has no value matches nothing."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.codec.bson_types import ObjectId, Regex
from docgraph.codec.id_text import IdText
from docgraph.exchange.errors import SecurityViolation
from docgraph.variables import (
    CallerDocument,
    NotBound,
    Scope,
    TemplateError,
    TrustedDocument,
    UnusableValue,
    Variables,
    compile_template,
    mark_caller,
    matches_nothing,
)
from docgraph.variables.value_marks import KindChoices, narrow

ID = ObjectId("64b5f0a1c2d3e4f5a6b7c8d9")


def render(
    source: Any,
    arguments: dict[str, Any] | None = None,
    variables: dict[str, Any] | None = None,
    **documents: Any,
) -> Any:
    template = compile_template(source, context="filter")
    return template.render(Scope(arguments or {}, Variables(variables), **documents))


def test_an_argument_takes_the_place_of_its_operator() -> None:
    assert render({"a.b": {"$arg": "x"}, "c": 1}, {"x": 5}) == {"a.b": 5, "c": 1}


def test_a_filter_without_operators_is_its_source() -> None:
    source = {"a": {"$gt": 1}, "$or": [{"b": 1}]}
    template = compile_template(source, context="filter")

    assert template.is_constant
    assert template.render(Scope()) is source


def test_a_name_without_value_and_default_is_not_bound() -> None:
    """Decision 9."""
    with pytest.raises(NotBound, match=r"^variable not bound: x$"):
        render({"a": {"$arg": "x"}})


def test_an_explicit_null_is_bound() -> None:
    """Decision 9."""
    assert render({"a": {"$arg": ["x", 1]}}, {"x": None}) == {"a": None}


def test_a_default_is_used_when_the_name_is_not_bound() -> None:
    assert render({"a": {"$arg": ["x", 3]}}) == {"a": 3}
    assert render({"a": {"$arg": ["x", {"$gte": 3}]}}) == {"a": {"$gte": 3}}
    assert render({"a": {"$arg": ["x", {"$arg": "y"}]}}, {"y": 7}) == {"a": 7}


def test_dotted_names_reach_into_input_objects() -> None:
    arguments = {"o": {"p": {"q": 1}, "list": [5, 6]}}

    assert render({"a": {"$arg": "o.p.q"}}, arguments) == {"a": 1}
    assert render({"a": {"$arg": "o.list.1"}}, arguments) == {"a": 6}
    assert render({"a": {"$arg": "o.list[0]"}}, arguments) == {"a": 5}
    with pytest.raises(NotBound):
        render({"a": {"$arg": "o.p.q.r"}}, arguments)


def test_the_whole_filter_can_be_an_argument() -> None:
    assert render({"$arg": "f"}, {"f": {"a": 1, "b": {"c": 2}}}) == {"a": 1, "b": {"$eq": {"c": 2}}}


@pytest.mark.parametrize("value", [None, 3, "x", [1]])
def test_a_whole_filter_that_is_no_object_is_refused(value: Any) -> None:
    with pytest.raises(UnusableValue, match="a filter must be an object"):
        render({"$arg": "f"}, {"f": value})


# --- decision 9: the null default ------------------------------------------------------------

NULL = {"$arg": ["@user._id", None]}


@pytest.mark.parametrize(
    "source",
    [
        {"owner": NULL},
        {"owner": {"$eq": NULL}},
        {"owner": {"$ne": NULL}},
        {"owner": {"$in": NULL}},
        {"owner": {"$in": [NULL]}},
        {"owner": {"$nin": [1, NULL]}},
        {"owner": {"$all": [1, NULL]}},
        {"owner": {"$not": {"$eq": NULL}}},
        {"owner": {"$gt": 1, "$lt": NULL}},
        {"owner": {"id": NULL}},
        {"owner": [1, NULL]},
        {"members": {"$elemMatch": {"id": NULL, "x": 1}}},
        {"members": {"$elemMatch": {"$eq": NULL}}},
        {"members": {"$elemMatch": {"$or": [{"id": NULL}]}}},
        {"a": 1, "owner": NULL},
        {"$and": [{"a": 1}, {"owner": NULL}]},
        {"$or": [{"owner": NULL}, {"editor": NULL}]},
        {"$expr": {"$eq": ["$owner", NULL]}},
        {"$expr": {"$not": {"$eq": ["$owner", NULL]}}},
        {"$expr": {"$eq": ["$owner", {"$toString": NULL}]}},
        {"$text": {"$search": NULL}},
        NULL,
    ],
)
def test_a_null_from_a_default_makes_its_condition_match_nothing(source: Any) -> None:
    """Decision 9."""
    assert matches_nothing(render(source))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"$or": [{"owner": NULL}, {"public": True}]}, {"$or": [{"public": True}]}),
        ({"a": {"$in": [1, NULL, 2]}}, {"a": {"$in": [1, 2]}}),
        (
            {"$and": [{"$or": [{"o": NULL}, {"p": 1}]}, {"b": 2}]},
            {"$and": [{"$or": [{"p": 1}]}, {"b": 2}]},
        ),
        ({"$nor": [{"blocked": NULL}, {"b": 2}]}, {"$nor": [{"b": 2}]}),
        ({"a": 1, "$nor": [{"blocked": NULL}]}, {"a": 1}),
        (
            {"list": {"$elemMatch": {"$or": [{"o": NULL}, {"p": 1}]}}},
            {"list": {"$elemMatch": {"$or": [{"p": 1}]}}},
        ),
        (
            {"$expr": {"$or": [{"$eq": ["$o", NULL]}, "$public"]}},
            {"$expr": {"$or": [False, "$public"]}},
        ),
    ],
)
def test_the_smallest_condition_around_it_falls_away(source: Any, expected: Any) -> None:
    """Decision 9."""
    assert render(source) == expected


def test_with_a_value_the_null_default_changes_nothing() -> None:
    variables = {"@user._id": ID}

    assert render({"$or": [{"owner": NULL}, {"a": {"$in": [NULL]}}]}, None, variables) == {
        "$or": [{"owner": ID}, {"a": {"$in": [ID]}}]
    }


# --- decision 20a: values stay values --------------------------------------------------------


@pytest.mark.parametrize(
    "value", ["$password", {"$gt": ""}, {"$where": "1"}, {"a": {"$ne": 1}}, [{"$gt": 1}]]
)
def test_a_supplied_value_is_compared_and_never_run(value: Any) -> None:
    """Decision 20a."""
    expected = value if isinstance(value, str) else {"$eq": value}

    assert render({"a": {"$arg": "x"}}, {"x": value}) == {"a": expected}
    assert render({"a": {"$not": {"$arg": "x"}}}, {"x": value}) == {"a": {"$not": {"$eq": value}}}
    assert render({"a": {"$fk": "k"}}, parent={"k": value}) == {"a": expected}
    assert render({"a": {"$arg": "@user.x"}}, None, {"@user.x": value}) == {"a": expected}
    assert render({"a": {"$arg": "rootDoc.x"}}, root={"x": value}) == {"a": expected}


def test_an_operator_in_a_plain_document_is_refused_as_a_filter() -> None:
    """Decision 20a: a stored document cannot bring operators either."""
    with pytest.raises(UnusableValue, match=r"\$where cannot come from a value"):
        render({"$and": [{"$arg": "@user.filter"}]}, None, {"@user.filter": {"$where": "1"}})


def test_a_callers_document_may_carry_operators() -> None:
    """Decision 20a: `BsonDocument`, `@filter`, `@request.body`."""
    document = mark_caller({"age": {"$gt": 3}, "$or": [{"a": 1}]})

    assert render({"$arg": "f"}, {"f": document}) == document
    assert render({"$and": [{"$arg": "f"}, {"b": 1}]}, {"f": document}) == {
        "$and": [document, {"b": 1}]
    }
    assert render({"age": {"$arg": "f.age"}}, {"f": document}) == {"age": {"$gt": 3}}


@pytest.mark.parametrize("operator", ["$where", "$function", "$accumulator", "$expr"])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: x,
        lambda x: {"a": x},
        lambda x: {"$or": [{"b": 1}, {"$and": [x]}]},
        lambda x: {"a": {"$elemMatch": {"b": [{"c": x}]}}},
    ],
)
def test_what_runs_code_is_refused_in_a_callers_document(operator: str, wrap: Any) -> None:
    """Decision 20a."""
    document = mark_caller(wrap({operator: "x"}))

    for source in ({"$arg": "f"}, {"a": {"$arg": "f"}}, {"a": {"$eq": {"$arg": "f"}}}):
        with pytest.raises(SecurityViolation, match=rf"\{operator} is not allowed"):
            render(source, {"f": document})


def test_the_filter_of_a_permission_is_trusted() -> None:
    """Decision 19: `@dbPermissions.readFilter`."""
    permitted = TrustedDocument({"$expr": {"$eq": ["$a", "$b"]}})

    assert render(
        {"$and": [{"$arg": "@dbPermissions.readFilter"}]},
        None,
        {"@dbPermissions.readFilter": permitted},
    ) == {"$and": [permitted]}


def test_a_regex_argument_matches_as_a_regex() -> None:
    pattern = Regex("^a", "i")

    assert render({"a": {"$arg": "x"}}, {"x": pattern}) == {"a": pattern}
    assert render({"a": {"$not": {"$arg": "x"}}}, {"x": pattern}) == {"a": {"$not": pattern}}


def test_a_pattern_is_bounded() -> None:
    assert render({"a": {"$regex": {"$arg": "x"}}}, {"x": "^a"}) == {"a": {"$regex": "^a"}}
    with pytest.raises(UnusableValue, match="512 characters"):
        render({"a": {"$regex": {"$arg": "x"}}}, {"x": "a" * 513})
    with pytest.raises(UnusableValue, match="must be a string"):
        render({"a": {"$regex": {"$arg": "x"}}}, {"x": {"$gt": ""}})
    with pytest.raises(UnusableValue, match="512 characters"):
        render({"$arg": "f"}, {"f": CallerDocument({"a": CallerDocument({"$regex": "a" * 513})})})


def test_in_takes_a_list_or_one_value() -> None:
    assert render({"a": {"$in": {"$arg": "x"}}}, {"x": [1, 2]}) == {"a": {"$in": [1, 2]}}
    assert render({"a": {"$in": {"$arg": "x"}}}, {"x": 1}) == {"a": {"$in": [1]}}
    assert matches_nothing(render({"a": {"$in": {"$arg": "x"}}}, {"x": []}))
    with pytest.raises(UnusableValue, match="not null"):
        render({"a": {"$in": {"$arg": "x"}}}, {"x": None})


# --- foreign keys and the root document ------------------------------------------------------


def test_a_foreign_key_is_read_from_the_parent() -> None:
    parent = {"author": ID, "tags": [1, 2], "deep": [{"ref": 5}]}

    assert render({"_id": {"$fk": "author"}}, parent=parent) == {"_id": ID}
    assert render({"_id": {"$in": {"$fk": "tags"}}}, parent=parent) == {"_id": {"$in": [1, 2]}}
    assert render({"_id": {"$fk": "deep[0].ref"}}, parent=parent) == {"_id": 5}
    assert render({"_id": {"$in": {"$fk": "deep.ref"}}}, parent=parent) == {"_id": {"$in": [5]}}
    assert render({"_id": {"$in": {"$fk": "author"}}}, parent=parent) == {"_id": {"$in": [ID]}}


@pytest.mark.parametrize("parent", [{}, {"k": None}, None])
def test_a_missing_or_null_foreign_key_never_joins(parent: Any) -> None:
    """Decision 11."""
    assert matches_nothing(render({"_id": {"$fk": "k"}}, parent=parent))
    assert matches_nothing(render({"_id": {"$in": {"$fk": "k"}}}, parent=parent))
    assert matches_nothing(render({"_id": {"$gt": {"$fk": "k"}}}, parent=parent))
    for filter_ in (
        {"$or": [{"_id": {"$fk": "k"}}, {"a": 1}]},
        {"$nor": [{"_id": {"$fk": "k"}}]},
        {"$nor": [{"a": 1, "b": {"$in": [{"$fk": "k"}, 1]}}]},
        {"a": {"$not": {"$elemMatch": {"b": {"$fk": "k"}}}}},
        {"$expr": {"$not": [{"$eq": ["$a", {"$fk": "k"}]}]}},
        {"a": {"$arg": ["x", {"$fk": "k"}]}},
    ):
        assert matches_nothing(render(filter_, parent=parent)), filter_


def test_a_missing_foreign_key_of_a_part_that_is_left_out_does_not_count() -> None:
    """Decision 11 speaks of keys that are used."""
    optional = {"$and": [{"a": 1}, {"$ifarg": ["x", {"_id": {"$fk": "k"}}]}]}

    assert render(optional, parent={}) == {"$and": [{"a": 1}]}
    assert matches_nothing(render(optional, {"x": 1}, parent={}))


def test_nulls_in_a_foreign_key_array_do_not_join() -> None:
    """Decision 11."""
    rendered = render({"_id": {"$in": {"$fk": "ks"}}}, parent={"ks": [1, None, 2]})

    assert rendered == {"_id": {"$in": [1, 2]}}
    assert matches_nothing(render({"_id": {"$in": {"$fk": "ks"}}}, parent={"ks": [None]}))


PATTERN = Regex("^a", "i")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"x": {"$fk": "re"}}, {"x": {"$eq": PATTERN}}),
        ({"x": {"$eq": {"$fk": "re"}}}, {"x": {"$eq": PATTERN}}),
        ({"x": {"$not": {"$fk": "re"}}}, {"x": {"$not": {"$eq": PATTERN}}}),
        ({"x": {"$arg": "rootDoc.re"}}, {"x": {"$eq": PATTERN}}),
        ({"x": {"$arg": "@user.re"}}, {"x": {"$eq": PATTERN}}),
        ({"x": {"$in": {"$fk": "all"}}}, {"x": {"$in": ["abc"]}}),
        ({"x": {"$in": {"$arg": "rootDoc.all"}}}, {"x": {"$in": ["abc"]}}),
        ({"x": {"$in": [{"$fk": "re"}, {"$arg": "@user.re"}, 1]}}, {"x": {"$in": [1]}}),
    ],
)
def test_a_stored_regular_expression_is_compared_and_matches_no_texts(
    source: Any, expected: Any
) -> None:
    """Decision 20a: only an argument of the type Regex is a pattern."""
    document = {"re": PATTERN, "all": [PATTERN, "abc"]}

    assert render(source, None, {"@user.re": PATTERN}, parent=document, root=document) == expected


def test_choices_that_are_all_stored_regular_expressions_match_nothing() -> None:
    assert matches_nothing(render({"x": {"$in": {"$fk": "re"}}}, parent={"re": PATTERN}))
    assert matches_nothing(render({"x": {"$in": [{"$fk": "re"}]}}, parent={"re": PATTERN}))


@pytest.mark.parametrize("operator", ["$nin", "$all"])
def test_a_condition_that_cannot_compare_a_stored_regular_expression_fails(operator: str) -> None:
    with pytest.raises(UnusableValue, match="a stored regular expression"):
        render({"x": {operator: {"$fk": "re"}}}, parent={"re": PATTERN})


def test_the_root_document_is_bound_by_path_and_as_a_whole() -> None:
    root = {"a": [{"b": 1}], "c": 2}

    assert render({"x": {"$arg": "rootDoc.a[0].b"}}, root=root) == {"x": 1}
    assert render({"x": {"$arg": "rootDoc"}}, root=root) == {"x": {"$eq": root}}
    with pytest.raises(NotBound, match=r"variable not bound: rootDoc\.c"):
        render({"x": {"$arg": "rootDoc.c"}})


def test_a_caller_cannot_supply_variables_or_the_root_document() -> None:
    """Decision 19."""
    arguments = {"@user": {"_id": 1}, "@user._id": 1, "rootDoc": {"a": 1}, "rootDoc.a": 1}

    for name in ("@user._id", "@user", "rootDoc.a", "rootDoc"):
        with pytest.raises(NotBound):
            render({"x": {"$arg": name}}, arguments)


# --- what a template says of itself ----------------------------------------------------------


def test_a_template_names_what_it_uses() -> None:
    template = compile_template(
        {
            "a": {"$arg": "first"},
            "b": {"$arg": ["@user._id", None]},
            "c": {"$arg": "rootDoc.x[0]"},
            "d": {"$in": {"$fk": "k.0.v"}},
            "e": {"$arg": ["p", {"$fk": "other"}]},
        },
        context="filter",
    )

    assert template.names == {"first", "@user._id", "rootDoc.x[0]", "p"}
    assert template.foreign_keys == {"k.0.v", "other"}
    assert template.root_paths == {"x.0"}
    assert template.depends_on_parent


def test_conjuncts_are_the_conditions_that_must_all_hold() -> None:
    template = compile_template(
        {"a": {"$fk": "k"}, "$and": [{"b": {"$arg": "x"}, "c": 1}], "$or": [{"d": 1}]},
        context="filter",
    )

    assert [(part.source, set(part.foreign_keys)) for part in template.conjuncts] == [
        ({"a": {"$fk": "k"}}, {"k"}),
        ({"b": {"$arg": "x"}}, set()),
        ({"c": 1}, set()),
        ({"$or": [{"d": 1}]}, set()),
    ]


OPTIONAL = {"$ifarg": ["x", {"a": {"$arg": "x"}}]}
TWO = {"$ifarg": [["x", "y"], [{"a": {"$arg": "x"}}, {"b": {"$arg": "y"}}], {"c": 3}]}


@pytest.mark.parametrize(
    ("source", "arguments", "expected"),
    [
        (OPTIONAL, {"x": 1}, {"a": 1}),
        (OPTIONAL, {}, {}),
        (OPTIONAL, {"x": None}, {"a": None}),
        ({"$and": [OPTIONAL, {"b": 2}]}, {"x": 1}, {"$and": [{"a": 1}, {"b": 2}]}),
        ({"$and": [OPTIONAL, {"b": 2}]}, {}, {"$and": [{"b": 2}]}),
        ({"$and": [OPTIONAL, OPTIONAL], "b": 2}, {}, {"b": 2}),
        ({"$and": [OPTIONAL]}, {}, {}),
        ({"$or": [{"b": 1}, {"$and": [OPTIONAL]}]}, {}, {"$or": [{"b": 1}, {}]}),
        (TWO, {"x": 1, "y": 2}, {"$and": [{"a": 1}, {"b": 2}]}),
        (TWO, {"x": 1}, {"c": 3}),
        ({"$ifarg": ["x", [OPTIONAL, TWO]]}, {"x": 1}, {"$and": [{"a": 1}, {"c": 3}]}),
        ({"$ifarg": ["y", OPTIONAL, {"d": 4}]}, {"y": 1}, {}),
        ({"$ifarg": ["y", [OPTIONAL], {"d": 4}]}, {"y": 1}, {}),
        ({"$ifarg": ["y", OPTIONAL, {"d": 4}]}, {}, {"d": 4}),
        ({"$ifarg": ["x.z", {"a": 1}]}, {"x": {}}, {}),
    ],
)
def test_a_condition_holds_only_when_its_arguments_are_given(
    source: Any, arguments: dict[str, Any], expected: Any
) -> None:
    """Decision 9: as a whole filter and as a member of `$and`, with an else branch."""
    template = compile_template(source, context="filter")

    assert template.render(Scope(arguments)) == expected
    assert template.decide(Scope(arguments)).render(Scope(arguments)) == expected
    assert template.given(Scope(arguments)) == template.options.keys() & arguments.keys()


def test_an_optional_condition_without_value_matches_nothing() -> None:
    """Decision 9: a null from a default, in a condition that is there."""
    source = {"$and": [{"$ifarg": ["x", {"a": {"$arg": ["@user._id", None]}}]}, {"b": 2}]}

    assert matches_nothing(render(source, {"x": 1}))
    assert render(source) == {"$and": [{"b": 2}]}


def test_a_conjunction_from_outside_stays_what_it_is() -> None:
    """Only conditions that were left out are: what a caller sends never widens a filter."""
    assert render({"$and": {"$arg": "list"}}, {"list": []}) == {"$and": []}


@pytest.mark.parametrize(
    ("source", "where", "words"),
    [
        ({"a": {"$arg": 3}}, "a.$arg", "must be a string, not a number"),
        ({"a": {"$arg": []}}, "a.$arg", "must be a name or"),
        ({"a": {"$arg": ["x", 1, 2]}}, "a.$arg", "must be a name or"),
        ({"a": {"$arg": [1, 2]}}, "a.$arg", "must be a string"),
        ({"a": {"$arg": "a..b"}}, "a.$arg", "is not a path"),
        ({"a": {"$arg": "@rnd(0)"}}, "a.$arg", "1 to 4096"),
        ({"a": {"$arg": "@rnd(4097)"}}, "a.$arg", "1 to 4096"),
        ({"a": {"$arg": "@"}}, "a.$arg", "not the name of a variable"),
        ({"a": {"$arg": "x", "b": 1}}, "a.$arg", "only key"),
        ({"a": {"$fk": 1}}, "a.$fk", "must be the path of a field"),
        ({"a": {"$fk": ""}}, "a.$fk", "cannot be empty"),
        ({"$or": [{"a": {"$fk": ["x"]}}]}, "$or[0].a.$fk", "must be the path"),
        ({"$or": [{"$ifarg": ["x", {}]}]}, "$or[0].$ifarg", "a member of $and"),
        ({"$nor": [{"$ifarg": ["x", {}]}]}, "$nor[0].$ifarg", "a member of $and"),
        ({"a": {"$ifarg": ["x", 1]}}, "a.$ifarg", "a member of $and"),
        ({"a": {"$elemMatch": {"$ifarg": ["x", {}]}}}, "a.$elemMatch.$ifarg", "a member of $and"),
        ({"$ifarg": ["x", {}], "a": 1}, "$ifarg", "only key"),
        ({"$ifarg": ["x"]}, "$ifarg", "must be [name or names, condition]"),
        ({"$ifarg": [[], {}]}, "$ifarg[0]", "one argument or more"),
        ({"$ifarg": ["x", 3]}, "$ifarg[1]", "must be an object, not a number"),
        ({"$ifarg": ["x", []]}, "$ifarg[1]", "array of one filter or more"),
        ({"$and": [{"$ifarg": ["x", {}, {"$or": []}]}]}, "$and[0].$ifarg[2].$or", "array of one"),
        ({"$or": []}, "$or", "array of one filter or more"),
        ({"$and": [1]}, "$and[0]", "must be an object, not a number"),
        ({"a": {"$in": 3}}, "a.$in", "must be an array"),
        ([], "", "must be an object, not an array"),
    ],
)
def test_a_wrong_shape_is_told_with_its_place(source: Any, where: str, words: str) -> None:
    """Decision 7."""
    with pytest.raises(TemplateError) as error:
        compile_template(source, context="filter")

    assert error.value.flaws[0].where == where
    assert words in error.value.flaws[0].what


def test_all_flaws_are_found() -> None:
    with pytest.raises(TemplateError) as error:
        compile_template({"a": {"$arg": 1}, "b": {"$fk": 2}, "c": {"$in": 3}}, context="filter")

    assert [flaw.where for flaw in error.value.flaws] == ["a.$arg", "b.$fk", "c.$in"]


def test_deep_nesting_is_refused() -> None:
    source: Any = {"$arg": "x"}
    for _ in range(150):
        source = {"a": source}

    with pytest.raises(TemplateError, match="nested deeper than 100"):
        compile_template(source, context="filter")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"$nin": {"$fk": "k"}}, {"$nin": [2, None]}),
        ({"$all": {"$fk": "k"}}, {"$all": [2, None]}),
        ({"$not": {"$in": {"$fk": "k"}}}, {"$not": {"$in": [2, None]}}),
        ({"$elemMatch": {"$in": {"$fk": "k"}}}, {"$elemMatch": {"$in": [2, None]}}),
        ({"$in": {"$fk": "k"}}, {"$in": [2]}),
    ],
)
def test_null_elements_of_a_key_are_dropped_under_a_plain_in_only(
    condition: Any, expected: Any
) -> None:
    """Decision 11."""
    assert render({"a": condition}, parent={"k": [2, None]}) == {"a": expected}


def test_null_elements_of_a_key_count_under_nor() -> None:
    """Decision 11."""
    rendered = render({"$nor": [{"a": {"$in": {"$fk": "k"}}}]}, parent={"k": [None]})

    assert rendered == {"$nor": [{"a": {"$in": [None]}}]}


@pytest.mark.parametrize("operator", ["$arg", "$fk"])
def test_the_negation_of_an_empty_choice_holds_for_everything(operator: str) -> None:
    filter_ = {"a": {"$not": {"$in": {operator: "k"}}}}

    assert render(filter_, {"k": []}, parent={"k": []}) == {"a": {"$not": {"$in": []}}}


@pytest.mark.parametrize(
    "filter_",
    [
        {"a": {"$not": {"$in": {"$fk": "k"}}}},
        {"$nor": [{"a": {"$in": {"$fk": "k"}}}]},
    ],
)
def test_a_stored_pattern_does_not_fall_out_of_a_negation(filter_: Any) -> None:
    with pytest.raises(UnusableValue, match="stored regular expression"):
        render(filter_, parent={"k": [1, Regex("^x")]})


def test_a_missing_key_in_a_negated_list_matches_nothing() -> None:
    assert matches_nothing(render({"a": {"$not": {"$in": [{"$fk": "k"}, 5]}}}, parent={}))


def test_an_id_under_ne_excludes_all_kinds_next_to_nin() -> None:
    source = {"_id": {"$ne": {"$arg": "id"}, "$nin": [7]}}
    assert render(source, {"id": IdText("42")}) == {"_id": {"$nin": [7, "42", 42]}}


def test_an_id_under_eq_prefers_kinds_as_an_equality_does() -> None:
    source = {"_id": {"$eq": {"$arg": "id"}}}
    assert isinstance(render(source, {"id": IdText("42")})["_id"]["$in"], KindChoices)


def test_an_id_under_eq_is_compared_with_all_kinds_next_to_in() -> None:
    source = {"_id": {"$eq": {"$arg": "id"}, "$in": [7, "42"]}}
    assert render(source, {"id": IdText("42")}) == {
        "_id": {"$in": [7, "42"], "$not": {"$nin": ["42", 42]}}
    }
    with pytest.raises(UnusableValue, match=r"members of \$and"):
        render({"_id": {**source["_id"], "$not": {"$gt": 9}}}, {"id": IdText("42")})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"a": {"$arg": "id"}}, [{"a": {"$in": ["7"]}}, {"a": {"$in": [7]}}]),
        (
            {"$and": [{"$or": [{"a": {"$arg": "id"}}, {"b": {"$in": [{"$arg": "id"}]}}]}]},
            [
                {"$and": [{"$or": [{"a": {"$in": [one]}}, {"b": {"$in": [one]}}]}]}
                for one in ("7", 7)
            ],
        ),
        ({"a": {"$in": [{"$arg": "id"}, "x"]}}, []),
        ({"a": {"$not": {"$in": [{"$arg": "id"}]}}, "$nor": [{"b": {"$arg": "id"}}]}, []),
        (
            {"a": {"$arg": "id"}, "b": {"$ne": {"$arg": "id"}}},
            [{"a": {"$in": [one]}, "b": {"$nin": ["7", 7]}} for one in ("7", 7)],
        ),
    ],
)
def test_a_filter_is_narrowed_to_one_kind_of_an_id(source: Any, expected: Any) -> None:
    assert narrow(render(source, {"id": IdText("7")})) == expected


@pytest.mark.parametrize("operator", ["$eq", "$ne"])
def test_an_id_with_one_meaning_stays_an_equality(operator: str) -> None:
    source = {"_id": {operator: {"$arg": "id"}}}
    assert render(source, {"id": IdText("ada")}) == {"_id": {operator: "ada"}}
