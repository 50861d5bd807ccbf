"""Canaries are found in whatever form they come, and nothing else is taken for one."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from datetime import UTC, datetime
from random import Random
from typing import Any
from urllib.parse import quote

import pytest

from docgraph.codec import JsonMode, encode
from docgraph_workbench.fuzz.fuzz_values import POOL, Canary, Finder, make_canary, pool_value

KINDS = ("string", "int", "long", "double", "date", "objectId", "decimal", "timestamp", "binary")


def plant(value: Any) -> Finder:
    finder = Finder()
    finder.add(Canary(value, "db.things", "secret", "a rule"))
    return finder


@pytest.mark.parametrize("kind", [*KINDS, "uuid", "object"])
@pytest.mark.parametrize("mode", [JsonMode.STANDARD, JsonMode.STRICT, JsonMode.GRAPHQL_PLAIN])
def test_a_canary_of_any_kind_is_found_in_any_form_of_json(kind: str, mode: JsonMode) -> None:
    value = make_canary(kind, Random(1), 0)
    assert plant(value).find(encode({"a": [value]}, mode))
    assert not plant(make_canary(kind, Random(2), 0)).find(encode({"a": [value]}, mode))


@pytest.mark.parametrize("before", ["", "x", "xy", "xyz"])
def test_texts_are_found_in_encodings(before: str) -> None:
    secret = make_canary("string", Random(1), 0)
    text = f"{before}{secret} and more"
    for coded in (
        text.upper(),
        quote(text),
        json.dumps(text),
        b64encode(text.encode()).decode(),
        urlsafe_b64encode(text.encode()).decode().rstrip("="),
        text.encode().hex(),
    ):
        assert plant(secret).find(f"<{coded}>".encode()), coded


def test_a_date_is_found_as_text_and_as_a_number() -> None:
    date = make_canary("date", Random(1), 1)
    assert isinstance(date, datetime)
    number = int(date.replace(tzinfo=UTC).timestamp() * 1000)
    for text in (f"{date.isoformat()}.000Z", str(number)):
        assert plant(date).find(text.encode())


def test_what_the_caller_has_said_is_no_leak() -> None:
    secret = make_canary("string", Random(1), 0)
    answer = f"no such name: {secret}".encode()
    assert not plant(secret).find(answer, besides=f'{{"name": "{secret}"}}')
    assert plant(secret).find(answer, besides="something else")


def test_truth_values_are_not_looked_for() -> None:
    assert not plant(make_canary("bool", Random(1), 0)).find(b'{"a": true, "b": false}')


@pytest.mark.parametrize("kind", KINDS)
def test_the_worlds_lie_on_two_sides_and_ordinary_values_are_no_canaries(kind: str) -> None:
    random = Random(1)
    left, right = ([make_canary(kind, random, world) for _ in range(20)] for world in (0, 1))
    if kind in ("string", "int", "long", "double", "date"):
        assert max(left) < min(right)
    ordinary = [pool_value(kind, number) for number in range(POOL)]
    assert not any(one in ordinary for one in (*left, *right))
