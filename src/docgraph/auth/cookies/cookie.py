"""Authentication cookie: its value, its attributes, its parsing, and CSRF protection.

    dg_auth=Bearer_<jwt>; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=86400; Expires=…

A space is not allowed in a cookie (RFC 6265 4.1.1), so that an underscore follows the scheme; a
value with a space, in quotes or not, is accepted as well. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.utils import formatdate
from typing import Final

from docgraph.auth.cookies.sections import AuthCookieSetter
from docgraph.exchange import Headers, Request, StartupError
from docgraph.exchange.errors import Forbidden
from docgraph.exchange.origin import RequestOrigin

MAX_BYTES: Final = 4096  # the limit of browsers: name, value and attributes together
_VALUE: Final = re.compile(r"(Bearer|Basic)[_ ]([A-Za-z0-9._~+/=-]+)")
_MODES: Final = {"strict": "Strict", "lax": "Lax", "none": "None"}


class CookieTooLarge(ValueError):
    """The cookie is larger than browsers accept."""


@dataclass(frozen=True, slots=True)
class Cookie:
    """The configured cookie; it is cleared with the same attributes that it is set with."""

    section: AuthCookieSetter

    @property
    def name(self) -> str:
        """The name; browsers enforce the promises of the prefixes `__Host-` and `__Secure-`."""
        return self.section.name

    def check(self) -> None:
        """Reject a cookie that a browser would silently ignore."""
        section, path = self.section, "/authCookieSetter"
        if self.name.startswith(("__Host-", "__Secure-")) and not section.secure:
            raise _reject(f"{path}/secure", f"a cookie called {self.name!r} must be secure")
        if self.name.startswith("__Host-") and section.domain is not None:
            raise _reject(f"{path}/domain", f"a cookie called {self.name!r} must have no domain")
        if self.name.startswith("__Host-") and section.path != "/":
            raise _reject(f"{path}/path", f"a cookie called {self.name!r} must have the path '/'")
        if section.same_site and section.same_site_mode == "none" and not section.secure:
            raise _reject(f"{path}/secure", "a cookie with same-site-mode 'none' must be secure")

    def set(self, authorization: str, now: float) -> str:
        """Return the `Set-Cookie` for these credentials, `Bearer …` or `Basic …`."""
        scheme, _, credentials = authorization.partition(" ")
        cookie = self._render(f"{scheme}_{credentials}", self.section.expires_ttl, now)
        if len(cookie) >= MAX_BYTES:
            raise CookieTooLarge(f"{len(cookie)} bytes")
        return cookie

    def clear(self) -> str:
        """Return the `Set-Cookie` that clears the cookie: an empty value that has expired."""
        return self._render("", 0, 0)

    def _render(self, value: str, seconds: int, now: float) -> str:
        section = self.section
        parts = [f"{self.name}={value}"]
        if section.domain is not None:
            parts.append(f"Domain={section.domain}")
        parts.append(f"Path={section.path}")
        if section.http_only:
            parts.append("HttpOnly")
        if section.same_site:
            parts.append(f"SameSite={_MODES[section.same_site_mode]}")
        if section.secure:
            parts.append("Secure")
        parts.append(f"Max-Age={seconds}")
        parts.append(f"Expires={formatdate(now + seconds, usegmt=True)}")
        return "; ".join(parts)


def find_values(headers: Headers, name: str) -> list[str]:
    """Return the different values that a request has under that name."""
    found: dict[str, None] = {}
    for field in headers.get_list("cookie"):
        if name not in field:
            continue
        for pair in field.split(";"):
            key, equals, value = pair.partition("=")
            if equals and key.strip(" \t") == name:
                found[value.strip(" \t")] = None
    return list(found)


def read_authorization(value: str) -> str | None:
    """Return the value of `Authorization` that a cookie represents; None for other values."""
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1]
    match = _VALUE.fullmatch(value)
    return f"{match[1]} {match[2]}" if match else None


def _reject(path: str, message: str) -> StartupError:
    return StartupError(f"{path}: {message}", hint="browsers do not keep it otherwise")


# CSRF protection for cookie-authenticated requests.
#
# `SameSite=Strict` is the first defense: the browser does not send the cookie with requests of
# foreign pages. The second is what the browser reports about the page (`exchange/headers.py`).
# Links from elsewhere are accepted (`Sec-Fetch-Mode`); images, scripts and frames are not. When
# the browser reports nothing, a body must not have a type that an HTML form can send. Logging out
# accepts any body, since it reads none.

_WINDOW: Final = "document"  # the destination of a navigation that is not in a frame
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# Types that a page can send to another origin without a preflight (Fetch 2.2.2).
_SIMPLE: Final = frozenset(
    {"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"}
)


def check_forgery(request: Request, *, takes_forms: bool = False) -> None:
    """Reject a request that is authenticated by cookie and sent by a foreign page."""
    page = request.page
    if request.method in _READING:
        if page is RequestOrigin.FOREIGN and not _is_link(request):
            raise foreign_page()
    elif page is RequestOrigin.FOREIGN:
        raise foreign_page()
    elif page is RequestOrigin.UNKNOWN and not takes_forms and _could_be_form(request):
        raise Forbidden("the cookie came with a content type that forms can send")


def _is_link(request: Request) -> bool:
    """Return whether the user follows a link from elsewhere, in a window or tab.

    Frames, images, scripts and the like of a foreign page send no origin either.
    """
    headers = request.headers
    is_navigation = (headers.get("sec-fetch-mode") or "").strip().lower() == "navigate"
    is_frame = (headers.get("sec-fetch-dest") or _WINDOW).strip().lower() != _WINDOW
    return "origin" not in headers and is_navigation and not is_frame


def foreign_page() -> Forbidden:
    """Build the rejection of a request that a foreign page sends."""
    return Forbidden(
        "a foreign page sent the request",
        hint="list its origin in cors.allow-origins if it may use the cookie",
    )


def _could_be_form(request: Request) -> bool:
    """Return whether it has a body of a type that a page may send anywhere, or of no type."""
    length = request.headers.get("content-length")
    has_content = "transfer-encoding" in request.headers or length not in (None, "0")
    kind = request.content_type
    return has_content and (not kind or kind in _SIMPLE)
