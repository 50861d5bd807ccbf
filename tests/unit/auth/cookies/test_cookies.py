"""The cookie as text (decision 30, A13)."""

from http.cookies import SimpleCookie
from typing import Any

import pytest

from docgraph.auth.cookies.cookie import Cookie, CookieTooLarge, find_values, read_authorization
from docgraph.auth.cookies.sections import AuthCookieSetter
from docgraph.exchange import Headers, StartupError

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
    name, value, attributes = parse(cookie.clear())
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
    with pytest.raises(CookieTooLarge):
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
