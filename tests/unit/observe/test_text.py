"""Text of strangers, made fit for a log."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymongo.errors import AutoReconnect, OperationFailure

from docgraph.exchange.errors import NotFound
from docgraph.observe.text import (
    LIMIT,
    MAX_FRAMES,
    clean_text,
    render_cause,
    render_error,
    render_traceback,
)


@pytest.mark.parametrize("text", ["/graphql/blog", "GET", "127.0.0.1", "größe/ß", "", "a b: c"])
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert clean_text(text) == text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\r\nb", "a\\r\\nb"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\u2028b\x85c", "a\\u2028b\\x85c"),
        ("abc\u202etxt.exe", "abc\\u202etxt.exe"),
        ("nul\x00", "nul\\x00"),
        ("\udc80", "\\udc80"),
        ("\x9b31m", "\\x9b31m"),
    ],
)
def test_control_characters_are_escaped(text: str, cleaned: str) -> None:
    assert clean_text(text) == cleaned


@pytest.mark.parametrize("text", ["a" * 1_000_000, "ä" * 5000, "\x1b" * 5000, "😀" * 900])
def test_a_field_is_cut_to_one_kibibyte(text: str) -> None:
    cleaned = clean_text(text)

    assert len(cleaned.encode()) <= LIMIT
    assert cleaned.endswith("…")


@given(st.text(alphabet=st.characters(), max_size=3000))
def test_whatever_comes_in_one_bounded_printable_line_comes_out(text: str) -> None:
    cleaned = clean_text(text)

    assert cleaned.isprintable()
    assert len(cleaned.encode()) <= LIMIT
    assert "\n" not in json.dumps(cleaned)


@pytest.mark.parametrize(
    "text",
    [
        "cannot reach mongodb://admin:s3cr3t@db.example:27017/x",
        "mongodb+srv://u:s3cr3t@a@b/",
        "mongodb://u:s3cr3t/with/slash@host",
        "https://user:s3cr3t@host/path",
        "Authorization: Basic s3cr3t==",
        "authorization=Bearer s3cr3t",
        "sent Bearer s3cr3t.and.more",
        "Cookie: dg_auth=s3cr3t; other=s3cr3t",
        "{'password': 's3cr3t with blanks', 'x': 1}",
        '{"password": "s3cr3t"}',
        "password=s3cr3t&x=1",
        "client_secret: s3cr3t",
        "api-key=s3cr3t",
        "access_token=s3cr3t",
        "/path/eyJhbGciOiJIUzI1NiJ9.s3cr3t.s3cr3t",
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str) -> None:
    cleaned = clean_text(text)

    assert "s3cr3t" not in cleaned
    assert "***" in cleaned


def test_the_rest_of_a_masked_text_stays_readable() -> None:
    cleaned = clean_text("cannot reach mongodb://admin:s3cr3t@db.example:27017/x")

    assert cleaned == "cannot reach mongodb://***@db.example:27017/x"


def _fail(depth: int) -> None:
    if depth == 0:
        raise ValueError("at the bottom")
    _fail(depth - 1)


def _catch(depth: int) -> Exception:
    try:
        _fail(depth)
    except ValueError as error:
        return error
    raise AssertionError


def test_an_error_is_named_with_its_text() -> None:
    assert render_error(ValueError("bad\nnews")) == "ValueError: bad\\nnews"
    assert render_error(KeyError()) == "KeyError"
    assert render_error(NotFound("no")) == "docgraph.exchange.errors.NotFound: no"


def test_what_the_database_says_is_said_once() -> None:
    reply = {"ok": 0.0, "errmsg": "not authorized on shop", "code": 13, "codeName": "Unauthorized"}

    assert render_cause(OperationFailure("not authorized on shop", 13, reply)) == (
        "not authorized on shop (Unauthorized)"
    )
    assert render_cause(AutoReconnect("db:1: connection closed")) == "db:1: connection closed"


def test_the_innermost_frame_is_last() -> None:
    lines = render_traceback(_catch(2))

    assert lines[-1].endswith("in _fail")
    assert "test_text.py" in lines[-1]


def test_a_deep_traceback_keeps_its_innermost_frames() -> None:
    lines = render_traceback(_catch(100))

    assert len(lines) == MAX_FRAMES + 1
    assert "outer frames left out" in lines[0]


def test_causes_follow() -> None:
    try:
        try:
            _fail(0)
        except ValueError as cause:
            raise RuntimeError("outer") from cause
    except RuntimeError as error:
        lines = render_traceback(error)

    assert "caused by ValueError: at the bottom" in lines


def test_an_expected_error_has_no_traceback() -> None:
    assert render_traceback(NotFound("no")) == []
