"""The cookie as text (decision 30, A13).

Requests that a foreign page has a browser send with the cookie (decision 30, A18).
"""

from __future__ import annotations

from http.cookies import SimpleCookie
from typing import Any

import pytest

from docgraph.auth.cookies.cookie import Cookie, check_forgery, find_values, read_authorization
from docgraph.auth.cookies.sections import AuthCookieSetter
from docgraph.exchange import Headers, Request, StartupError
from docgraph.exchange.errors import Forbidden, NotSupported
from docgraph.exchange.origin import OriginPolicy, RequestOrigin
from docgraph.exchange.request import Connection

NOW = 1_767_225_600.0


def parse(text: str) -> tuple[str, str, dict[str, str]]:
    """Name, value and attributes as a browser reads them."""
    first, *rest = text.split("; ")
    name, _, value = first.partition("=")
    return name, value, {key: given for key, _, given in (part.partition("=") for part in rest)}


def test_the_default_cookie_has_exactly_these_attributes() -> None:
    name, value, attributes = parse(Cookie(AuthCookieSetter()).set("Bearer a.b.c", NOW))
    assert (name, value) == ("dg_auth", "Bearer_a.b.c")
    assert attributes == {
        "Path": "/",
        "HttpOnly": "",
        "SameSite": "Strict",
        "Secure": "",
        "Max-Age": "86400",
        "Expires": "Fri, 02 Jan 2026 00:00:00 GMT",
    }


def test_options_change_the_attributes() -> None:
    section = AuthCookieSetter(
        name="x",
        domain="example.org",
        path="/api",
        secure=False,
        http_only=False,
        same_site_mode="lax",
        expires_ttl=60,
    )
    name, value, attributes = parse(Cookie(section).set("Basic YTpi", NOW))
    assert (name, value) == ("x", "Basic_YTpi")
    assert attributes == {
        "Domain": "example.org",
        "Path": "/api",
        "SameSite": "Lax",
        "Max-Age": "60",
        "Expires": "Thu, 01 Jan 2026 00:01:00 GMT",
    }


def test_same_site_can_be_left_out() -> None:
    assert "SameSite" not in Cookie(AuthCookieSetter(same_site=False)).set("Basic YTpi", NOW)


def test_clearing_mirrors_setting() -> None:
    cookie = Cookie(AuthCookieSetter(domain="example.org", path="/api"))
    name, value, attributes = parse(cookie.clear("")[1])
    _, _, set_with = parse(cookie.set("Basic YTpi", NOW))
    assert (name, value, attributes["Max-Age"]) == ("dg_auth", "", "0")
    assert attributes["Expires"] == "Thu, 01 Jan 1970 00:00:00 GMT"
    changing = {"Max-Age", "Expires"}
    assert {k: v for k, v in attributes.items() if k not in changing} == {
        k: v for k, v in set_with.items() if k not in changing
    }


def test_the_standard_library_reads_the_cookie() -> None:
    jar = SimpleCookie(Cookie(AuthCookieSetter()).set("Basic YTpiYzo=", NOW))
    assert jar["dg_auth"].value == "Basic_YTpiYzo="


def test_a_cookie_that_browsers_would_drop_for_its_size_is_not_made() -> None:
    cookie = Cookie(AuthCookieSetter())
    with pytest.raises(NotSupported):
        cookie.set(f"Bearer {'x' * 4000}", NOW)
    assert len(cookie.set(f"Bearer {'x' * 3900}", NOW)) < 4096


@pytest.mark.parametrize(
    ("options", "blamed"),
    [
        ({"name": "__Host-dg", "secure": False}, "/authCookieSetter/secure"),
        ({"name": "__Host-dg", "domain": "example.org"}, "/authCookieSetter/domain"),
        ({"name": "__Host-dg", "path": "/api"}, "/authCookieSetter/path"),
        ({"name": "__Secure-dg", "secure": False}, "/authCookieSetter/secure"),
        ({"same_site_mode": "none", "secure": False}, "/authCookieSetter/secure"),
    ],
)
def test_what_browsers_do_not_keep_refuses_to_start(options: dict[str, Any], blamed: str) -> None:
    with pytest.raises(StartupError, match=blamed):
        Cookie(AuthCookieSetter(**options)).check()


@pytest.mark.parametrize(
    "options",
    [{}, {"name": "__Host-dg"}, {"name": "__Secure-dg", "domain": "a.org"}, {"secure": False}],
)
def test_what_browsers_keep_starts(options: dict[str, Any]) -> None:
    Cookie(AuthCookieSetter(**options)).check()


