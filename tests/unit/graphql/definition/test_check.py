"""Errors and warnings of definitions, each with its place (decision 7)."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.codec.bson_types import Int64, ObjectId
from docgraph.graphql.definition.check import check_definition, inspect_definition
from docgraph.graphql.definition.findings import Report
from docgraph.graphql.sections import Graphql

SDL = """
type Query { posts(first: Int, where: BsonDocument, o: Order): [Post] user(id: ObjectId): User }
type Post { title: String author: User comments(limit: Int): [Comment] }
type User { name: String posts(status: Status): [Post] }
type Comment { text: String }
enum Status { DRAFT LIVE }
input Order { by: Int }
"""


def report(mappings: Any = None, schema: str = SDL, **options: Any) -> Report:
    """What is found besides in an app that has a mapped field of Query."""
    return check_definition(definition(mappings, schema), settings=Graphql(), **options)


def definition(mappings: Any = None, schema: str = SDL) -> dict[str, Any]:
    mappings = mappings or {}
    own = mappings.get("Query", {})
    if "type Query" in schema and isinstance(own, dict):
        schema = f"{schema} extend type Query {{ always: [BsonDocument] }}"
        mappings = mappings | {"Query": own | {"always": query()}}
    return {"_id": "app", "schema": schema, "mappings": mappings}


def field(value: Any, place: str = "User.posts", schema: str = SDL) -> Report:
    type_name, name = place.split(".")
    return report({type_name: {name: value}}, schema)


def query(**parts: Any) -> dict[str, Any]:
    return {"db": "blog", "collection": "posts"} | parts


def texts(findings: Any) -> list[str]:
    return [str(finding) for finding in findings]


def test_a_good_definition_has_neither_errors_nor_warnings() -> None:
    found = report(
        {
            "Query": {
                "posts": query(
                    find={"$and": [{"$arg": ["where", {}]}, {"a": {"$arg": ["first", 1]}}]},
                    sort={"date": {"$arg": ["o.by", -1]}},
                    skip=0,
                    limit={"$arg": "first"},
                ),
                "user": query(find={"_id": {"$arg": "id"}, "o": {"$arg": ["@user._id", None]}}),
            },
            "Post": {
                "author": query(find={"_id": {"$fk": "authorId"}}),
                "comments": {
                    "db": "blog",
                    "collection": "comments",
                    "stages": [
                        {"$match": {"post": {"$fk": "_id"}, "root": {"$arg": "rootDoc._id"}}},
                        {"$ifarg": ["limit", {"$limit": {"$arg": "limit"}}]},
                        {"$lookup": {"from": "users", "pipeline": [], "as": "u"}},
                    ],
                    "allowDiskUse": True,
                    "dataLoader": {"batching": True, "maxBatchSize": 20},
                },
                "title": "meta.title.0",
            },
            "Status": {"DRAFT": 0, "LIVE": 1},
        }
    )

    assert texts(found.errors) == []
    assert texts(found.warnings) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, "mappings.User.posts: must be a string or an object, not a number"),
        ("", "mappings.User.posts: '' is not the path of a field"),
        ("a..b", "mappings.User.posts: 'a..b' is not the path of a field"),
        ({}, "mappings.User.posts.db: is missing"),
        ({"db": "blog"}, "mappings.User.posts.collection: is missing"),
        ({"db": 1, "collection": "c"}, "mappings.User.posts.db: must be a string, not a number"),
        ({"db": "d", "collection": 1}, "mappings.User.posts.collection: must be a string"),
        ({"db": "admin", "collection": "c"}, "mappings.User.posts.db: the database 'admin'"),
        ({"db": "local", "collection": "c"}, "mappings.User.posts.db: the database 'local'"),
        ({"db": "d", "collection": "system.users"}, "mappings.User.posts.collection: collections"),
        ({"db": "a$b", "collection": "c"}, "mappings.User.posts.db: invalid database name"),
        (
            {"db": "d", "collection": "c" * 300},
            "mappings.User.posts.collection: the names of database",
        ),
        (query(find=[]), "mappings.User.posts.find: must be an object, not an array"),
        (query(sort="x"), "mappings.User.posts.sort: must be an object, not a string"),
        (query(sort={"a": 5}), "mappings.User.posts.sort.a: a sort direction must be"),
        (query(limit="5"), "mappings.User.posts.limit: must be a whole number or an object"),
        (query(limit=1.5), "mappings.User.posts.limit: must be a whole number"),
        (query(limit=float("inf")), "mappings.User.posts.limit: must be a whole number"),
        (query(skip=float("nan")), "mappings.User.posts.skip: must be a whole number"),
        (query(limit=True), "mappings.User.posts.limit: must be a whole number"),
        (query(limit=-1), "mappings.User.posts.limit: cannot be negative"),
        (query(skip=-1), "mappings.User.posts.skip: cannot be negative"),
        (query(limit=1001), "mappings.User.posts.limit: cannot be greater than 1000"),
        (query(limit=Int64(1001)), "mappings.User.posts.limit: cannot be greater than 1000"),
        (query(limit={"a": 1}), "mappings.User.posts.limit: must be a whole number or an operator"),
        (query(dataLoader=1), "mappings.User.posts.dataLoader: must be an object"),
        (
            query(dataLoader={"batching": 1}),
            "mappings.User.posts.dataLoader.batching: must be a boolean, not a number",
        ),
        (
            query(dataLoader={"maxBatchSize": "9"}),
            "mappings.User.posts.dataLoader.maxBatchSize: must be a whole number, not a string",
        ),
        (query(stages={}), "mappings.User.posts.stages: must be an array of stages"),
        (query(stages=[5]), "mappings.User.posts.stages[0]: a stage must be an object"),
        (
            query(stages=[], allowDiskUse="yes"),
            "mappings.User.posts.allowDiskUse: must be a boolean, not a string",
        ),
        (
            query(find={"author": {"$arg": 5}}),
            "mappings.User.posts.find.author.$arg: the name must be a string, not a number",
        ),
        (query(find={"a": {"$fk": 5}}), "mappings.User.posts.find.a.$fk: must be the path"),
        (
            query(stages=[{"$match": {"a": {"$arg": ["x"]}}}]),
            "mappings.User.posts.stages[0].$match.a.$arg: must be a name or [name, default]",
        ),
        (
            query(stages=[{"$ifarg": ["x"]}]),
            "mappings.User.posts.stages[0].$ifarg: must be [name or names, stage]",
        ),
    ],
)
def test_a_wrong_shape_is_an_error_at_its_place(value: Any, expected: str) -> None:
    """Decisions 7 and 12."""
    errors = texts(field(value).errors)

    assert any(error.startswith(expected) for error in errors), errors


@pytest.mark.parametrize(
    "stage",
    [
        {"$out": "x"},
        {"$merge": {"into": "x"}},
        {"$currentOp": {}},
        {"$collStats": {}},
        {"$indexStats": {}},
        {"$planCacheStats": {}},
        {"$listSessions": {}},
        {"$changeStream": {}},
        {"$unknownStage": {}},
        {"$match": {"$where": "1"}},
        {"$addFields": {"x": {"$function": {"body": "", "args": [], "lang": "js"}}}},
        {"$group": {"_id": None, "x": {"$accumulator": {}}}},
        {"$lookup": {"from": {"db": "other", "coll": "c"}, "as": "x"}},
        {"$unionWith": {"coll": "system.users"}},
        {"$lookup": {"from": "system.users", "as": "x"}},
    ],
)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda s: s,
        lambda s: {"$facet": {"f": [s]}},
        lambda s: {"$lookup": {"from": "c", "pipeline": [s], "as": "x"}},
        lambda s: {"$unionWith": {"coll": "c", "pipeline": [{"$limit": 1}, s]}},
        lambda s: {"$ifarg": ["status", s]},
        lambda s: {"$ifarg": ["status", {"$limit": 1}, [s]]},
    ],
)
def test_forbidden_stages_and_operators_are_errors(stage: Any, wrap: Any) -> None:
    """Decision 20a, reliability N04."""
    errors = field(query(stages=[wrap(stage)])).errors

    assert any(error.where == "mappings.User.posts.stages" for error in errors), texts(errors)


@pytest.mark.parametrize(
    "find", [{"$where": "1"}, {"a": {"$not": {"$where": "1"}}}, {"$expr": {"$function": {}}}]
)
def test_forbidden_operators_in_find_are_errors(find: Any) -> None:
    """Decision 20a."""
    (error,) = field(query(find=find)).errors

    assert error.where == "mappings.User.posts.find"


def test_an_expression_in_a_stored_filter_is_allowed() -> None:
    assert field(query(find={"$expr": {"$gt": ["$a", {"$arg": "status"}]}})).errors == ()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (query(find={"a": {"$fk": "x"}}), "find.a.$fk: a field of Query has no parent document"),
        (
            query(stages=[{"$match": {"a": {"$fk": "x"}}}]),
            "stages[0].$match.a.$fk: a field of Query has no parent document",
        ),
        (
            query(find={"a": {"$arg": "rootDoc.x"}}),
            "find.a.$arg: a field of Query has no root document",
        ),
        (query(limit={"$arg": "rootDoc"}), "limit.$arg: a field of Query has no root document"),
    ],
)
def test_parents_are_errors_in_query_fields(value: Any, expected: str) -> None:
    """Decision 7."""
    (error,) = field(value, "Query.posts").errors

    assert str(error) == f"mappings.Query.posts.{expected}"


def test_the_root_document_with_a_default_is_fine_in_query_fields() -> None:
    value = query(find={"a": {"$arg": ["rootDoc.x", None]}})

    assert field(value, "Query.posts").errors == ()


@pytest.mark.parametrize(
    ("mappings", "expected"),
    [
        ({"Pots": {}}, "mappings.Pots: the schema has no such type"),
        ({"Post": {"titel": "t"}}, "mappings.Post.titel: the type Post has no such field"),
        ({"Order": {}}, "mappings.Order: a mapping of an input type or scalar has no effect"),
        ({"String": {}}, "mappings.String: a mapping of an input type or scalar has no effect"),
        ({"Status": {"DEAD": 1}}, "mappings.Status.DEAD: the enum Status has no such value"),
        (
            {"Status": {"DRAFT": 1, "LIVE": 1.0}},
            "mappings.Status.LIVE: has the same stored value as DRAFT",
        ),
        ({}, "mappings.Query.posts: has no mapping and is always null"),
        ({"Query": {"user": "x"}}, "mappings.Query.user: a field of Query has no document"),
        (
            {"Query": {"posts": query(find={"a": {"$arg": "frist"}})}},
            "mappings.Query.posts.find.a.$arg: the field has no argument frist",
        ),
        (
            {"Query": {"posts": query(stages=[{"$ifarg": ["frist", {"$limit": 1}]}])}},
            "mappings.Query.posts.stages[0].$ifarg[0]: the field has no argument frist",
        ),
        (
            {"Query": {"posts": query(find={"a": {"$arg": "@usr._id"}})}},
            "mappings.Query.posts.find.a.$arg: @usr is not a known variable",
        ),
        (
            {"Query": {"posts": query(project={"a": 1})}},
            "mappings.Query.posts.project: is not known and has no effect",
        ),
        (
            {"Query": {"posts": query(dataLoader={"size": 1})}},
            "mappings.Query.posts.dataLoader.size: is not known and has no effect",
        ),
    ],
)
def test_what_has_no_effect_is_a_warning(mappings: Any, expected: str) -> None:
    """Decision 7."""
    found = report(mappings)

    assert found.errors == ()
    assert any(text.startswith(expected) for text in texts(found.warnings)), texts(found.warnings)


@pytest.mark.parametrize(
    ("mappings", "meant"),
    [
        ({"Pots": {}}, "Post"),
        ({"Post": {"titel": "t"}}, "title"),
        ({"Status": {"LIFE": 1}}, "LIVE"),
        ({"Query": {"posts": query(find={"a": {"$arg": "frist"}})}}, "first"),
        ({"Query": {"posts": query(find={"a": {"$arg": "@usr._id"}})}}, "user"),
        ({"Query": {"posts": query(dataLoader={"batchin": True})}}, "batching"),
    ],
)
def test_a_misspelt_name_is_told_with_the_one_that_was_meant(mappings: Any, meant: str) -> None:
    """Decision 7."""
    assert f"did you mean {meant}?" in [warning.hint for warning in report(mappings).warnings]


def test_of_very_many_misspelt_names_only_the_first_get_a_suggestion() -> None:
    names = [f"titel{number}" for number in range(1000)]

    found = report({"Post": dict.fromkeys(names, "t")})

    told = [one for one in found.warnings if "has no such field" in one.what]
    assert len(told) == 1000
    assert 0 < sum(one.hint is not None for one in told) < 50


def test_an_operator_of_docgraph_is_suggested_beside_those_of_mongodb() -> None:
    found = field(query(find={"a": {"$argg": "status"}, "b": {"$eqq": 1}})).resolve_offline()

    assert {one.hint for one in found.errors} == {"did you mean $arg?", "did you mean $eq?"}


def test_a_limit_that_is_too_high_names_the_option() -> None:
    (error,) = field(query(limit=1_000_000)).errors

    assert "graphql.max-limit" in (error.hint or "")


def test_variables_of_plugins_are_known() -> None:
    mappings = {"Query": {"posts": query(find={"a": {"$arg": "@tenant.id"}})}}

    found = report(mappings, variables={"tenant"})

    assert not any("@tenant" in text for text in texts(found.warnings))


# --- enums, unions, interfaces ---------------------------------------------------------------

ABSTRACT = """
type Query { hits: [Hit] nodes: [Node] }
union Hit = Post | User
interface Node { id: ID }
type Post implements Node { id: ID title: String }
type User implements Node { id: ID name: String }
"""


def resolver(hit: Any, node: Any) -> Report:
    return report({"Hit": hit, "Node": node}, ABSTRACT)


GOOD = {"$typeResolver": {"Post": "field-exists(title)", "User": "true"}}


def test_complete_type_resolvers_are_fine() -> None:
    assert resolver(GOOD, GOOD).errors == ()
    escaped = {"_$typeResolver": {"Post": "true", "User": "false"}}
    assert resolver(escaped, escaped).errors == ()


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        (None, "mappings.Hit: union Hit has no $typeResolver"),
        ({}, "mappings.Hit: union Hit has no $typeResolver"),
        (5, "mappings.Hit: must be an object, not a number"),
        ({"$typeResolver": []}, "mappings.Hit.$typeResolver: must be an object, not an array"),
        (
            {"$typeResolver": {"Post": "true"}},
            "mappings.Hit.$typeResolver: has no predicate for User",
        ),
        (
            {"$typeResolver": {"Post": 1, "User": "true"}},
            "mappings.Hit.$typeResolver.Post: must be a predicate, not a number",
        ),
        (
            {"$typeResolver": {"Post": "field-exist(x)", "User": "true"}},
            "mappings.Hit.$typeResolver.Post: column 1: unknown predicate field-exist",
        ),
        (
            {"$typeResolver": {"Post": "true and", "User": "true"}},
            "mappings.Hit.$typeResolver.Post: column 9: expected a predicate",
        ),
    ],
)
def test_an_incomplete_type_resolver_is_an_error(mapping: Any, expected: str) -> None:
    """Decision 7."""
    errors = texts(resolver(mapping, GOOD).errors)

    assert any(error.startswith(expected) for error in errors), errors
    assert texts(resolver(GOOD, None).errors) == [
        "mappings.Node: interface Node has no $typeResolver"
    ]


def test_mappings_of_interface_fields_are_not_inherited() -> None:
    """Decision 7."""
    found = resolver(GOOD, {**GOOD, "id": "_id"})

    (warning,) = [text for text in texts(found.warnings) if "Node.id" in text]
    assert warning == ("mappings.Node.id: a mapping of the fields of interface Node has no effect")


def test_a_predicate_for_a_type_that_cannot_be_is_a_warning() -> None:
    hit = {"$typeResolver": {**GOOD["$typeResolver"], "Other": "nonsense("}}

    found = resolver(hit, GOOD)

    assert found.errors == ()
    assert "mappings.Hit.$typeResolver.Other: Other is not one of the types of Hit" in texts(
        found.warnings
    )


def test_an_enum_mapping_must_be_an_object() -> None:
    (error,) = report({"Status": ["DRAFT"]}).errors

    assert str(error) == "mappings.Status: must be an object, not an array"


# --- everything at once ----------------------------------------------------------------------


def test_all_errors_are_collected() -> None:
    found = report(
        {
            "Query": {"posts": query(find={"a": {"$arg": 1}, "b": {"$fk": "x"}}, limit=9999)},
            "User": {"posts": {"db": "admin", "collection": "c", "stages": [{"$out": "x"}, 5]}},
        }
    )

    assert [error.where for error in found.errors] == [
        "mappings.Query.posts.find.a.$arg",
        "mappings.Query.posts.limit",
        "mappings.Query.posts.find.b.$fk",
        "mappings.User.posts.db",
        "mappings.User.posts.stages[1]",
        "mappings.User.posts.stages",
    ]


def test_with_a_wrong_schema_mappings_are_looked_at_too() -> None:
    found = report({"Query": {"a": query(limit=9999)}}, "type Query { a: Foo }")

    assert [error.where for error in found.errors] == [
        "schema (line 1, column 17)",
        "mappings.Query.a.limit",
    ]


def test_a_missing_schema_is_told_once() -> None:
    found = check_definition({"_id": "a", "mappings": {}}, settings=Graphql())

    assert texts(found.errors) == ["schema: is missing"]


def test_a_field_more_hidden_than_the_interfaces_is_an_error() -> None:
    """Decision 20."""
    schema = """
    type Query { n: N }
    interface N { f: Int }
    type A implements N { f: Int @visible(roles: ["x"]) }
    """

    (error,) = report({"N": {"$typeResolver": {"A": "true"}}}, schema).errors

    assert str(error).startswith("schema: A.f: it is more hidden than N.f")


def test_the_error_text_names_place_and_mistake() -> None:
    """Decision 7."""
    error = report({"User": {"posts": query(limit=9999), "name": 5}}).as_error()

    assert error.status == 400
    assert error.message.splitlines() == [
        "Wrong GraphQL App definition: mappings.User.name: must be a string or an object, "
        "not a number",
        "mappings.User.posts.limit: cannot be greater than 1000",
    ]


def test_a_document_with_an_object_id_and_a_uri_is_fine() -> None:
    document = {
        "_id": ObjectId(),
        "descriptor": {"uri": "/x"},
        "schema": "type Query { a: BsonDocument }",
        "mappings": {"Query": {"a": query()}},
    }

    assert check_definition(document, settings=Graphql()).errors == ()


# --- operators, collections, and what comes to nothing --------------------------------------------


@pytest.mark.parametrize(
    ("value", "where", "name", "nearest"),
    [
        (query(find={"_id": {"$gtt": 1}}), "find._id.$gtt", "$gtt", "$gt"),
        (query(find={"$orr": [{"a": 1}]}), "find.$orr", "$orr", "$or"),
        (query(find={"a": {"$not": {"$exist": 1}}}), "find.a.$not.$exist", "$exist", "$exists"),
        (query(find={"a": {"$elemMatch": {"$GT": 1}}}), "find.a.$elemMatch.$GT", "$GT", "$gt"),
        (query(find={"$expr": {"$eqq": [1, 2]}}), "find.$expr.$eqq", "$eqq", "$eq"),
        (query(stages=[{"$match": {"$xyz": 1}}]), "stages[0].$match.$xyz", "$xyz", None),
        (
            query(stages=[{"$facet": {"a": [{"$match": {"b": {"$gtee": 1}}}]}}]),
            "stages[0].$facet.a[0].$match.b.$gtee",
            "$gtee",
            "$gte",
        ),
        (
            query(stages=[{"$group": {"_id": None, "n": {"$summ": 1}}}]),
            "stages[0].$group.n.$summ",
            "$summ",
            "$sum",
        ),
    ],
)
def test_an_unknown_operator_is_an_error_with_the_nearest_name(
    value: Any, where: str, name: str, nearest: str | None
) -> None:
    """Decision 7."""
    (error,) = field(value).errors

    assert (error.where, error.what) == (
        f"mappings.User.posts.{where}",
        f"MongoDB has no operator {name}",
    )
    assert error.hint == (f"did you mean {nearest}?" if nearest else None)


def test_what_the_database_knows_is_only_a_warning() -> None:
    """Decision 7: newer servers have newer operators."""
    found = inspect_definition(
        definition({"User": {"posts": query(find={"a": {"$newer": 1}})}}), settings=Graphql()
    )

    settled = found.resolve([])

    assert settled.errors == ()
    assert (
        "mappings.User.posts.find.a.$newer: docgraph does not know $newer, but this database does"
        in texts(settled.warnings)
    )


def test_a_missing_collection_is_a_warning_where_the_database_is_asked() -> None:
    """Decision 7."""
    found = inspect_definition(definition({"Query": {"posts": query()}}), settings=Graphql())
    missing = [one for one in found.questions if one.where == "mappings.Query.posts.collection"]

    settled = found.resolve(missing)

    assert "mappings.Query.posts.collection: there is no collection blog.posts" in texts(
        settled.warnings
    )
    assert not any("no collection" in text for text in texts(found.resolve_offline().warnings))


@pytest.mark.parametrize("mappings", [{}, {"Query": {}}, {"Query": {"a": "x", "other": {}}}])
def test_an_app_without_a_mapped_field_of_query_is_an_error(mappings: Any) -> None:
    """Decision 7."""
    document = {"_id": "a", "schema": "type Query { a: Int }", "mappings": mappings}

    errors = texts(check_definition(document, settings=Graphql()).errors)

    assert errors[-1] == "mappings.Query: maps no field of Query to a query or an aggregation"


@pytest.mark.parametrize(
    ("mappings", "expected"),
    [
        ({"Post": {"title": "$name"}}, "no stored property is called '$name': always null"),
        ({"Post": {"title": " name"}}, "' name' begins or ends with a space: null, most likely"),
        (
            {"Post": {"title": query(find={})}},
            "gives documents, which are never of type String: always null",
        ),
        ({"Post": {"comments": "comments"}}, "does not use the argument limit"),
        ({"User": {"posts": query(find={"a": {"$fk": "b"}})}}, "does not use the argument status"),
    ],
)
def test_what_comes_to_nothing_is_a_warning(mappings: Any, expected: str) -> None:
    """Decision 7."""
    found = report(mappings)

    assert found.errors == ()
    assert expected in [finding.what for finding in found.warnings]


def test_an_id_in_an_expression_is_a_warning() -> None:
    """Decision 48."""
    schema = "type Query { n(id: ID!, name: String!): Node } type Node { a: Int }"
    compared = {"$expr": {"$and": [{"$eq": ["$_id", {"$arg": "id"}]}, {"$arg": "name"}]}}

    found = report({"Query": {"n": query(find=compared)}}, schema)
    plain = report(
        {"Query": {"n": query(find={"a": {"$arg": "id"}, "b": {"$arg": "name"}})}}, schema
    )

    assert [finding.what for finding in found.warnings] == [
        "an ID in $expr is a text: it matches no ObjectId, UUID, number or date"
    ]
    assert plain.warnings == ()


_ID = {"$arg": "id"}
_IDS = {"$arg": "ids"}
_WHOLE = "an object or list that is compared as a whole"


def _look_up(**parts: Any) -> dict[str, Any]:
    names = {"connectFromField": "a", "connectToField": "_id", "as": "x"}
    return {"$graphLookup": {"from": "c", "startWith": "$a", **names, **parts}}


@pytest.mark.parametrize(
    ("mapping", "operators"),
    [
        (query(find={"a": {"$all": [_ID]}}), ["$all"]),
        (query(find={"a": {"$all": [{"$elemMatch": {"b": _ID}}]}}), []),
        (
            query(find={"$and": [{"a": {"$gte": _ID}}, {"b": {"$not": {"$lt": _ID}}}]}),
            ["$gte", "$lt"],
        ),
        (query(find={"a": {"$elemMatch": {"b": {"$gt": _ID}, "c": _ID}}}), ["$gt"]),
        (query(find={"a": {"$nin": [_ID]}, "b.$id": {"$eq": _ID}}), []),
        (query(stages=[{"$match": {"a": {"$in": [_ID]}, "b": {"$lte": _ID}}}]), ["$lte"]),
        (query(stages=[{"$addFields": {"x": _ID, "y": {"$eq": ["$a", _ID]}}}]), ["$eq"]),
        (query(stages=[{"$facet": {"x": [{"$match": {"a": {"$ne": _ID}}}]}}]), []),
        (query(find={"_id": {"año": _ID, "n": 1}}), [_WHOLE]),
        (query(find={"a": {"b": {"c": [_ID]}}}), [_WHOLE]),
        (query(find={"a": [1, _ID]}), [_WHOLE]),
        (query(find={"a": {"$eq": {"b": _ID}}}), [_WHOLE]),
        (query(find={"a": {"$in": [{"b": _ID}, _ID]}}), [_WHOLE]),
        (query(find={"$and": [{"$ifarg": ["id", {"a.b": _ID}]}]}), []),
        (query(find={"$and": [{"$ifarg": ["id", {"a": {"b": _ID}}]}]}), [_WHOLE]),
        (query(find={"a.b": {"$arg": ["id", None]}, "c": {"$not": {"$eq": _ID}}}), []),
        (query(find={"$or": [{"a": _ID}, {"b": {"$elemMatch": {"c": _ID}}}]}), []),
        (query(find={"a": _IDS}), [_WHOLE]),
        (query(find={"a": {"$ne": _IDS}}), [_WHOLE]),
        (query(find={"a": {"$not": _IDS}}), [_WHOLE]),
        (query(find={"a": {"$in": _IDS}, "b": {"$not": {"$in": _IDS}}, "c": {"$nin": _IDS}}), []),
        (query(find={"a": {"$in": [_IDS]}}), [_WHOLE]),
        (query(stages=[{"$match": {"a": {"b": _ID}}}, {"$match": {"a.b": _ID}}]), [_WHOLE]),
        (query(stages=[_look_up(startWith=_ID)]), ["$graphLookup.startWith"]),
        (query(stages=[_look_up(restrictSearchWithMatch={"a": _ID})]), []),
        (query(stages=[_look_up(restrictSearchWithMatch={"a": {"b": _ID}})]), [_WHOLE]),
        (query(find={"$expr": {"$eq": ["$a", {"$arg": "f.k"}]}}), ["$expr"]),
        (query(find={"$expr": {"$eq": ["$a", {"$arg": "f.n"}]}}), []),
        (query(find={"$expr": {"$eq": ["$a", {"$arg": "f"}]}}), ["$expr"]),
        (query(find={"a": {"$arg": "f.k"}, "b": {"$in": {"$arg": "f.ks"}}}), []),
        (query(find={"a": {"$arg": "f"}}), [_WHOLE]),
        (query(find={"a": {"$arg": "f.ks"}}), [_WHOLE]),
        (query(find={"$arg": "f"}), []),
        (query(stages=[{"$geoNear": {"near": [1, 2], "query": {"a": {"$in": [_ID]}}}}]), []),
    ],
)
def test_an_id_that_is_compared_as_a_text_is_a_warning(mapping: Any, operators: list[str]) -> None:
    """Decision 48."""
    schema = """
    type Query { n(id: ID!, ids: [ID!]!, f: F!): Node } type Node { a: Int }
    input F { k: ID, ks: [ID], n: Int }
    """

    found = report({"Query": {"n": mapping}}, schema)

    warnings = [one.what for one in found.warnings if "does not use" not in one.what]
    assert warnings == [
        f"an ID in {one} is a text: it matches no ObjectId, UUID, number or date"
        for one in operators
    ]


def test_an_argument_that_an_interface_asks_for_need_not_be_used() -> None:
    schema = """
    type Query { n: Node }
    interface Node { name(upper: Boolean): String }
    type Post implements Node { name(upper: Boolean): String }
    """
    found = report({"Node": {"$typeResolver": {"Post": "true"}}, "Post": {"name": "n"}}, schema)

    assert not any("does not use" in text for text in texts(found.warnings))


@pytest.mark.parametrize("path", ["l[1].k", "l.1.k", "l['1'].k", "first name", "a-b.c"])
def test_paths_of_fields_are_those_of_keys_and_may_have_spaces_inside(path: str) -> None:
    """Decision 10."""
    found = report({"Post": {"title": path}})

    assert found.errors == ()
    assert not any("Post.title" in text for text in texts(found.warnings))


def test_a_uri_that_is_null_is_an_error() -> None:
    """Decision 7."""
    document = definition() | {"descriptor": {"uri": None}}

    (error,) = check_definition(document, settings=Graphql()).errors

    assert str(error) == "descriptor.uri: cannot be null"


def test_a_hidden_property_cannot_be_mapped_and_is_not_filtered_or_sorted_by() -> None:
    """Decision 34."""
    mappings = {
        "User": {"name": "password"},
        "Query": {
            "user": query(
                find={
                    "$or": [{"password": {"$arg": "id"}}, {"$arg": ["id", {}]}],
                    "$and": [{"$ifarg": ["id", {"a": 1}, [{"password.y": 1}]]}],
                },
                sort={"password.x": 1},
            )
        },
    }

    found = inspect_definition(
        definition(mappings), settings=Graphql(), hidden={"blog.posts": (("password",),)}
    )

    assert texts(found.errors) == ["mappings.User.name: password is never shown"]
    assert {
        "mappings.Query.user: nothing can be asked about password: always an error",
        "mappings.Query.user: nothing can be asked about password.x: always an error",
        "mappings.Query.user: nothing can be asked about password.y: always an error",
    } <= {*texts(found.warnings)}


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (
            query(find={}, stages=[]),
            "warnings",
            ("find", "has no effect beside stages", "make it a $match, the first of the stages"),
        ),
        (query(allowDiskUse=True), "warnings", ("allowDiskUse", "has no effect without stages")),
        (
            query(srot={}),
            "warnings",
            ("srot", "is not known and has no effect", "did you mean sort?"),
        ),
        (
            {"db": "blog", "colection": "posts"},
            "errors",
            ("collection", "is missing", "'colection' is not known: did you mean 'collection'?"),
        ),
    ],
)
def test_keys_of_a_mapping_are_told_by_what_was_probably_meant(
    value: Any, kind: str, expected: tuple[str, ...]
) -> None:
    found = getattr(field(value), kind)
    place, *words = expected

    assert [
        [word for word in (finding.what, finding.hint) if word]
        for finding in found
        if finding.where == f"mappings.User.posts.{place}"
    ] == [words]


WRONG_ARGUMENTS: dict[str, list[Any]] = {
    "$limit": ["x", 0, -1, 1.5, True, None],
    "$skip": ["x", -1, 0.5],
    "$sample": [1, {}, {"size": "x"}, {"size": 0}],
    "$count": [1, "", "$a", "a.b"],
    "$unwind": [1, "a", "$", {"path": "a"}, {}],
    "$unset": [1, [], "", ["$a"], [1]],
    "$sort": [{}],
    "$project": [1, {}],
    "$addFields": [1, {}],
    "$set": [[], {}],
    "$facet": [{}],
    "$group": [1, {}, {"n": {"$sum": 1}}],
    "$replaceRoot": [1, {}],
    "$bucket": [1, {"groupBy": "$a"}],
    "$bucketAuto": [1, {"buckets": 2}],
    "$lookup": [{}, {"from": "a"}, {"as": "a"}],
    "$graphLookup": [{}, {"from": "a", "as": "b"}],
}


@pytest.mark.parametrize(
    ("name", "body"), [(name, body) for name, all in WRONG_ARGUMENTS.items() for body in all]
)
def test_a_stage_whose_arguments_cannot_work_is_an_error_without_a_database(
    name: str, body: Any
) -> None:
    """Decision 7: with its place, also inside of optional and nested stages."""
    wrong = {name: body}
    alone = field(query(stages=[{"$match": {}}, wrong]))
    optional = field(query(stages=[{"$ifarg": ["status", wrong]}]))
    nested = field(query(stages=[{"$facet": {"a": [wrong, {"$skip": {"$arg": "status"}}]}}]))

    for found, where in (
        (alone, f"stages[1].{name}"),
        (optional, f"stages[0].$ifarg[1].{name}"),
        (nested, f"stages[0].$facet.a[0].{name}"),
    ):
        assert f"mappings.User.posts.{where}" in [one.where for one in found.errors]


RIGHT_ARGUMENTS: list[Any] = [
    *({"$limit": one} for one in (1, Int64(5), 2.0, {"$arg": "status"})),
    *({"$skip": one} for one in (0, {"$arg": "status"})),
    {"$sample": {"size": 3}},
    {"$count": "n"},
    *({"$unwind": one} for one in ("$a.b", {"path": "$a", "preserveNullAndEmptyArrays": True})),
    *({"$unset": one} for one in ("a.b", ["a", "b"])),
    {"$sort": {"a": {"$arg": ["status", None]}}},
    {"$group": {"_id": None}},
    {"$lookup": {"pipeline": [{"$limit": 1}], "as": "a"}},
    {"$lookup": {"from": "a", "localField": "b", "foreignField": "c", "as": "d"}},
]


@pytest.mark.parametrize("stage", RIGHT_ARGUMENTS, ids=str)
def test_arguments_that_work_are_no_error(stage: Any) -> None:
    assert field(query(stages=[stage])).errors == ()
