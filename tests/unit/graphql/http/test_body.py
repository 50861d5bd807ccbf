"""The body of a request: read strictly, in bounded work, without loss."""

from __future__ import annotations

import json
from typing import Any

import pytest

from docgraph.exchange.errors import BodyError
from docgraph.graphql.http import body as module
from docgraph.graphql.http.body import GraphqlRequest, parse_body


def read(body: bytes) -> GraphqlRequest:
    request = parse_body(body, "application/json")
    assert isinstance(request, GraphqlRequest)
    return request


def parse(variables: Any) -> GraphqlRequest:
    return read(json.dumps({"query": "{ a }", "variables": variables}).encode())


def nest(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "variables",
    [
        nest(64),
        {"l": [1] * 1_000},
        {"t": "x" * 500_000},
        {"a": [[1] * 900] * 20},
        {f"v{n}": n for n in range(20_000)},
    ],
)
def test_variables_within_the_bounds_are_read(variables: Any) -> None:
    assert parse(variables).variables == variables


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (nest(65), "'variables' is nested deeper than 64 levels"),
        ({"l": [1] * 1_001}, "a list in 'variables' has more than 1000 elements"),
        ({"a": [[1] * 900] * 23}, "'variables' has more than 20000 values"),
        ({"a": {f"v{n}": n for n in range(20_001)}}, "'variables' has more than 20000 values"),
        ({"a": [{"b": [{"c": 1}] * 100}] * 200}, "'variables' has more than 20000 values"),
        ({"a": "{" + " " * 16_384 + "}"}, "more than 16384 characters of documents as text"),
        ({"a": ["{" + "a:1," * 10 + "}"] * 900}, "more than 16384 characters of documents as text"),
    ],
)
def test_variables_beyond_the_bounds_are_refused(variables: Any, message: str) -> None:
    """Drill G17: coercing them would hold the event loop."""
    with pytest.raises(BodyError, match=message):
        parse(variables)


def test_a_key_that_stands_twice_among_very_many_is_found_without_comparing_all() -> None:
    """Decision 23; a hundred thousand keys compared with each other would take minutes."""
    keys = ",".join(f'"k{n}":0' for n in range(100_000))
    body = f'{{"query": "{{ a }}", "extensions": {{{keys},"k99999":1}}, "x": 0}}'.encode()

    with pytest.raises(BodyError, match="'k99999' appears twice"):
        parse_body(body, "application/json")


@pytest.mark.parametrize(
    "variables",
    ['{"a": ":", ":": {":a:": ["::", {"b": ""}]}}', '{"a" :\n{"a":{"a": "\\":"}}}', "{}"],
)
def test_colons_in_texts_are_not_taken_for_keys(
    variables: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bodies without a key that appears twice are read by the fast parser alone."""
    monkeypatch.setattr(module, "parse_exactly", lambda _: pytest.fail("read a second time"))
    body = f'{{"query": "{{ a: b c: d }}", "variables": {variables}}}'

    assert read(body.encode()).variables == json.loads(variables)


def test_numbers_keep_their_digits() -> None:
    """Decision 16."""
    body = b'{"query": "{ a }", "variables": {"d": 1.10, "n": 9007199254740993}}'

    variables = read(body).variables

    assert variables["d"].text == "1.10"
    assert variables["n"] == 9007199254740993


def test_a_request_without_variables_is_read_once_and_one_with_variables_each_time() -> None:
    plain, varied = (
        [read(body) for _ in range(2)]
        for body in (b'{"query": "{ once }"}', b'{"query": "{ a }", "variables": {"a": {}}}')
    )

    assert plain[0] is plain[1]
    assert varied[0] is not varied[1]
    assert varied[0].variables["a"] is not varied[1].variables["a"]
