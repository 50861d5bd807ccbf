"""What a stamp ends (decision 32); how stamps are written and read is tested with the database."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from docgraph.auth.tokens.revocation import RevocationMarks, name_token, name_user, name_users


def make_stamps(*documents: dict[str, Any]) -> RevocationMarks:
    stamps = RevocationMarks()
    for document in documents:
        stamps.add(document)
    return stamps


def test_a_stamp_of_a_token_ends_that_one() -> None:
    stamps = make_stamps({"_id": name_token("a"), "until": datetime(2100, 1, 1)})
    assert stamps.end("a", "ada", 5.0)
    assert not stamps.end("b", "ada", 5.0)
    assert not stamps.end(None, "ada", 5.0)


def test_a_stamp_of_a_user_ends_what_is_older() -> None:
    stamps = make_stamps({"_id": name_user("ada"), "at": 100.5})
    assert stamps.end("a", "ada", 100.4)
    assert stamps.end(None, "ada", 100.5)
    assert not stamps.end("a", "ada", 100.6)
    assert not stamps.end("a", "bob", 1.0)


def test_a_token_that_does_not_tell_its_age_is_older_than_any_stamp() -> None:
    stamps = make_stamps({"_id": name_user("ada"), "at": 100.5})
    assert stamps.end("a", "ada", None)
    assert not stamps.end("a", "bob", None)


def test_a_stamp_for_everyone() -> None:
    stamps = make_stamps({"_id": "everyone", "at": 100})
    assert stamps.end("a", "anybody", 99.0)
    assert not stamps.end("a", "anybody", 101.0)


def test_an_older_stamp_does_not_take_the_place_of_a_younger_one() -> None:
    stamps = make_stamps({"_id": "user:ada", "at": 100.5}, {"_id": "user:ada", "at": 50.0})
    assert stamps.end("a", "ada", 100.0)
    assert stamps.find("ada") == 100.5
    assert stamps.find("bob") == 0


@pytest.mark.parametrize("name", ["a:b", "token:x", "everyone", ""])
def test_no_name_of_a_user_can_be_taken_for_something_else(name: str) -> None:
    stamps = make_stamps({"_id": name_user(name), "at": 100.5})
    assert stamps.end("x", name, 1.0)
    assert not stamps.end("x", "a", 1.0)


def test_the_stamp_of_a_long_id_stays_small() -> None:
    long = "x" * 100_000
    assert len(name_token(long)) < 80
    stamps = make_stamps({"_id": name_token(long), "until": datetime(2100, 1, 1)})
    assert stamps.end(long, "ada", 5.0)
    assert not stamps.end("x" * 99_999, "ada", 5.0)


def test_one_stamp_ends_the_tokens_of_many_each_by_its_own_time() -> None:
    stamps = make_stamps({"_id": name_users(), "users": ["ada", "bob:x"], "times": [100, 50.5]})
    assert stamps.end("a", "ada", 100.0)
    assert not stamps.end("a", "ada", 100.1)
    assert stamps.end("a", "bob:x", 50.5)
    assert not stamps.end("a", "bob:x", 51.0)
    assert not stamps.end("a", "bob", 1.0)


@pytest.mark.parametrize(
    "stamp",
    [
        {},
        {"_id": 5},
        {"_id": "user:a", "at": "x"},
        {"_id": "token:a"},
        {"_id": "users:x", "at": 5},
        {"_id": "users:x", "users": ["a"], "times": "5"},
        {"_id": "users:x", "users": ["a", 5], "times": ["5", 5]},
    ],
)
def test_a_document_of_another_shape_changes_nothing(stamp: dict[str, Any]) -> None:
    assert not make_stamps(stamp).end("a", "a", 1.0)


def test_stamps_that_no_token_can_outlive_are_forgotten() -> None:
    now = datetime.fromtimestamp(1000, UTC).replace(tzinfo=None)
    stamps = make_stamps(
        {"_id": "token:old", "until": now - timedelta(seconds=1)},
        {"_id": "token:new", "until": now + timedelta(seconds=1)},
    )
    stamps.forget(1000.0)
    assert len(stamps) == 1
    assert stamps.end("new", "ada", 1.0)