@pytest.mark.parametrize(
    ("value", "authorization"),
    [
        ("Bearer_a.b.c", "Bearer a.b.c"),
        ("Bearer a.b.c", "Bearer a.b.c"),
        ('"Bearer a.b.c"', "Bearer a.b.c"),
        ("Basic_YTpi_w==", "Basic YTpi_w=="),
        ('"Basic YTpi"', "Basic YTpi"),
        ("", None),
        ('"', None),
        ("Bearer_", None),
        ("Digest_x", None),
        ("bearer_x", None),
        ("Bearer__ x", None),
        ("Bearer_a\r\nX: y", None),
        ("a.b.c", None),
    ],
)
def test_the_value_with_underscore_or_space_is_understood(
    value: str, authorization: str | None
) -> None:
    assert read_authorization(value) == authorization


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("dg_auth=a", ["a"]),
        ("x=1; dg_auth=a; y=2", ["a"]),
        ("dg_auth=a=b==", ["a=b=="]),
        ("dg_auth=a; dg_auth=b", ["a", "b"]),
        ("dg_auth=a; dg_auth=a", ["a"]),
        ("xdg_auth=a; dg_auth2=b", []),
        ("DG_AUTH=a", []),
        ("dg_auth", []),
        ("", []),
    ],
)
def test_only_cookies_of_that_very_name_count(field: str, values: list[str]) -> None:
    assert find_values(Headers.of(cookie=field), "dg_auth") == values


PAGES = OriginPolicy(["https://app.example.org", "HTTPS://Upper.example.org:443"])
JSON = {"content_type": "application/json"}
FORM = {"content_type": "application/x-www-form-urlencoded", "content_length": "3"}
OWN = "https://api.example.org"


def make_request(
    method: str = "POST", *, scheme: str = "http", forwarded: str | None = None, **headers: Any
) -> Request:
    request = Request(
        method,
        b"/",
        headers=Headers.of(**{"host": "api.example.org", **headers}),
        connection=Connection(scheme=scheme, host=forwarded),
    )
    request.pages = PAGES
    return request


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": OWN},
        {"origin": OWN, "sec_fetch_site": "same-origin"},
        {"origin": OWN, "sec_fetch_site": "none"},
        {"origin": "null", "sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "Same-Origin"},
        {"sec_fetch_site": "none"},
        {"origin": "https://app.example.org"},
        {"origin": "https://app.example.org", "sec_fetch_site": "same-site"},
        {"origin": "https://app.example.org", "sec_fetch_site": "cross-site"},
        {"origin": "https://upper.example.org", "sec_fetch_site": "cross-site"},
        {"origin": "HTTPS://API.Example.ORG"},
        {"origin": OWN, "host": "API.example.ORG"},
        {"origin": OWN, "host": "api.example.org:443"},
        {"origin": "https://api.example.org:443"},
        {"origin": "http://api.example.org", "host": "api.example.org:80"},
        {"origin": "http://api.example.org:8080", "host": "api.example.org:8080"},
        {"origin": "http://localhost:8080", "host": "localhost:8080"},
        {"origin": "http://[::1]:8080", "host": "[::1]:8080"},
        {"origin": "http://[2001:DB8::1]", "host": "[2001:db8:0:0::1]:80"},
        {"origin": "http://127.0.0.1", "host": "127.0.0.1"},
        {"origin": OWN, "host": "api.example.org."},
    ],
)
def test_a_page_of_our_own_or_on_the_list_is_ours_by_what_the_browser_says(
    headers: dict[str, str],
) -> None:
    assert make_request(**headers).page is RequestOrigin.OURS
    for content in ({}, JSON, FORM, {"content_type": "text/plain", "content_length": "1"}):
        check_forgery(make_request(**headers, **content))


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.org"},
        {"origin": "https://evil.org", "sec_fetch_site": "cross-site"},
        {"origin": "https://evil.org", "sec_fetch_site": "same-origin"},
        {"origin": OWN, "sec_fetch_site": "cross-site"},
        {"origin": OWN, "sec_fetch_site": "same-site"},
        {"origin": "null"},
        {"origin": "null", "sec_fetch_site": "none"},
        {"origin": "null", "sec_fetch_site": "cross-site"},
        {"origin": ""},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "something-new"},
        {"origin": "https://api.example.org.evil.org"},
        {"origin": "https://api.example.org@evil.org"},
        {"origin": "https://evil.org/api.example.org"},
        {"origin": "https://api.example.org/"},
        {"origin": "https://api.example.org:8443"},
        {"origin": "https://app.example.org:8443"},
        {"origin": "http://app.example.org"},
        {"origin": "https://[", "host": "["},
        {"origin": "https://api.example.org:x"},
        {"origin": "chrome-extension://api.example.org"},
        {"origin": "api.example.org"},
        {"origin": "file://"},
        {"origin": "http://[::1]:8080", "host": "[::2]:8080"},
        {"origin": OWN, "host": ""},
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_any_other_page_is_foreign_whatever_it_sends(headers: dict[str, str], method: str) -> None:
    assert make_request(method, **headers).page is RequestOrigin.FOREIGN
    for content in ({}, JSON, FORM):
        for takes_forms in (False, True):
            with pytest.raises(Forbidden):
                check_forgery(make_request(method, **headers, **content), takes_forms=takes_forms)


