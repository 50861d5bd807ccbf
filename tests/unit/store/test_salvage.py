"""Taking apart what the driver cannot read: everything else in it is what the driver reads."""

from __future__ import annotations

import datetime
from typing import Any

import bson
import pytest
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.codec_options import CodecOptions
from bson.errors import InvalidBSON
from hypothesis import given
from hypothesis import strategies as st

from docgraph.store.driver import portions
from docgraph.store.driver.lenient_decode import decode_reply, is_readable, salvage

OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(document_class=dict)
BAD_UUID = Binary(b"abc", 4)

EVERY_TYPE: dict[str, Any] = {
    "double": 1.5,
    "text": "ä",
    "object": {"a": {"b": 1}},
    "array": [1, [2, {"c": 3}]],
    "binary": b"xyz",
    "uuid": Binary(b"0123456789abcdef", 4),
    "old": Binary(b"xyz", 2),
    "id": ObjectId("0" * 24),
    "bool": True,
    "date": datetime.datetime(2024, 5, 1),
    "null": None,
    "regex": Regex("a", "i"),
    "code": Code("x"),
    "scoped": Code("x", {"a": 1}),
    "int": 1,
    "timestamp": Timestamp(1, 2),
    "long": Int64(5),
    "decimal": Decimal128("1.5"),
    "min": MinKey(),
    "max": MaxKey(),
}


def spoil(document: dict[str, Any], text: str = "????") -> bytes:
    """The document with bytes that are not UTF-8 in place of a text."""
    return bson.encode(document).replace(text.encode(), b"\xff\xfe\xfd\xfc")


def test_everything_beside_an_unreadable_value_is_read() -> None:
    document = {**EVERY_TYPE, "bad": BAD_UUID, "after": 1}
    data = bson.encode(document)
    with pytest.raises(InvalidBSON):
        bson.decode(data, OPTIONS)
    read, flaws = salvage(data, OPTIONS)
    expected = bson.decode(bson.encode(EVERY_TYPE), OPTIONS)
    assert read == {**expected, "bad": BAD_UUID, "after": 1}
    bad = read.pop("bad")
    assert isinstance(bad, Binary)
    assert not is_readable(bad)
    assert is_readable(read)
    assert {key: type(value) for key, value in read.items()} == {
        **{key: type(value) for key, value in expected.items()},
        "after": int,
    }
    assert flaws == [("bad",)]


@pytest.mark.parametrize(
    ("document", "read", "place"),
    [
        ({"a": {"b": [1, {"c": BAD_UUID}]}}, {"a": {"b": [1, {"c": BAD_UUID}]}}, "a.b.1.c"),
        ({"a": Binary(b"", 3)}, {"a": Binary(b"", 3)}, "a"),
        ({"a": "????", "b": 1}, {"a": b"\xff\xfe\xfd\xfc", "b": 1}, "a"),
        ({"a": ["x", "????"]}, {"a": ["x", b"\xff\xfe\xfd\xfc"]}, "a.1"),
        ({"a": Code("????")}, {"a": b"\xff\xfe\xfd\xfc"}, "a"),
        ({"????": 1, "b": 2}, {"\\xff\\xfe\\xfd\\xfc": 1, "b": 2}, "\\xff\\xfe\\xfd\\xfc"),
    ],
)
def test_an_unreadable_value_is_its_bytes(
    document: dict[str, Any], read: dict[str, Any], place: str
) -> None:
    found, flaws = salvage(spoil(document), OPTIONS)
    assert found == read
    assert [".".join(flaw) for flaw in flaws] == [place]


def test_a_regular_expression_that_is_no_text_is_its_bytes() -> None:
    found, flaws = salvage(spoil({"a": Regex("????", "i"), "b": 1}), OPTIONS)
    assert found == {"a": b"\xff\xfe\xfd\xfc\0i\0", "b": 1}
    assert flaws == [("a",)]


def test_answers_that_can_be_read_are_read_by_the_driver() -> None:
    reply = {"cursor": {"firstBatch": [EVERY_TYPE], "id": 0}, "ok": 1.0}
    data = bson.encode(reply)
    assert decode_reply(data, OPTIONS, "db", {"find": "c"}) == bson.decode(data, OPTIONS)


