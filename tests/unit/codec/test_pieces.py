"""JSON that is counted before it is decoded, and decoded piece by piece."""

from __future__ import annotations

import json
import threading
import tracemalloc
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docgraph.codec import decode, pieces
from docgraph.codec.pieces import (
    Irregular,
    check_size,
    check_values,
    count_keys,
    load,
    walk_levels,
)
from docgraph.exchange.errors import BodyError, BodyTooLarge

TEXTS = st.text('ab,:[]{}"\\é\n ', max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=40,
)


@pytest.fixture(autouse=True)
def small_pieces() -> Iterator[None]:
    """Short windows, so that short texts are cut, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "_WINDOW", 16)
        patch.setattr(pieces, "_AT_ONCE", 0)
        yield


def count(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, inner))


@given(JSON, st.booleans(), st.sampled_from([None, 1]))
def test_a_text_that_is_cut_is_read_as_a_whole_one_is(
    value: Any, ascii_only: bool, indent: int | None
) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()

    assert load(raw) == value
    check_values(raw, count(value))
    if count(value) > 1:
        with pytest.raises(BodyTooLarge):
            check_values(raw, count(value) - 1)


@given(JSON, st.integers(0, 400), st.sampled_from(list(',[]{}":1\\ ')))
def test_a_text_that_orjson_refuses_is_refused(value: Any, position: int, added: str) -> None:
    text = json.dumps(value)
    raw = (text[:position] + added + text[position:]).encode()
    try:
        expected = orjson.loads(raw)
    except orjson.JSONDecodeError:
        with pytest.raises((orjson.JSONDecodeError, Irregular)):
            load(raw)
        return
    try:
        found = load(raw)
    except Irregular:
        return
    assert found == expected


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":[1,2,3,4,5,6,7,8,9],"b":1,"a":[1,2,3,4,5,6,7,8,9]}',
        b'{"b":1,"a":{"x":1,"y":2,"z":3},"b":{"x":1,"y":2,"z":3,"v":[4,5,6,7,8]}}',
    ],
)
def test_a_key_that_stands_twice_is_noticed_wherever_the_text_is_cut(raw: bytes) -> None:
    with pytest.raises(BodyError, match="appears twice"):
        decode(raw)


def test_keys_are_counted_and_colons_in_strings_are_not() -> None:
    raw = b'{"a:b":":","c":[{"d\\"":1},":,:"],"e":"\\\\"}'

    assert count_keys(raw) == 4


def test_the_place_of_a_mistake_is_that_in_the_whole_text() -> None:
    raw = b"[" + b"1,\n" * 50 + b"x]"

    with pytest.raises(orjson.JSONDecodeError) as caught:
        load(raw)

    assert (caught.value.lineno, caught.value.colno) == (51, 1)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(BodyError, match="nested deeper than 254 levels"):
        load(b"[1," * 300 + b"1" + b"]" * 300)
    with pytest.raises(BodyError, match="nested deeper than 100 levels"):
        decode(b"[1," * 300 + b"1" + b"]" * 300)
    with pytest.raises(BodyError, match="nested deeper than 254 levels"):
        decode(b"[1," * 400_000)


def test_the_levels_of_a_value_are_listed_from_the_outside_in() -> None:
    value = {"a": [1, {"b": []}], "c": "d"}
    levels = [[value], [[1, {"b": []}], "d"], [1, {"b": []}], [[]]]

    assert [list(level) for level in walk_levels(value, "the body", 4)] == levels
    with pytest.raises(BodyError, match="nested deeper than 2 levels"):
        list(walk_levels(value, "the body", 2))


@pytest.mark.parametrize("size", [200_000])
@pytest.mark.parametrize(
    "unit", [b'{"a":', b'{"":', b'[{"a":', b'{"a":[', b"[", b"[]", b"[[]]", b'[]"ab":', b'"\\"":[]']
)
def test_a_text_without_commas_is_refused_in_little_memory(
    monkeypatch: pytest.MonkeyPatch, unit: bytes, size: int
) -> None:
    monkeypatch.setattr(pieces, "_WINDOW", 64 * 1024)
    monkeypatch.setattr(pieces, "MAX_VALUES", size - 1)
    raw = unit * size
    tracemalloc.start()
    try:
        with pytest.raises((BodyError, BodyTooLarge)):
            load(raw)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 4 << 20


@pytest.mark.parametrize("padding", range(40))
@pytest.mark.parametrize("inner", [b"[ ]", b'"\\\\\\""', b'{"a": { }}', b'["a]", {}]'])
def test_values_are_counted_wherever_a_window_ends(padding: int, inner: bytes) -> None:
    raw = b"[" + b" " * padding + inner + b", 1]"
    values = count(orjson.loads(raw))

    check_values(raw, values)
    with pytest.raises(BodyTooLarge):
        check_values(raw, values - 1)


@pytest.mark.parametrize(
    ("unit", "size"), [(b"[]", 1_000_000), (b'{"a":0}', 500_000), (b'","', 1_000_000)]
)
def test_a_body_has_a_million_values_at_most(
    monkeypatch: pytest.MonkeyPatch, unit: bytes, size: int
) -> None:
    monkeypatch.setattr(pieces, "_WINDOW", 64 * 1024)
    most = b"[" + b",".join([unit] * (size - 1)) + b"]"

    check_values(most)
    with pytest.raises(BodyTooLarge, match="more than 1000000 values") as caught:
        check_values(b"[" + most[1:-1] + b"," + b",".join([unit] * 2) + b"]")
    assert caught.value.status == 413


def test_the_interpreter_is_free_between_two_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread gets its turn while a long text is decoded: no piece is long."""
    lengths: list[int] = []
    real = orjson.loads

    def watch(raw: bytes) -> Any:
        lengths.append(len(raw))
        return real(raw)

    monkeypatch.setattr(pieces, "_WINDOW", 64 * 1024)
    monkeypatch.setattr(pieces, "_AT_ONCE", 50_000)
    monkeypatch.setattr("docgraph.runtime.allocations.loads", watch)
    thread = threading.Thread(target=load, args=(b'{"a":[' + b"[]," * 200_000 + b"1]}",))
    thread.start()
    thread.join()

    assert len(lengths) > 5
    assert max(lengths) < 65 * 1024


def test_a_decoded_value_is_counted_too() -> None:
    check_size({"a": [1, (2, 3)], "b": {}}, "the thing", 7)
    with pytest.raises(BodyTooLarge, match="the thing has more than 6 values"):
        check_size({"a": [1, (2, 3)], "b": {}}, "the thing", 6)
