"""Stages and operators (decision 20a; `aggregationSecurity`)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import bson
import pytest
from bson.raw_bson import RawBSONDocument
from bson.son import SON

from docgraph.exchange.errors import QueryError, SecurityViolation
from docgraph.store.guard.stage_checks import (
    STREAM_STAGES,
    KeptStage,
    Policy,
    check_filter,
    check_pipeline,
)
from docgraph.store.sections import AggregationSecurity

DEFAULT = Policy.from_section(AggregationSecurity())


def check(pipeline: list[Any], policy: Policy = DEFAULT) -> None:
    check_pipeline(pipeline, db="blog", policy=policy)


WRITING = ["$out", "$merge"]
STATE = ["$currentOp", "$listSessions", "$listLocalSessions", "$listSampledQueries", "$collStats"]
STATE += ["$indexStats", "$planCacheStats", "$shardedDataDistribution", "$queryStats"]
STATE += ["$listCatalog", "$listClusterCatalog", "$changeStream", "$changeStreamSplitLargeEvent"]
STATE += ["$listSearchIndexes"]
CODE = ["$where", "$function", "$accumulator"]


@pytest.mark.parametrize("stage", [*WRITING, *STATE, "$Out", "$MERGE", "$_internalInhibit", "$new"])
def test_stages_that_do_not_just_read_are_refused(stage: str) -> None:
    """Decision 20a."""
    with pytest.raises(SecurityViolation) as caught:
        check([{"$match": {}}, {stage: {}}])

    text = f"Security violation: BLACKLISTED_STAGE operator '{stage}' at pipeline[1] - "
    assert caught.value.message.startswith(text)
    assert caught.value.status == 403


@pytest.mark.parametrize("stage", CODE)
def test_code_as_a_stage_is_refused(stage: str) -> None:
    with pytest.raises(
        SecurityViolation, match=r"JAVASCRIPT_EXECUTION operator .* at pipeline\[0\]"
    ):
        check([{stage: "function() {}"}])


@pytest.mark.parametrize("operator", [*CODE, "$WHERE", "$Function", "$_internalJsEmit", "$out"])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: {"$match": inner},
        lambda inner: {"$match": {"$and": [{"a": 1}, inner]}},
        lambda inner: {"$match": {"$expr": inner}},
        lambda inner: {"$group": {"_id": None, "x": inner}},
        lambda inner: {"$project": {"a": {"b": [1, [inner]]}}},
        lambda inner: {"$graphLookup": {"from": "posts", "restrictSearchWithMatch": inner}},
        lambda inner: {"$lookup": {"from": "posts", "let": {"a": inner}, "as": "x"}},
        lambda inner: {"$setWindowFields": {"output": {"a": inner}}},
    ],
)
def test_operators_are_refused_at_any_depth(operator: str, wrap: Any) -> None:
    """Decision 20a."""
    with pytest.raises(SecurityViolation, match="BLACKLISTED_OPERATOR"):
        check([wrap({operator: {"body": "function() { return 1 }"}})])


@pytest.mark.parametrize(
    ("stage", "location"),
    [
        ({"$facet": {"a": [{"$out": "x"}]}}, "pipeline[1].$facet.a[0]"),
        (
            {"$lookup": {"from": "posts", "pipeline": [{"$match": {}}, {"$out": "x"}]}},
            "pipeline[1].$lookup.pipeline[1]",
        ),
        (
            {"$unionWith": {"coll": "posts", "pipeline": [{"$facet": {"b": [{"$out": "x"}]}}]}},
            "pipeline[1].$unionWith.pipeline[0].$facet.b[0]",
        ),
    ],
)
def test_stages_of_nested_pipelines_are_refused_with_their_place(
    stage: dict[str, Any], location: str
) -> None:
    with pytest.raises(SecurityViolation) as caught:
        check([{"$match": {}}, stage])

    assert f"BLACKLISTED_STAGE operator '$out' at {location} - " in caught.value.message


@pytest.mark.parametrize("name", ["$facet", "$lookup", "$unionWith", "$graphLookup"])
@pytest.mark.parametrize("body", [5, None, [], "$x"])
def test_a_stage_with_a_body_of_another_kind_is_refused_here_or_by_the_database(
    name: str, body: Any
) -> None:
    with suppress(QueryError):
        check([{name: body}])


def test_place_of_an_operator_is_the_object_that_holds_it() -> None:
    with pytest.raises(SecurityViolation) as caught:
        check([{"$match": {"$or": [{"a": 1}, {"$where": "true"}]}}])

    expected = "BLACKLISTED_OPERATOR operator '$where' at pipeline[0].$match.$or[1] - "
    assert expected in caught.value.message


@pytest.mark.parametrize(
    "stage",
    [
        {"$lookup": {"from": "posts", "localField": "a", "foreignField": "b", "as": "c"}},
        {"$lookup": {"from": {"db": "blog", "coll": "posts"}, "as": "c", "pipeline": []}},
        {"$lookup": {"pipeline": [{"$documents": [{"a": 1}]}], "as": "c"}},
        {"$graphLookup": {"from": "posts", "startWith": "$a", "as": "c"}},
        {"$unionWith": "posts"},
        {"$unionWith": {"coll": "posts", "pipeline": [{"$match": {"a": 1}}]}},
        {"$unionWith": {"db": "blog", "coll": "posts"}},
        {"$unionWith": "blog.archive"},
        {"$facet": {"a": [{"$count": "n"}], "b": [{"$limit": 1}]}},
    ],
)
def test_joins_inside_their_own_database_are_allowed(stage: dict[str, Any]) -> None:
    """Decision 20a."""
    check([stage])


@pytest.mark.parametrize(
    "stage",
    [
        {"$lookup": {"from": {"db": "other", "coll": "posts"}, "as": "c", "pipeline": []}},
        {"$lookup": {"from": "other.posts", "as": "c", "pipeline": []}},
        {"$graphLookup": {"from": "other.posts", "startWith": "$a", "as": "c"}},
        {"$unionWith": "other.posts"},
        {"$unionWith": {"coll": "other.posts"}},
        {"$unionWith": {"db": "other", "coll": "posts"}},
        {"$unionWith": {"db": "blog", "coll": "system.users"}},
        {"$graphLookup": {"from": {"db": "other", "coll": "posts"}, "startWith": 1, "as": "c"}},
        {"$facet": {"a": [{"$unionWith": {"db": "other", "coll": "posts", "pipeline": []}}]}},
        {"$facet": {"a": [{"$unionWith": "other.posts"}]}},
        {"$lookup": {"from": "system.users", "as": "c", "pipeline": []}},
        {"$unionWith": "system.js"},
        {"$unionWith": {"coll": "system.profile"}},
    ],
)
def test_other_databases_and_collections_of_the_server_are_refused(stage: dict[str, Any]) -> None:
    """Decision 20a."""
    with pytest.raises(SecurityViolation, match="CROSS_DATABASE_ACCESS"):
        check([stage])


JOINS: dict[str, Callable[[str], dict[str, Any]]] = {
    "lookup": lambda name: {"$lookup": {"from": name, "as": "c", "pipeline": []}},
    "lookup by db": lambda name: {"$lookup": {"from": {"db": "blog", "coll": name}, "as": "c"}},
    "graphLookup": lambda name: {"$graphLookup": {"from": name, "startWith": "$a", "as": "c"}},
    "unionWith": lambda name: {"$unionWith": name},
    "unionWith with a pipeline": lambda name: {"$unionWith": {"coll": name, "pipeline": []}},
    "facet": lambda name: {"$facet": {"a": [{"$unionWith": name}]}},
    "join in a join": lambda name: {
        "$unionWith": {"coll": "a", "pipeline": [JOINS["lookup"](name)]}
    },
}


@pytest.mark.parametrize("name", ["_revocations", "_cursorKeys", "_properties", "fs.files"])
@pytest.mark.parametrize("join", JOINS.values(), ids=JOINS)
@pytest.mark.parametrize("trusted", [True, False])
def test_collections_of_docgraph_cannot_be_joined(
    join: Callable[[str], dict[str, Any]], name: str, trusted: bool
) -> None:
    """They hold keys, revoked tokens and settings, which no resource shows."""
    check_pipeline([join("posts")], db="blog", policy=DEFAULT, trusted=trusted)
    for policy in (DEFAULT, Policy(allow_cross_database=True)):
        with pytest.raises(SecurityViolation, match="CROSS_DATABASE_ACCESS"):
            check_pipeline([join(name)], db="blog", policy=policy, trusted=trusted)


def test_databases_of_the_server_stay_closed_when_others_are_opened() -> None:
    policy = Policy(allow_cross_database=True)

    check([{"$lookup": {"from": {"db": "other", "coll": "posts"}, "as": "c"}}], policy)
    check([{"$unionWith": {"db": "other", "coll": "posts"}}], policy)
    for target in ({"db": "admin", "coll": "x"}, {"db": "other", "coll": "system.users"}):
        for stage in ({"$lookup": {"from": target, "as": "c"}}, {"$unionWith": target}):
            with pytest.raises(SecurityViolation, match="CROSS_DATABASE_ACCESS"):
                check([stage], policy)


@pytest.mark.parametrize(
    "target", [7, None, [], {"coll": "a", "x": 1}, {"db": 1, "coll": "a"}, {"db": "blog"}, "a$b"]
)
def test_join_that_names_no_collection_is_refused(target: Any) -> None:
    with pytest.raises(QueryError):
        check([{"$graphLookup": {"from": target, "as": "c"}}])


@pytest.mark.parametrize("body", [{"db": 1, "coll": "a"}, {"db": "blog"}, {"db": None, "coll": 1}])
def test_union_that_names_no_collection_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(QueryError):
        check([{"$unionWith": body}])


def test_configured_lists_come_on_top_and_ignore_case() -> None:
    """Decision 20a."""
    section = AggregationSecurity(stage_blacklist=("$LOOKUP",), operator_blacklist=("$regexmatch",))
    policy = Policy.from_section(section)

    with pytest.raises(SecurityViolation, match="aggregationSecurity"):
        check([{"$lookup": {"from": "posts", "as": "c"}}], policy)
    with pytest.raises(SecurityViolation, match="BLACKLISTED_OPERATOR operator '\\$regexMatch'"):
        check([{"$match": {"$expr": {"$regexMatch": {"input": "$a", "regex": "x"}}}}], policy)
    with pytest.raises(SecurityViolation, match="writes"):
        check([{"$out": "x"}], policy)


def test_switching_the_section_off_leaves_what_is_refused_always() -> None:
    """Decision 20a."""
    section = AggregationSecurity(enabled=False, stage_blacklist=("$lookup",))
    policy = Policy.from_section(section)

    check([{"$lookup": {"from": "posts", "as": "c"}}], policy)
    with pytest.raises(SecurityViolation):
        check([{"$merge": "x"}], policy)


def test_javascript_stays_refused_when_the_section_allows_it() -> None:
    """Decision 20a."""
    policy = Policy.from_section(
        AggregationSecurity(allow_java_script_execution=True, operator_blacklist=())
    )

    with pytest.raises(SecurityViolation):
        check([{"$match": {"$expr": {"$function": {}}}}], policy)


@pytest.mark.parametrize(
    "value",
    [
        {"$where": "true"},
        {"a": {"$elemMatch": {"$where": "true"}}},
        {"$or": [{"a": 1}, {"$expr": {"$function": {}}}]},
        {"a": ({"b": 1}, {"$where": "true"})},
        SON([("a", SON([("$where", "true")]))]),
        {"a": [MappingProxyType({"$where": "true"})]},
        RawBSONDocument(bson.encode({"a": {"$where": "true"}})),
    ],
)
def test_code_in_filters_is_refused_in_every_form_that_bson_knows(value: Any) -> None:
    with pytest.raises(SecurityViolation, match="filter"):
        check_filter(value, policy=DEFAULT)


def test_expressions_are_refused_in_values_of_callers_only() -> None:
    """Decision 20a."""
    value = {"a": {"$not": {"$expr": {"$gt": ["$a", 1]}}}}

    check_filter(value, policy=DEFAULT)
    with pytest.raises(SecurityViolation, match="supplied by a caller"):
        check_filter(value, policy=DEFAULT, from_caller=True)


@pytest.mark.parametrize(
    "value", [{}, {"a": "$where"}, {"where": 1}, {"a": {"$in": list(range(1000))}}, "$where", None]
)
def test_texts_and_plain_names_are_no_operators(value: Any) -> None:
    check_filter(value, policy=DEFAULT, from_caller=True)


@pytest.mark.parametrize(
    "pipeline", [{}, "x", [7], [{}], [{"$match": {}, "$limit": 1}], [{"$facet": {"a": {}}}]]
)
def test_what_is_no_pipeline_is_the_callers_mistake(pipeline: Any) -> None:
    with pytest.raises(QueryError):
        check(pipeline)


def test_nesting_without_end_is_the_callers_mistake() -> None:
    value: dict[str, Any] = {}
    for _ in range(100_000):
        value = {"a": value}

    with pytest.raises(QueryError, match="nested too deeply"):
        check_filter(value, policy=DEFAULT)
    while value:  # taken apart by hand: freeing it at once recurses, too
        value = value["a"]


@pytest.mark.parametrize("trusted", [True, False])
def test_joins_without_end_are_the_callers_mistake(trusted: bool) -> None:
    pipeline: list[Any] = []
    for _ in range(5_000):
        pipeline = [{"$unionWith": {"coll": "a", "pipeline": pipeline}}]

    with pytest.raises(QueryError, match="nested too deeply"):
        check_pipeline(pipeline, db="blog", policy=DEFAULT, trusted=trusted)
    while pipeline:
        pipeline = pipeline[0]["$unionWith"]["pipeline"]


def test_keys_that_are_no_text_are_the_callers_mistake() -> None:
    with pytest.raises(QueryError, match="every key must be text"):
        check_filter({"a": {1: 2}}, policy=DEFAULT)


def test_streams_take_fewer_stages() -> None:
    with pytest.raises(SecurityViolation, match=r"'\$lookup' at pipeline\[0\]"):
        check_pipeline(
            [{"$lookup": {"from": "a", "as": "b"}}],
            db="blog",
            policy=DEFAULT,
            allowed=STREAM_STAGES,
        )


def test_names_of_a_caller_are_cut_in_the_message() -> None:
    with pytest.raises(SecurityViolation) as caught:
        check([{"$" + "x" * 100_000: {}}])

    assert len(caught.value.message) < 1000


LOOKUP = {"from": "users", "localField": "a", "foreignField": "_id", "as": "b"}


def test_a_kept_stage_is_checked_for_each_policy_and_database() -> None:
    stage = KeptStage({"$lookup": {**LOOKUP, "pipeline": [{"$match": {"$expr": {"$rand": {}}}}]}})
    check([stage])
    check([stage, {"$limit": 1}])

    with pytest.raises(SecurityViolation):
        check([stage], Policy(frozenset({"$lookup"})))
    with pytest.raises(SecurityViolation):
        check([stage], Policy(operators=frozenset({"$rand"})))
    with pytest.raises(SecurityViolation):
        check_pipeline([stage], db="blog", policy=DEFAULT, allowed=STREAM_STAGES)


def test_the_stages_beside_a_kept_one_are_checked() -> None:
    stage = KeptStage({"$lookup": LOOKUP})
    check([stage])

    for other in ({"$out": "x"}, {"$match": {"$where": "1"}}, {"$lookup": {**LOOKUP, "from": 1}}):
        with pytest.raises((SecurityViolation, QueryError)):
            check([stage, other])


@pytest.mark.parametrize("pipeline", [[{"$out": "x"}], [{"$match": {"$where": "1"}}]])
def test_a_kept_stage_that_is_refused_is_refused_again(pipeline: list[Any]) -> None:
    stage = KeptStage({"$lookup": {**LOOKUP, "pipeline": pipeline}})
    for _ in range(2):
        with pytest.raises(SecurityViolation):
            check([stage])
