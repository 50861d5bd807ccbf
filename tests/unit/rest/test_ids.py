"""Document ids in paths, and the URLs of responses."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from docgraph.codec.bson_types import (
    Binary,
    Code,
    DatetimeMS,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from docgraph.exchange import Connection, Headers, Request
from docgraph.exchange.errors import RequestError
from docgraph.exchange.request import encode_path
from docgraph.rest.ids import (
    IdType,
    build_location,
    check_id,
    document_path,
    next_page,
    parse_id,
    parse_id_type,
    render_id,
)

OID = "5f7f7f7f7f7f7f7f7f7f7f7f"


@pytest.mark.parametrize(
    ("segment", "id_type", "expected"),
    [
        (OID, "STRING_OID", ObjectId(OID)),
        ("abc", "STRING_OID", "abc"),
        (OID[:-1], "STRING_OID", OID[:-1]),
        (OID, "OID", ObjectId(OID)),
        (OID, "STRING", OID),
        ("1", "STRING", "1"),
        ("1", "NUMBER", 1),
        ("-7", "NUMBER", -7),
        ("2147483648", "NUMBER", Int64(2147483648)),
        ("1.5", "NUMBER", 1.5),
        ("1e3", "NUMBER", 1000.0),
        ("9" * 30, "NUMBER", 1e30),
        ("0", "DATE", datetime(1970, 1, 1)),
        ("-1000", "DATE", datetime(1969, 12, 31, 23, 59, 59)),
        ("2020-01-02T03:04:05Z", "DATE", datetime(2020, 1, 2, 3, 4, 5)),
        ("999999999999999", "DATE", DatetimeMS(999999999999999)),
        ("whatever", "MINKEY", MinKey()),
        ("whatever", "MAXKEY", MaxKey()),
        ("whatever", "NULL", None),
        ("_true", "BOOLEAN", True),
        ("_FALSE", "BOOLEAN", False),
        ("_null", "STRING_OID", None),
        ("_MinKey", "STRING", MinKey()),
        ("_maxkey", "OID", MaxKey()),
        ("_True", "NUMBER", True),
        ("20261310", "DATE", datetime(1970, 1, 1, 5, 37, 41, 310_000)),
        ("1.10", "DECIMAL", Decimal128("1.10")),
        ("17:2", "TIMESTAMP", Timestamp(17, 2)),
        ("//79AA==", "BINARY", b"\xff\xfe\xfd\x00"),
    ],
)
def test_a_segment_means_what_its_type_says(segment: str, id_type: str, expected: Any) -> None:
    id = parse_id(segment, IdType(id_type))

    assert (type(id), id) == (type(expected), expected)


@pytest.mark.parametrize(
    ("segment", "id_type"),
    [
        ("abc", "OID"),
        ("x", "NUMBER"),
        ("0x10", "NUMBER"),
        ("1_000", "NUMBER"),
        ("NaN", "NUMBER"),
        ("yesterday", "DATE"),
        ("20261110", "DATE"),
        ("1.1.1", "DECIMAL"),
        ("1." + "1" * 40, "DECIMAL"),
        ("1.2", "TIMESTAMP"),
        ("4294967296:0", "TIMESTAMP"),
        ("a", "BINARY"),
        ("true", "BOOLEAN"),
    ],
)
def test_a_segment_not_of_its_type_is_400(segment: str, id_type: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_id(segment, IdType(id_type))

    assert caught.value.message == f"wrong document id format: not a valid {id_type}"
    assert ("2026-11-10" in (caught.value.hint or "")) == (id_type == "DATE")


def test_the_type_is_named_in_any_case() -> None:
    assert parse_id_type("number") is IdType.NUMBER


def test_an_unknown_type_is_told_the_known_ones() -> None:
    with pytest.raises(RequestError) as caught:
        parse_id_type("guid")

    assert caught.value.message == (
        "illegal id_type parameter; must be "
        "[OID, STRING_OID, STRING, NUMBER, DATE, MINKEY, MAXKEY, NULL, BOOLEAN, "
        "UUID, UUID_LEGACY, DECIMAL, TIMESTAMP, BINARY]"
    )


@pytest.mark.parametrize(
    ("id", "expected"),
    [
        (ObjectId(OID), OID),
        ("abc", "abc"),
        ("a/b ?#", "a%2Fb%20%3F%23"),
        (OID, f"{OID}?id_type=STRING"),
        (1, "1?id_type=NUMBER"),
        (Int64(5), "5?id_type=NUMBER"),
        (1.5, "1.5?id_type=NUMBER"),
        (datetime(1970, 1, 1, 0, 0, 1), "1000?id_type=DATE"),
        (DatetimeMS(5), "5?id_type=DATE"),
        (True, "_true"),
        (False, "_false"),
        (None, "_null"),
        (MinKey(), "_MinKey"),
        (MaxKey(), "_MaxKey"),
        ({"a": 1}, None),
        (Binary(b"x", 5), None),
        (Decimal128("1.10"), "1.10?id_type=DECIMAL"),
        (Decimal128("1E+3"), "1E%2B3?id_type=DECIMAL"),
        (Timestamp(1_700_000_000, 2), "1700000000:2?id_type=TIMESTAMP"),
        (b"\xff\xfe\xfd\x00", "%2F%2F79AA%3D%3D?id_type=BINARY"),
        (b"", None),
        (datetime(1970, 1, 1, 5, 37, 41, 110_000), "1970-01-01T05:37:41.110Z?id_type=DATE"),
        (float("nan"), None),
        (Code("x"), None),
        ("", None),
        ("..", None),
        ("*", None),
        ("_size", None),
        ("_NULL", None),
    ],
)
def test_an_id_has_a_path_that_leads_back_to_it(id: Any, expected: str | None) -> None:
    assert render_id(id) == expected


@pytest.mark.parametrize("id", [1.5, 1e300, -0.5, 7, Int64(1 << 40), datetime(2020, 1, 2, 3)])
def test_the_path_of_a_number_or_date_reads_back(id: Any) -> None:
    rendered = render_id(id)
    assert rendered is not None
    segment, _, id_type = rendered.partition("?id_type=")

    assert parse_id(segment.replace("%2B", "+"), IdType(id_type)) == id


@pytest.mark.parametrize(
    ("id", "status", "message"),
    [
        ([1], 400, "the type of _id in request data is not supported: ARRAY"),
        (
            Regex("x"),
            400,
            "the type of _id in request data is not supported: REGULAR_EXPRESSION",
        ),
        ("_properties", 403, "reserved resource"),
        ("_properties.x", 403, "reserved resource"),
    ],
)
def test_ids_that_a_body_may_not_have(id: Any, status: int, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_id(id)

    assert (caught.value.status, caught.value.message) == (status, message)


def _request(path: bytes = b"/things", query: bytes = b"", host: str | None = "h:1") -> Request:
    headers = Headers.of(host=host) if host is not None else Headers()
    connection = Connection(server=("127.0.0.1", 80), scheme="https")
    return Request("GET", path, query_string=query, headers=headers, connection=connection)


def test_an_address_is_where_the_client_found_us() -> None:
    assert build_location(_request(), "/a", None) == "https://h:1/a"
    assert build_location(_request(host=None), "/a", None) == "https://127.0.0.1:80/a"


@pytest.mark.parametrize("base", ["https://api.example.org/x", "https://api.example.org/x/"])
def test_the_configured_address_wins(base: str) -> None:
    assert build_location(_request(), "/a", base) == "https://api.example.org/x/a"


def test_a_host_cannot_write_into_the_header() -> None:
    assert "\r" not in build_location(_request(host="h\r\nX: 1"), "/a", None)


def test_paths_are_encoded() -> None:
    assert encode_path(("a b", "c/d")) == "/a%20b/c%2Fd"
    assert document_path(("things",), 7) == "/things/7?id_type=NUMBER"
    assert document_path(("things",), {"a": 1}) is None


def test_the_next_page_changes_one_parameter() -> None:
    name, value = next_page(_request(query=b"page=2&pagesize=5&filter=%7Ba%3A1%7D"), after="T")

    assert name == "Link"
    assert value == '</things?filter=%7Ba%3A1%7D&pagesize=5&after=T>; rel="next"'
