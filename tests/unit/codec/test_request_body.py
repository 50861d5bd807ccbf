"""Forms as documents, and forms that a page of another origin could have sent."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from docgraph.codec.request_body import MAX_FORM, parse_form, reject_forgery
from docgraph.exchange.errors import BodyError, BodyTooLarge, UnsupportedMediaType
from docgraph.exchange.headers import Headers
from docgraph.exchange.origin import OriginPolicy
from docgraph.exchange.request import Connection, Request

URL_ENCODED = "application/x-www-form-urlencoded"
MULTIPART = 'multipart/form-data; boundary="XX"'
CODED = "\r\nContent-Transfer-Encoding: base64\r\n\r\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"name=Ada&age=36", {"name": "Ada", "age": 36}),
        (b"name=Ada+Lovelace", {"name": "Ada Lovelace"}),
        (b"a=&b=%20", {"a": "", "b": " "}),
        (b"tags=%5B1%2C2%5D", {"tags": [1, 2]}),
        (b'born={"$date":0}', {"born": datetime(1970, 1, 1)}),
        (b"a=1&a=2", {"a": 1}),
        (b'$inc={"n":1}', {"$inc": {"n": 1}}),
        (b"a=true&b=null", {"a": True, "b": None}),
    ],
)
def test_a_field_is_a_property_and_its_value_json_where_it_can_be(
    body: bytes, expected: dict[str, Any]
) -> None:
    assert parse_form(body, URL_ENCODED) == expected


def _part(name: str, value: str, extra: str = "") -> str:
    return f'--XX\r\nContent-Disposition: form-data; name="{name}"{extra}\r\n\r\n{value}\r\n'


def test_multipart_fields_are_properties_too() -> None:
    body = _part("name", "Ada") + _part("n", "5") + _part("é", "ü") + "--XX--\r\n"

    assert parse_form(body.encode(), MULTIPART) == {"name": "Ada", "n": 5, "é": "ü"}


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"a={", URL_ENCODED),
        (b"a=[1", URL_ENCODED),
        (b"a=%ff", URL_ENCODED),
        (b"\xff", URL_ENCODED),
        (b"&".join(b"a=1" for _ in range(1001)), URL_ENCODED),
        (b"nothing", MULTIPART),
        (b"", "multipart/form-data"),
        ((_part("f", "x", '; filename="f.txt"') + "--XX--").encode(), MULTIPART),
        (b"--XX\r\n\r\nx\r\n--XX--", MULTIPART),
        (_part("a", "{").encode() + b"--XX--", MULTIPART),
        ("".join(_part(f"a{n}", "1") for n in range(1001)).encode() + b"--XX--", MULTIPART),
        (_part("n" * 1025, "1").encode() + b"--XX--", MULTIPART),
        (b"n" * 1025 + b"=1", URL_ENCODED),
        (b"--XX\r\nX: " + b"x" * 5000 + b"\r\n\r\n\r\n--XX--", MULTIPART),
        (_part("a", "1").replace("\r\n\r\n", "\r\nX: y" * 9 + "\r\n\r\n").encode(), MULTIPART),
        (_part("a", "1").encode() + b"--XX", MULTIPART),
        (b"--XX--\r\n", MULTIPART),
        (_part("a", "MQ==").replace("\r\n\r\n", CODED).encode() + b"--XX--", MULTIPART),
        (_part("a", "1").encode() + b"--XX--", "multipart/form-data; boundary=" + "X" * 5000),
    ],
)
def test_a_form_that_cannot_be_read_is_400(body: bytes, content_type: str) -> None:
    with pytest.raises(BodyError):
        parse_form(body, content_type)


@pytest.mark.parametrize("content_type", [URL_ENCODED, MULTIPART])
def test_a_form_has_a_largest_size(content_type: str) -> None:
    value = "x" * (MAX_FORM - 1000)
    fits, beyond = (
        ("a=" + one if content_type == URL_ENCODED else _part("a", one) + "--XX--").encode()
        for one in (value, value + "x" * 1000)
    )

    assert parse_form(fits, content_type) == {"a": value}
    with pytest.raises(BodyTooLarge):
        parse_form(beyond, content_type)


def test_what_looks_like_a_boundary_is_content() -> None:
    value = "\r\n--X\r\n-\r\n--XY\r" * 1000
    body = _part("a", value) + _part("b", "2") + "--XX--\r\nwhat follows does not count"

    assert parse_form(body.encode(), MULTIPART) == {"a": value, "b": 2}


def make_request(**headers: str) -> Request:
    return Request("POST", b"/things", headers=Headers.of(host="api.example.org", **headers))


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example.org"},
        {"origin": "https://evil.example.org", "authorization": "Basic YTpi"},
        {"origin": "https://api.example.org@evil.example.org"},
        {"origin": "https://api.example.org:8443"},
        {"origin": "null"},
        {"origin": "null", "sec_fetch_site": "cross-site"},
        {"origin": "https://api.example.org", "sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"cookie": "dg_auth=x"},
        {"cookie": "session=x", "sec_fetch_site": "cross-site", "authorization": "Basic YTpi"},
    ],
)
def test_what_a_foreign_page_could_send_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(UnsupportedMediaType):
        reject_forgery(make_request(**headers))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "https://api.example.org"},
        {"origin": "HTTPS://API.example.org:443"},
        {"origin": "http://api.example.org:80"},
        {"origin": "null", "sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "same-origin"},
    ],
)
@pytest.mark.parametrize("cookie", [None, "dg_auth=x", "theme=dark"])
def test_our_own_pages_and_programs_may_send_forms(
    headers: dict[str, str], cookie: str | None
) -> None:
    """A program that sends a cookie says who it is in a header."""
    if cookie is not None:
        headers = {**headers, "cookie": cookie}
        if headers.keys() == {"cookie"}:
            headers["authorization"] = "Basic YTpi"
    reject_forgery(make_request(**headers))


def test_pages_on_the_list_may_send_forms_and_a_trusted_proxy_says_which_host_we_are() -> None:
    listed = make_request(origin="https://app.example.org", cookie="theme=dark")
    with pytest.raises(UnsupportedMediaType):
        reject_forgery(listed)
    listed.pages = OriginPolicy(["https://app.example.org"])
    reject_forgery(listed)
    behind = make_request(origin="https://www.example.org", cookie="theme=dark")
    with pytest.raises(UnsupportedMediaType):
        reject_forgery(behind)
    behind.connection = Connection(scheme="https", host="www.example.org")
    reject_forgery(behind)
