"""What is hidden cannot be asked for."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from docgraph.access.hidden import check_copies, is_shown, uses_hidden
from docgraph.exchange import Write, WriteKind
from docgraph.exchange.errors import SecurityViolation
from tests.unit.access.harness import make_exchange

HIDES = {"salary": 0, "home.street": 0}
KEEPS = {"name": 1, "home.city": 1}


@pytest.mark.parametrize(
    ("path", "hides", "keeps"),
    [
        ("name", True, True),
        ("name.first", True, True),
        ("salary", False, False),
        ("salary.0.amount", False, False),
        ("home", False, False),
        ("home.city", True, True),
        ("home.0.city", True, True),
        ("home.street", False, False),
        ("_id", True, True),
        ("other", True, False),
        ("$where", False, False),
        ("$expr", False, False),
        ("$text", False, False),
    ],
)
def test_paths_that_are_shown(path: str, hides: bool, keeps: bool) -> None:
    assert is_shown(path, HIDES) is hides
    assert is_shown(path, KEEPS) is keeps


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"filter": '{"name": "x"}'}, False),
        ({"filter": '{"salary": {"$gt": 5}}'}, True),
        ({"filter": '{"$or": [{"name": 1}, {"$and": [{"salary.x": 1}]}]}'}, True),
        ({"filter": '{"$expr": {"$gt": ["$salary", 5]}}'}, True),
        ({"filter": '{"$nor": [{"home": {"street": "x"}}]}'}, True),
        ({"filter": "{oops"}, False),
        ({"sort": "name,-salary"}, True),
        ({"sort": '{"salary": 1}'}, True),
        ({"sort_by": "salary"}, True),
        ({"sort": '[{"name": 1}, {"salary": -1}]'}, True),
        ({"sort": "-name"}, False),
        ({"hint": '{"salary": 1}'}, True),
        ({"shardkey": '{"salary": 1}'}, True),
        ({"keys": '{"x": "$salary"}'}, True),
        ({"keys": '{"name": 1, "salary": 1}'}, False),
        ({"keys": '{"x": {"$toString": "$salary"}}'}, True),
        ({"page": "2"}, False),
    ],
)
def test_parameters_that_use_what_is_hidden(parameters: Any, expected: bool) -> None:
    exchange = make_exchange("GET", f"/a?{urlencode(parameters)}")
    assert uses_hidden(exchange.request, HIDES) is expected


@pytest.mark.parametrize(
    "write",
    [
        Write(WriteKind.UPDATE, pipeline=({"$set": {"name": "$salary"}},)),
        Write(WriteKind.UPDATE, update={"$rename": {"salary": "name"}}),
        Write(WriteKind.UPDATE, update={"$rename": {"home": "name"}}),
    ],
)
def test_writes_that_could_copy_it(write: Write) -> None:
    with pytest.raises(SecurityViolation):
        check_copies(write, HIDES)


def test_other_writes_are_left_alone() -> None:
    check_copies(Write(WriteKind.UPDATE, update={"$rename": {"name": "nick"}}), HIDES)
    check_copies(Write(WriteKind.UPDATE, update={"$set": {"salary": 1}}), HIDES)
    check_copies(Write(WriteKind.DELETE), HIDES)