class Counted(dict[str, Any]):
    """A document that counts how many the driver has decoded."""

    decoded = 0

    def __init__(self) -> None:
        super().__init__()
        Counted.decoded += 1


COUNTING: CodecOptions[dict[str, Any]] = CodecOptions(document_class=Counted)
LEVELS, SMALL = 90, 40


def nest(levels: int, **fields: Any) -> dict[str, Any]:
    document = {**fields, "z": BAD_UUID}
    for _ in range(levels):
        document = {**fields, "c": document}
    return document


@pytest.mark.parametrize(
    ("document", "stored"),
    [
        (nest(LEVELS, a=[{}] * SMALL), LEVELS * SMALL),
        ({"a": nest(LEVELS), "b": [{}] * SMALL * LEVELS, "z": BAD_UUID}, LEVELS * SMALL),
        ({"a": [[[[[[{}] * SMALL * LEVELS, BAD_UUID]]]]]}, LEVELS * SMALL),
        ({"a": [{"b": [{}] * SMALL, "z": BAD_UUID}] * LEVELS}, LEVELS * SMALL),
        ({f"f{index}": {} for index in range(LEVELS * SMALL)} | {"z": BAD_UUID}, LEVELS * SMALL),
    ],
)
def test_documents_of_many_levels_are_not_decoded_again_at_each(
    document: dict[str, Any], stored: int
) -> None:
    Counted.decoded = 0
    found, flaws = salvage(bson.encode(document), COUNTING)
    assert found == document
    assert flaws
    assert stored <= Counted.decoded <= 3 * stored


VALUES = st.recursive(
    st.none() | st.integers(0, 9) | st.just(BAD_UUID) | st.text("ab?", max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("ab?", max_size=4), inner, max_size=4)
    ),
    max_leaves=25,
)


def expect(value: Any) -> Any:
    """The value as it is read after `spoil`."""
    if isinstance(value, dict):
        return {
            name.replace("????", "\\xff\\xfe\\xfd\\xfc"): expect(one) for name, one in value.items()
        }
    if isinstance(value, list):
        return [expect(one) for one in value]
    if isinstance(value, str) and "????" in value:
        return spoil_text(value)
    return value


def spoil_text(text: str) -> bytes:
    return text.encode().replace(b"????", b"\xff\xfe\xfd\xfc")


def count(value: Any) -> int:
    """The number of flaws in the value."""
    if isinstance(value, dict):
        return sum("????" in name for name in value) + sum(map(count, value.values()))
    if isinstance(value, list):
        return sum(map(count, value))
    return value is BAD_UUID or (isinstance(value, str) and "????" in value)


@given(st.dictionaries(st.text("ab?", max_size=4), VALUES, max_size=6))
def test_every_flaw_is_found_wherever_it_is(document: dict[str, Any]) -> None:
    found, flaws = salvage(spoil(document), OPTIONS)
    assert found == expect(document)
    assert len(flaws) == count(document)
    assert is_readable(found) is (not flaws)


def test_flaws_are_in_the_order_of_the_document() -> None:
    document = {"a": BAD_UUID, "????": 1, "b": {"????": BAD_UUID, "c": "????"}, "d": BAD_UUID}
    raw = "\\xff\\xfe\\xfd\\xfc"

    _, flaws = salvage(spoil(document), OPTIONS)

    assert flaws == [("a",), (raw,), ("b", raw), ("b", raw), ("b", "c"), ("d",)]


def test_paths_of_many_flaws_are_short() -> None:
    """A million of paths of 90 names each would need a gigabyte."""
    document: Any = [BAD_UUID] * 5000
    for _ in range(9):
        document = {"a": document}
    found, flaws = salvage(bson.encode({"a": document}), OPTIONS)
    assert found == {"a": document}
    assert len(flaws) == 5000
    assert sum(map(len, flaws)) < 5000 * 11 / 2


