"""Requests and responses of the GraphQL endpoint: bodies, content types, statuses, shapes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.http.harness import MEDIA_TYPE, Mongo, Service, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

SCHEMA = """
type Query {
  books(limit: Int): [Book]
  book(title: String!): Book
  sure(title: String!): Book!
  echo(text: String): [Book]
}
type Book { title: String! pages: Int missing: String! }
"""
JSON = "application/json"


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri) as service:
        service.insert("books", {"title": "On Graphs", "pages": 100}, {"title": "Å ∑ 🜁"})
        by_title = service.find("books", {"title": {"$arg": "title"}})
        await service.define(
            "library",
            SCHEMA,
            {
                "Query": {
                    "books": service.find("books", {}, limit={"$arg": ["limit", 0]}),
                    "book": by_title,
                    "sure": by_title,
                    "echo": service.find("books", {"title": {"$arg": "text"}}),
                }
            },
        )
        yield service


# --- what works -----------------------------------------------------------------------------------


async def test_a_query_answers_data_alone_in_the_response_type(service: Service) -> None:
    """Decision 24."""
    reply = await service.query("library", '{ book(title: "On Graphs") { title pages } }')

    assert reply.json == {"data": {"book": {"title": "On Graphs", "pages": 100}}}
    assert (reply.status, reply.headers["content-type"]) == (200, MEDIA_TYPE)


async def test_the_response_type_does_not_depend_on_accept(service: Service) -> None:
    """Decision 24; decision 56: CSV only if the app allows it."""
    for accept in ("application/json", "text/html", "text/csv", "*/*"):
        reply = await service.query("library", "{ __typename }", headers={"accept": accept})
        assert reply.headers["content-type"] == MEDIA_TYPE


async def test_plain_query_text_is_accepted(service: Service) -> None:
    reply = await service.send("library", "{ books { title } }", "application/graphql")

    assert reply.data == {"books": [{"title": "On Graphs"}, {"title": "Å ∑ 🜁"}]}


async def test_variables_and_operation_name_are_optional_and_null_counts_as_absent(
    service: Service,
) -> None:
    """Decision 23."""
    body = {"query": "query A { books(limit: 1) { title } }"}
    for extra in ({}, {"variables": None, "operationName": None, "extensions": None}):
        reply = await service.send("library", json.dumps({**body, **extra}), JSON)
        assert reply.data == {"books": [{"title": "On Graphs"}]}


async def test_the_named_operation_of_several_is_run(service: Service) -> None:
    text = "query A { books(limit: 1) { title } } query B { book(title: $t) { title } }"
    text = text.replace("query B", "query B($t: String!)")

    reply = await service.query("library", text, {"t": "Å ∑ 🜁"}, operation="B")

    assert reply.data == {"book": {"title": "Å ∑ 🜁"}}


async def test_unknown_keys_of_the_body_are_ignored(service: Service) -> None:
    body = json.dumps({"query": "{ __typename }", "extensions": {"a": 1}, "id": 7})

    reply = await service.send("library", body, JSON)

    assert reply.data == {"__typename": "Query"}


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        "Application/JSON",
        "application/json ; charset=utf-8",
    ],
)
async def test_spellings_of_the_json_type_are_accepted(service: Service, content_type: str) -> None:
    """Drill H05."""
    reply = await service.send("library", '{"query": "{ __typename }"}', content_type)

    assert reply.status == 200


# --- bad requests ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "text/plain",
        "text/plain; charset=utf-8",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "application/json-patch+json",
        "application/json, text/plain",
        "text/plain, application/json",
        "application/xml",
        "*/*",
        "json",
        "application/graphql+json",
    ],
)
async def test_other_content_types_are_refused(service: Service, content_type: str | None) -> None:
    """Decision 23, drill H05: what a page of another origin can send without asking is refused."""
    reply = await service.send("library", '{"query": "{ __typename }"}', content_type)

    assert reply.status == 400
    assert reply.json["data"] is None
    assert reply.error["message"] == (
        "Content-Type must be either application/graphql or application/json"
    )


async def test_of_two_content_types_the_first_counts(service: Service) -> None:
    """Drill H05."""
    reply = await service.request(
        "POST",
        "/graphql/library",
        content='{"query": "{ __typename }"}',
        headers=[("content-type", "text/plain"), ("content-type", "application/json")],
    )

    assert reply.status == 400


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"{'query': 1}",
        b'{"query": "{ __typename }",}',
        b'\xef\xbb\xbf{"query": "{ __typename }"}',
        '{"query": "{ __typename }"}'.encode("utf-16"),
        b'{"query": "{ __typename \xff }"}',
        b'{"query": "{ __typename }", "variables": {"x": NaN}}',
        b'{"query": "{ __typename }", "variables": {"x": Infinity}}',
        b'{"query": "{ __typename }", "variables": {"x": "\\ud800"}}',
        b'{"query": "{ __typename }", "variables": {"x": ' + b"9" * 5000 + b"}}",
        b'{"query": "{ __typename }", "variables": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"query": "{ __typename }"} trailing',
    ],
)
async def test_malformed_json_is_400(service: Service, body: bytes) -> None:
    """Decision 23, drill D09."""
    reply = await service.send("library", body, JSON)

    assert reply.status == 400
    assert reply.json["data"] is None
    assert reply.error["extensions"]["classification"] == "ValidationError"


@pytest.mark.parametrize("body", ["[]", '[{"query": "{ __typename }"}]', '"text"', "7", "null"])
async def test_a_body_that_is_no_object_is_400(service: Service, body: str) -> None:
    """Decision 23, drill G12: there is no batching."""
    reply = await service.send("library", body, JSON)

    assert (reply.status, reply.code) == (400, "malformed-body")
    assert reply.error["message"] == "the body must be a JSON object"


@pytest.mark.parametrize("body", ["{}", '{"query": null}', '{"variables": {}}'])
async def test_a_missing_query_is_400(service: Service, body: str) -> None:
    """Decision 23."""
    reply = await service.send("library", body, JSON)

    assert (reply.status, reply.messages) == (400, ["Query cannot be null"])


NEITHER_TEXT_NOR_NULL: list[Any] = [1, True, [], {}]
NEITHER_OBJECT_NOR_NULL: list[Any] = [1, "{}", True, []]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("query", value) for value in NEITHER_TEXT_NOR_NULL),
        *(("operationName", value) for value in NEITHER_TEXT_NOR_NULL),
        *(("variables", value) for value in NEITHER_OBJECT_NOR_NULL),
        *(("extensions", value) for value in NEITHER_OBJECT_NOR_NULL),
    ],
)
async def test_a_value_of_the_wrong_type_is_400_and_named(
    service: Service, key: str, value: Any
) -> None:
    """Decision 23."""
    reply = await service.send("library", json.dumps({"query": "{ __typename }", key: value}), JSON)

    assert reply.status == 400
    assert f"'{key}' must be" in reply.error["message"]


@pytest.mark.parametrize(
    "body",
    [
        '{"query": "{ __typename }", "query": "{ books { title } }"}',
        '{"query": "{ __typename }", "\\u0071uery": "{ books { title } }"}',
        '{"query": "{ __typename }", "variables": {}, "variables": {"a": 1}}',
        '{"query": "{ __typename }", "operationName": null, "operationName": "A"}',
        '{"query": "{ __typename }", "extra": 1, "extra": 2}',
        '{"query": "{ __typename }", "variables": {"a": 1, "a": 2}}',
        '{"query": "{ __typename }", "variables": {"a": [{"b:": {"c" : ":", "c" : ""}}]}}',
        '{"query": "{ __typename }", "variables": {"a": 1, "\\u0061": 2}}',
        '{"query": "{ __typename }", "extensions": {"a": {"b": 1, "b": 1}}}',
    ],
)
async def test_the_same_key_twice_is_400(service: Service, body: str) -> None:
    """Decision 23."""
    reply = await service.send("library", body, JSON)

    assert reply.status == 400
    assert "twice" in reply.error["message"]


async def test_a_body_above_the_limit_is_413(service: Service) -> None:
    """Decision 23, drill H02."""
    body = json.dumps({"query": "{ __typename }", "x": "a" * (1 << 20)})

    reply = await service.send("library", body, JSON)

    assert (reply.status, reply.code) == (413, "body-too-large")
    assert reply.headers["content-type"] == MEDIA_TYPE
    assert reply.json["data"] is None


# --- errors of operations -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "classification", "message"),
    [
        ("{", "InvalidSyntax", "Syntax Error: Expected Name, found <EOF>."),
        ("", "InvalidSyntax", "Syntax Error: Unexpected <EOF>."),
        ("# nothing", "InvalidSyntax", "Syntax Error: Unexpected <EOF>."),
        ("{ nothing }", "ValidationError", "Cannot query field 'nothing' on type 'Query'."),
        (
            "{ books(pippo: 1) { title } }",
            "ValidationError",
            "Unknown argument 'pippo' on field 'Query.books'.",
        ),
        (
            "{ books }",
            "ValidationError",
            "Field 'books' of type '[Book]' must have a selection of subfields.",
        ),
        (
            "{ book { title } }",
            "ValidationError",
            "Argument 'Query.book(title:)' of type 'String!' is required, but it was not provided.",
        ),
        (
            "mutation { books { title } }",
            "OperationNotSupported",
            "Schema is not configured for mutations.",
        ),
        (
            "subscription { books { title } }",
            "OperationNotSupported",
            "Schema is not configured for subscriptions.",
        ),
        (
            "query A { __typename } query B { __typename }",
            "ValidationError",
            "Must provide operation name if query contains multiple operations.",
        ),
        ("fragment F on Book { title }", "ValidationError", "Must provide an operation."),
    ],
)
async def test_an_operation_that_cannot_be_run_is_400_with_data_null(
    service: Service, query: str, classification: str, message: str
) -> None:
    """Decision 22, drill G16."""
    reply = await service.query("library", query)

    assert (reply.status, reply.json["data"]) == (400, None)
    assert reply.headers["content-type"] == MEDIA_TYPE
    assert reply.errors[0]["message"] == message
    assert reply.errors[0]["extensions"]["classification"] == classification
    assert reply.errors[0]["extensions"]["code"]


async def test_an_unknown_operation_name_is_told(service: Service) -> None:
    """Decision 22, drill G16."""
    reply = await service.query("library", "query A { __typename }", operation="foo")

    assert (reply.status, reply.messages) == (400, ["Unknown operation named 'foo'."])


async def test_a_validation_error_has_its_locations(service: Service) -> None:
    """Decision 22."""
    reply = await service.query("library", "{\n  books { pippo }\n}")

    assert reply.error == {
        "message": "Cannot query field 'pippo' on type 'Book'.",
        "locations": [{"line": 2, "column": 11}],
        "extensions": {"classification": "ValidationError", "code": "invalid-query"},
    }


async def test_a_syntax_error_has_its_location(service: Service) -> None:
    """Decision 22."""
    reply = await service.query("library", "{ books { title }")

    assert reply.error["locations"] == [{"line": 1, "column": 18}]


async def test_suggestions_are_off(service: Service) -> None:
    """Decision 26, drill I02."""
    for query in ("{ bookz { title } }", "{ books { titel } }", "{ books(limitt: 1) { title } }"):
        reply = await service.query("library", query)
        assert "mean" not in reply.text


@pytest.mark.parametrize(
    ("variables", "part"),
    [
        ({}, "$t"),
        ({"t": None}, "$t"),
        ({"t": 5}, "$t"),
        ({"t": ["a"]}, "$t"),
        ({"t": {"$ne": 1}}, "$t"),
    ],
)
async def test_a_variable_that_does_not_fit_is_400_and_named(
    service: Service, variables: Any, part: str
) -> None:
    """Drills G13 and G17."""
    query = "query ($t: String!) { book(title: $t) { title } }"

    reply = await service.query("library", query, variables)

    assert (reply.status, reply.json["data"]) == (400, None)
    assert part in reply.error["message"]
    assert reply.error["extensions"]["classification"] == "ValidationError"


async def test_a_null_that_may_not_be_is_called_by_its_name_in_json(service: Service) -> None:
    """Decision 22: no names of Python."""
    query = "query ($t: String!) { book(title: $t) { title } }"

    reply = await service.query("library", query, {"t": None})

    assert reply.error["message"].endswith("not to be null.")


@pytest.mark.parametrize(
    ("query", "operation"),
    [
        ("{ " + "x" * 60_000 + " }", None),
        ("{ book(title: 5, " + "y" * 60_000 + ": 1) { title } }", None),
        ("{ __typename }", "z" * 60_000),
    ],
)
async def test_an_error_quotes_a_part_of_what_was_sent(
    service: Service, query: str, operation: str | None
) -> None:
    """Drill G08: a body of 8 KiB at most."""
    reply = await service.query("library", query, operation=operation)

    assert reply.status == 400
    assert len(reply.text) < 8_192


async def test_variables_that_are_not_declared_are_ignored(service: Service) -> None:
    """Drill G17."""
    reply = await service.query("library", "{ __typename }", {"other": 1})

    assert reply.data == {"__typename": "Query"}


# --- errors beside data ---------------------------------------------------------------------------


async def test_errors_beside_data_are_200(service: Service) -> None:
    """Decision 22, and `service.md` on 200."""
    reply = await service.query("library", "{ books(limit: 1) { title } echo { title } }")

    assert reply.status == 200
    assert reply.json["data"] == {"books": [{"title": "On Graphs"}], "echo": None}
    assert reply.error == {
        "message": "variable not bound: text",
        "locations": [{"line": 1, "column": 29}],
        "path": ["echo"],
        "extensions": {
            "classification": "DataFetchingException",
            "code": "variable-not-bound",
        },
    }


async def test_only_errors_are_400(service: Service) -> None:
    """Decision 22: a null that reached the root leaves nothing but errors."""
    reply = await service.query("library", '{ sure(title: "none") { title } }')

    assert (reply.status, reply.json["data"]) == (400, None)
    assert reply.error["path"] == ["sure"]
    assert reply.error["extensions"]["classification"] == "NullValueInNonNullableField"


async def test_null_goes_up_to_the_next_nullable_field(service: Service) -> None:
    reply = await service.query("library", "{ books(limit: 1) { title missing } }")

    assert reply.status == 200
    assert reply.json["data"] == {"books": [None]}
    assert reply.error["path"] == ["books", 0, "missing"]


async def test_errors_beyond_twenty_are_counted(service: Service) -> None:
    """`reliability.md` section 4: a response shows 20 errors and tells of the rest."""
    fields = " ".join(f"e{n}: echo {{ title }}" for n in range(1, 20))
    more = "books { missing }"
    reply = await service.query("library", f"{{ {fields} a: {more} }}")

    assert reply.status == 200
    assert len(reply.errors) == 21
    assert reply.errors[-1]["message"] == "1 more error is not shown"


# --- paths and methods ----------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/graphql", "/graphql/", "/graphql/none", "/graphql/library/x"])
async def test_an_app_that_is_not_there_is_404(service: Service, path: str) -> None:
    reply = await service.request("POST", path, json={"query": "{ __typename }"})

    assert reply.status == 404
    assert reply.headers["content-type"] == MEDIA_TYPE
    assert reply.json == {
        "data": None,
        "errors": [
            {
                "message": "GraphQL app not found",
                "extensions": {"classification": "ExecutionAborted", "code": "not-found"},
            }
        ],
    }


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "PROPFIND"])
@pytest.mark.parametrize("path", ["/graphql/library", "/graphql/none"])
async def test_other_methods_are_405_for_known_and_unknown_apps(
    service: Service, method: str, path: str
) -> None:
    """Decision 21: for a known caller 405 comes before 404. Drill H04."""
    reply = await service.request(method, path)

    assert (reply.status, reply.code) == (405, "method-not-allowed")
    assert reply.headers["allow"] == "POST, OPTIONS"
    assert reply.headers["content-type"] == MEDIA_TYPE


async def test_head_is_405_without_a_body(service: Service) -> None:
    """Decision 23."""
    reply = await service.request("HEAD", "/graphql/library")

    assert (reply.status, reply.response.content) == (405, b"")
    assert reply.headers["allow"] == "POST, OPTIONS"


@pytest.mark.parametrize("path", ["/graphql/library", "/graphql/none", "/graphql"])
async def test_options_is_200_for_known_and_unknown_apps(service: Service, path: str) -> None:
    """Decision 21."""
    reply = await service.request("OPTIONS", path)

    assert (reply.status, reply.response.content) == (200, b"")
    assert reply.headers["allow"] == "POST, OPTIONS"
    assert reply.headers["access-control-allow-methods"] == "POST, OPTIONS"
    assert "Authorization" in reply.headers["access-control-allow-headers"]


async def test_query_parameters_supply_nothing(service: Service) -> None:
    """`service.md`: the operation is in the body."""
    reply = await service.request(
        "POST", "/graphql/library?query={__typename}", content="{}", headers={"content-type": JSON}
    )

    assert reply.messages == ["Query cannot be null"]


async def test_validation_errors_beyond_twenty_are_mentioned(service: Service) -> None:
    unknown = " ".join(f"unknown{n}" for n in range(20))
    book = 'book(title: "On Graphs")'
    exact = await service.query("library", f"{{ {book} {{ {unknown} }} }}")
    beyond = await service.query("library", f"{{ {book} {{ {unknown} another }} }}")

    assert len(exact.errors) == 20
    assert len(beyond.errors) == 21
    assert beyond.errors[-1]["message"] == "more errors are not shown"
    assert beyond.errors[-1]["extensions"]["code"] == "more-errors"
