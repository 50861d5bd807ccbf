"""The authentication cookie as a value: its text, its attributes, what a request carries of it.

    dg_auth=Bearer_<jwt>; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=86400; Expires=…

A space is not allowed in a cookie (RFC 6265 4.1.1), so that an underscore stands after the scheme;
a value with a space, in quotes or not, is understood as well. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.utils import formatdate
from typing import Final

from docgraph.auth.cookies.sections import AuthCookieSetter
from docgraph.exchange import Headers, StartupError

__all__ = ["MOST_BYTES", "Cookie", "CookieTooLarge", "find_values", "read_authorization"]

MOST_BYTES: Final = 4096  # what every browser takes: name, value and attributes together
_VALUE: Final = re.compile(r"(Bearer|Basic)[_ ]([A-Za-z0-9._~+/=-]+)")
_MODES: Final = {"strict": "Strict", "lax": "Lax", "none": "None"}


class CookieTooLarge(ValueError):
    """No browser would keep it."""


@dataclass(frozen=True, slots=True)
class Cookie:
    """The cookie of a configuration; what clears it has the same attributes as what sets it."""

    section: AuthCookieSetter

    @property
    def name(self) -> str:
        """The name, which may promise something to the browser."""
        return self.section.name

    def check(self) -> None:
        """Refuse what a browser would silently throw away."""
        section, path = self.section, "/authCookieSetter"
        if self.name.startswith(("__Host-", "__Secure-")) and not section.secure:
            raise _refuse(f"{path}/secure", f"a cookie called {self.name!r} must be secure")
        if self.name.startswith("__Host-") and section.domain is not None:
            raise _refuse(f"{path}/domain", f"a cookie called {self.name!r} must have no domain")
        if self.name.startswith("__Host-") and section.path != "/":
            raise _refuse(f"{path}/path", f"a cookie called {self.name!r} must have the path '/'")
        if section.same_site and section.same_site_mode == "none" and not section.secure:
            raise _refuse(f"{path}/secure", "a cookie with same-site-mode 'none' must be secure")

    def set(self, authorization: str, now: float) -> str:
        """The `Set-Cookie` that keeps these credentials, `Bearer …` or `Basic …`."""
        scheme, _, credentials = authorization.partition(" ")
        cookie = self._render(f"{scheme}_{credentials}", self.section.expires_ttl, now)
        if len(cookie) >= MOST_BYTES:
            raise CookieTooLarge(f"{len(cookie)} bytes")
        return cookie

    def clear(self) -> str:
        """The `Set-Cookie` that ends the cookie: an empty value that is over already."""
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
    """The different values that a request carries under that name."""
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
    """The value of `Authorization` that a cookie stands for; None for anything else."""
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1]
    match = _VALUE.fullmatch(value)
    return f"{match[1]} {match[2]}" if match else None


def _refuse(path: str, message: str) -> StartupError:
    return StartupError(f"{path}: {message}", hint="browsers do not keep it otherwise")