@pytest.mark.parametrize(
    ("origin", "scheme", "page"),
    [
        (OWN, "https", RequestOrigin.OURS),
        ("http://api.example.org", "https", RequestOrigin.FOREIGN),
        ("http://api.example.org", "wss", RequestOrigin.FOREIGN),
        (OWN, "http", RequestOrigin.OURS),  # somebody before us has ended TLS
        ("http://api.example.org", "http", RequestOrigin.OURS),
    ],
)
def test_a_page_over_http_is_not_ours_where_we_are_known_to_speak_https(
    origin: str, scheme: str, page: RequestOrigin
) -> None:
    assert make_request(scheme=scheme, origin=origin).page is page


@pytest.mark.parametrize(
    ("origin", "forwarded", "page"),
    [
        ("https://www.example.org", "www.example.org", RequestOrigin.OURS),
        ("https://www.example.org:8443", "www.example.org:8443", RequestOrigin.OURS),
        ("https://www.example.org", "www.example.org:443", RequestOrigin.OURS),
        (OWN, "www.example.org", RequestOrigin.FOREIGN),
        ("https://evil.org", "www.example.org", RequestOrigin.FOREIGN),
    ],
)
def test_behind_a_trusted_proxy_the_host_is_the_one_that_it_was_asked_for(
    origin: str, forwarded: str, page: RequestOrigin
) -> None:
    request = make_request(scheme="https", forwarded=forwarded, origin=origin)
    assert request.page is page


def test_a_program_says_nothing_and_may_send_what_no_form_can() -> None:
    assert make_request().page is RequestOrigin.UNKNOWN
    for headers in (
        {},
        {"content_length": "0"},
        {"content_type": "application/x-www-form-urlencoded", "content_length": "0"},
        {"content_type": "application/x-www-form-urlencoded"},
        {**JSON, "content_length": "5"},
        {"content_type": "application/graphql", "transfer_encoding": "chunked"},
    ):
        check_forgery(make_request(**headers))


@pytest.mark.parametrize(
    "headers",
    [
        FORM,
        {"content_type": "text/plain", "content_length": "1"},
        {"content_type": "Text/Plain; charset=UTF-8", "content_length": "1"},
        {"content_type": "multipart/form-data; boundary=x", "transfer_encoding": "chunked"},
        {"content_length": "5"},
        {"transfer_encoding": "chunked"},
    ],
)
def test_where_no_browser_speaks_a_body_of_a_form_is_refused_unless_forms_are_taken(
    headers: dict[str, str],
) -> None:
    """A18: as form, as text/plain."""
    with pytest.raises(Forbidden):
        check_forgery(make_request(**headers))
    check_forgery(make_request(**headers), takes_forms=True)


def test_a_link_from_elsewhere_may_lead_here_and_a_script_from_elsewhere_may_not_read() -> None:
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    check_forgery(make_request("GET", **link, sec_fetch_dest="document"))
    check_forgery(make_request("GET", content_type="text/plain"))
    for loaded in ({"sec_fetch_site": "cross-site"}, {**link, "sec_fetch_dest": "iframe"}):
        with pytest.raises(Forbidden):
            check_forgery(make_request("GET", **loaded))
    for origin in ("https://evil.org", "null"):
        with pytest.raises(Forbidden):
            check_forgery(make_request("GET", origin=origin))


def test_a_request_that_names_two_origins_is_foreign_whatever_they_are() -> None:
    fields = [(b"host", b"api.example.org"), (b"origin", OWN.encode()), (b"origin", OWN.encode())]
    request = Request("POST", b"/", headers=Headers(fields), connection=Connection(scheme="https"))
    request.pages = PAGES
    assert request.page is RequestOrigin.FOREIGN