def test_lengths_that_contradict_each_other_are_rejected() -> None:
    data = bytearray(bson.encode({"a": {"b": "x"}, "z": BAD_UUID}))
    data[data.index(b"a\0") + 2] += 1
    with pytest.raises(InvalidBSON):
        salvage(bytes(data), OPTIONS)


CURSOR = {"firstBatch": [EVERY_TYPE, {"_id": 2}], "id": Int64(0), "ns": "db.c"}
TIMES = {"$clusterTime": {"clusterTime": Timestamp(1, 2)}, "operationTime": Timestamp(1, 2)}


@pytest.mark.parametrize("times", [{}, TIMES])
@pytest.mark.parametrize(
    "reply",
    [
        {"cursor": CURSOR, "ok": 1.0},
        {"cursor": CURSOR, "ok": 1},
        {"cursor": CURSOR, "ok": 0.0, "code": 1},
        {"cursor": CURSOR, "x": 1, "ok": 1.0},
        {"ok": 0.0, "errmsg": "x"},
        {"cursor": 1, "ok": 1.0},
        {"cursor": {}, "ok": 1.0},
    ],
)
def test_a_response_is_read_with_or_without_times(
    reply: dict[str, Any], times: dict[str, Any]
) -> None:
    data = bson.encode({**reply, **times})
    for payload in (data, memoryview(bytearray(data))):
        read = decode_reply(payload, OPTIONS, "db", {"find": "c"})
        expected = bson.decode(data, OPTIONS)
        assert {name: one for name, one in read.items() if name not in TIMES} == {
            name: one for name, one in expected.items() if name not in TIMES
        }


def test_a_response_of_another_length_is_rejected() -> None:
    data = bson.encode({"cursor": {"firstBatch": [], "id": 0, "ns": "db.c"}, "ok": 1.0})
    short = bson.encode({"cursor": {}})[:-2]
    for damaged in (data[:-1], data + b"\0", data[:-1] + b"\1", data[:16], short, b"\0" * 20):
        with pytest.raises(InvalidBSON):
            decode_reply(damaged, OPTIONS, "db", {"find": "c"})
    for place in (0, 12):  # lengths that contradict each other
        for length in (0, 2, 200, 2**31 - 1, 2**32 - 1, 2**32 - 12):
            damaged = data[:place] + length.to_bytes(4, "little") + data[place + 4 :]
            with pytest.raises(InvalidBSON):
                decode_reply(damaged, OPTIONS, "db", {"find": "c"})


@pytest.mark.parametrize("lane", ["native", "Python"])
@pytest.mark.parametrize("is_double", [True, False])
@pytest.mark.parametrize(
    "behind",
    [b"\x20a\0", b"\2a\0\xff\xff\xff\x7fx\0", b"\0\0\0", b"\x0a", b"\x03a\0\1\0\0\0"],
    ids=["an unknown type", "a large length", "an early end", "no name", "a short object"],
)
def test_a_response_that_is_malformed_behind_ok_is_rejected_in_both_lanes(
    behind: bytes, is_double: bool, lane: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lane == "Python":
        monkeypatch.setattr(portions, "find_native", lambda: None)
    body = bson.encode({"cursor": CURSOR, "ok": 1.0 if is_double else 1, **TIMES})[4:-1] + behind
    data = (len(body) + 5).to_bytes(4, "little") + body + b"\0"
    rest, _ = portions.split_batch(memoryview(data))
    with pytest.raises(InvalidBSON):
        decode_reply(rest, OPTIONS, "db", {"find": "c"})


@pytest.mark.parametrize("lane", ["native", "Python"])
def test_what_replaces_a_part_of_a_response_is_read_in_both_lanes(
    lane: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lane == "Python":
        monkeypatch.setattr(portions, "find_native", lambda: None)
    failed = bson.encode({"ok": 0.0, "errmsg": "x"})[4:-1]
    body = bson.encode({"cursor": CURSOR, "ok": 1.0})[4:-1] + failed
    data = (len(body) + 5).to_bytes(4, "little") + body + b"\0"
    rest, _ = portions.split_batch(memoryview(data))
    assert not decode_reply(rest, OPTIONS, "db", {"find": "c"})["ok"]
