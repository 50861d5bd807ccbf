"""Authentication cookie: set, read and clear it, and CSRF protection (decisions 27, 30).

    dg_auth=Bearer_<jwt>; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=86400; Expires=…

A space is not allowed in a cookie (RFC 6265 4.1.1), so that an underscore follows the scheme; a
value with a space, in quotes or not, is accepted as well.
"""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from email.utils import formatdate
from typing import ClassVar, Final

from docgraph.auth.cookies.sections import (
    NO_MANAGER,
    TURN_ON,
    AuthCookieHandler,
    AuthCookieRemover,
    AuthCookieSetter,
)
from docgraph.auth.credentials import BasicCredentials, BearerToken
from docgraph.auth.tokens.revocation import Revocations, end_session
from docgraph.auth.tokens.token import (
    find_login_end,
    find_manager,
    find_token,
    record_cookie,
    wants_cookie,
    withdraw_token,
)
from docgraph.config.section import PluginConfig
from docgraph.exchange import Answer, Body, Exchange, Headers, Request, StartupError
from docgraph.exchange.errors import Forbidden, NotSupported, Unauthenticated
from docgraph.exchange.origin import RequestOrigin
from docgraph.observe import emit
from docgraph.observe.events import CookieNotSet
from docgraph.plugins.kinds import (
    ABSENT,
    Accepted,
    AuthMechanism,
    Interceptor,
    Outcome,
    Point,
    Rejected,
    Service,
    TokenManager,
)
from docgraph.plugins.registry import PluginRegistry
from docgraph.store import Store

MAX_BYTES: Final = 4096  # the limit of browsers: name, value and attributes together
_VALUE: Final = re.compile(r"(Bearer|Basic)[_ ]([A-Za-z0-9._~+/=-]+)")


@dataclass(frozen=True, slots=True)
class Cookie:
    """The configured cookie; it is cleared with the same attributes that it is set with."""

    section: AuthCookieSetter

    def check(self) -> None:
        """Reject a cookie that a browser would silently ignore, by its prefix or its attributes."""
        section, name = self.section, self.section.name
        if name.startswith(("__Host-", "__Secure-")) and not section.secure:
            raise _reject("secure", f"a cookie called {name!r} must be secure")
        if name.startswith("__Host-") and section.domain is not None:
            raise _reject("domain", f"a cookie called {name!r} must have no domain")
        if name.startswith("__Host-") and section.path != "/":
            raise _reject("path", f"a cookie called {name!r} must have the path '/'")
        if section.same_site and section.same_site_mode == "none" and not section.secure:
            raise _reject("secure", "a cookie with same-site-mode 'none' must be secure")

    def set(
        self, authorization: str, now: float, until: float | None = None, *, root: str = ""
    ) -> str:
        """Return the `Set-Cookie` for these credentials, `Bearer …` or `Basic …`.

        The browser removes it at `until` if that is earlier than `expires-ttl`. `root` is the path
        that the application is mounted below.
        """
        scheme, _, credentials = authorization.partition(" ")
        ttl = self.section.expires_ttl
        seconds = ttl if until is None else max(0, min(ttl, int(until - now)))
        cookie = self._render(f"{scheme}_{credentials}", seconds, now, root)
        if len(cookie) >= MAX_BYTES:
            raise NotSupported(
                f"the token of this account does not fit into a cookie ({len(cookie)} bytes)",
                hint="send it in the Authorization header",
            )
        return cookie

    def clear(self, root: str) -> tuple[str, str]:
        """Return the `Set-Cookie` that clears the cookie: an empty value that has expired."""
        return "Set-Cookie", self._render("", 0, 0, root)

    def _render(self, value: str, seconds: int, now: float, root: str) -> str:
        section = self.section
        # Browsers ignore a cookie with this prefix that has another path.
        path = section.path if section.name.startswith("__Host-") else root + section.path
        parts = (
            f"{section.name}={value}",
            f"Domain={section.domain}" if section.domain is not None else "",
            f"Path={path}",
            "HttpOnly" if section.http_only else "",
            f"SameSite={section.same_site_mode.title()}" if section.same_site else "",
            "Secure" if section.secure else "",
            f"Max-Age={seconds}",
            f"Expires={formatdate(now + seconds, usegmt=True)}",
        )
        return "; ".join(filter(None, parts))


def find_values(headers: Headers, name: str) -> list[str]:
    """Return the different values that a request has under that name."""
    fields = (field for field in headers.get_list("cookie") if name in field)
    pairs = (pair.partition("=") for field in fields for pair in field.split(";"))
    return list(
        dict.fromkeys(
            value.strip(" \t")
            for key, equals, value in pairs
            if equals and key.strip(" \t") == name
        )
    )


def read_authorization(value: str) -> str | None:
    """Return the value of `Authorization` that a cookie represents; None for other values."""
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1]
    match = _VALUE.fullmatch(value)
    return f"{match[1]} {match[2]}" if match else None


def _reject(option: str, message: str) -> StartupError:
    hint = "browsers do not keep it otherwise"
    return StartupError(f"/authCookieSetter/{option}: {message}", hint=hint)


_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# Types that a page can send to another origin without a preflight (Fetch 2.2.2).
_SIMPLE: Final = frozenset(
    {"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"}
)


def check_forgery(request: Request, *, takes_forms: bool = False) -> None:
    """Reject a request that is authenticated by cookie and sent by a foreign page.

    CSRF protection for cookie-authenticated requests. `SameSite=Strict` is the first defense: the
    browser does not send the cookie with requests of foreign pages. The second is what the browser
    reports about the page (`exchange/origin.py`). Links from elsewhere are accepted
    (`Sec-Fetch-Mode`); images, scripts and frames are not. When the browser reports nothing, a body
    must not have a type that an HTML form can send. Logging out accepts any body, since it reads
    none.
    """
    page, is_read = request.page, request.method in _READING
    if page is RequestOrigin.FOREIGN and not (is_read and _is_link(request)):
        raise foreign_page()
    if (
        not is_read
        and page is RequestOrigin.UNKNOWN
        and not takes_forms
        and _could_be_form(request)
    ):
        raise Forbidden("the cookie came with a content type that forms can send")


def _is_link(request: Request) -> bool:
    """Return whether the user follows a link from elsewhere, in a window or tab.

    Frames, images, scripts and the like of a foreign page send no origin either.
    """
    headers = request.headers
    is_navigation = (headers.get("sec-fetch-mode") or "").strip().lower() == "navigate"
    is_window = (headers.get("sec-fetch-dest") or "document").strip().lower() == "document"
    return "origin" not in headers and is_navigation and is_window


def foreign_page() -> Forbidden:
    """Build the rejection of a request that a foreign page sends."""
    return Forbidden("a foreign page sent the request; cors.allow-origins does not list its origin")


def _could_be_form(request: Request) -> bool:
    """Return whether the request has a body of a type that a foreign page can send."""
    length = request.headers.get("content-length")
    has_content = "transfer-encoding" in request.headers or length not in (None, "0")
    kind = request.content_type
    return has_content and (not kind or kind in _SIMPLE)


REMOVER: Final = "authCookieRemover"


class CookieRemover(Service):
    """Logs out, with a form or without a body; needs no credentials unless `secure` requires them.

    A foreign page may not log out, whether or not the browser sent the cookie.
    """

    name: ClassVar[str] = REMOVER
    description: ClassVar[str] = "clears the authentication cookie and ends the token"
    enabled_by_default: ClassVar[bool] = False
    uri: ClassVar[str] = "/logout"
    exact: ClassVar[bool] = True
    methods: ClassVar[tuple[str, ...]] = ("POST",)
    secured: ClassVar[bool] = False
    security: ClassVar[bool] = True
    Config = AuthCookieRemover

    def __init__(
        self,
        config: AuthCookieRemover,
        registry: PluginRegistry,
        cookie: AuthCookieSetter,
        store: Store,
        token_revocations: Revocations | None = None,
    ) -> None:
        self.config = config
        self._store = store
        self.uri = config.uri  # type: ignore[misc]  # of the class, unless configured
        self._registry = registry
        self._cookie = Cookie(cookie)
        self._revocations = token_revocations
        self._manager: TokenManager | None = None

    async def provision(self) -> None:
        self._manager = find_manager(self._registry)

    def allowed_methods(self, exchange: Exchange) -> Sequence[str]:
        """Return the methods; called before a method is rejected, so that 401 comes first."""
        is_known = exchange.account is not None or exchange.request.method == "OPTIONS"
        if self.config.secure and not is_known:
            raise Unauthenticated("authentication required")
        return self.methods

    async def handle(self, exchange: Exchange) -> Answer:
        """Clear the cookie in any case; 200 means that the token is revoked, too."""
        if exchange.request.page is RequestOrigin.FOREIGN:
            raise foreign_page()
        withdraw_token(exchange)
        exchange.headers.append(self._cookie.clear(exchange.request.connection.root_path))
        if exchange.account is not None:
            await end_session(self._store, self._manager, self._revocations, exchange.account)
        return Body(200)


_WAY_OUT: Final = (
    "serve https; or name the proxy that does in core.trusted-proxies and have it send "
    "X-Forwarded-Proto; or set secure to false on a network that you trust"
)


class CookieSetter(Interceptor):
    """Sets the cookie in the response, after everything that may renew or revoke the token.

    Callers request the cookie with `set-auth-cookie`; a renewed token replaces the cookie of its
    caller. It contains the token of the response, never the credentials of the login, and is set
    over https only, unless `secure` is off; over plain http the response and the log report that.
    """

    name: ClassVar[str] = "authCookieSetter"
    description: ClassVar[str] = "sets the authentication cookie for those who ask for it"
    enabled_by_default: ClassVar[bool] = False
    security: ClassVar[bool] = True
    point: ClassVar[Point] = Point.RESPONSE
    priority: ClassVar[int] = 50
    Config = AuthCookieSetter

    def __init__(self, config: AuthCookieSetter, registry: PluginRegistry) -> None:
        self.config = config
        self._registry = registry
        self._cookie = Cookie(config)
        self._bearer = False
        self._is_reported = False

    async def provision(self) -> None:
        """Choose the scheme: Bearer if the JWT mechanism reads the token, else Basic."""
        self._bearer = all(
            self._registry.find(name) is not None
            for name in ("jwtTokenManager", "jwtAuthenticationMechanism")
        )

    def validate(self) -> None:
        """Reject names and attributes that browsers do not accept together, and a missing token."""
        if find_manager(self._registry) is None:
            raise StartupError(f"/{self.name}/enabled: {NO_MANAGER}", hint=TURN_ON)
        self._cookie.check()

    def resolve(self, exchange: Exchange) -> bool:
        """Return whether an authenticated user requests the cookie."""
        is_known = exchange.account is not None and not exchange.is_entry
        return is_known and wants_cookie(exchange)

    async def handle(self, exchange: Exchange) -> Answer | None:
        """Add the cookie to the response, or the reason why it is missing."""
        if self.config.secure and exchange.request.connection.scheme != "https":
            self._warn(exchange)
            return None
        token, account = find_token(exchange), exchange.account
        if token is None or account is None:
            return None
        basic, bearer = BasicCredentials(account.name, token.text), BearerToken(token.text)
        credentials = (bearer if self._bearer else basic).render()
        root, until = exchange.request.connection.root_path, find_login_end(account)
        cookie = self._cookie.set(credentials, time.time(), until, root=root)
        exchange.headers.append(("Set-Cookie", cookie))
        return None

    def _warn(self, exchange: Exchange) -> None:
        reason = "the request came over http, and authCookieSetter.secure is true"
        exchange.headers.append(("Auth-Cookie-Not-Set", reason))
        if not self._is_reported:
            self._is_reported = True
            emit(CookieNotSet(f"/{self.name}/secure", _WAY_OUT, exchange.id))


_VERIFIERS: Final = ("tokenBasicAuthMechanism", "jwtAuthenticationMechanism")
_REJECTED: Final = "authCookieHandler.rejected"


class CookieHandler(AuthMechanism):
    """Uses the cookie as an `Authorization` header; browsers send cookies without a challenge.

    Only mechanisms that verify tokens see the header. Those that check passwords do not: the cookie
    never contains one, and a stale cookie must cost neither a hash nor an attempt. A real
    `Authorization` header has precedence. A cookie that no mechanism accepts counts as none and is
    cleared, but not in requests of foreign pages; two different cookies of the name count as such a
    cookie.
    """

    name: ClassVar[str] = "authCookieHandler"
    description: ClassVar[str] = "takes the authentication cookie as credentials"
    enabled_by_default: ClassVar[bool] = False
    priority: ClassVar[int] = 5
    Config = AuthCookieHandler

    def __init__(
        self, config: AuthCookieHandler, registry: PluginRegistry, cookie: AuthCookieSetter
    ) -> None:
        self.config = config
        self._registry = registry
        self._name = cookie.name
        self._verifiers: list[AuthMechanism] = []

    async def provision(self) -> None:
        verifiers = [self._registry.find(name) for name in _VERIFIERS]
        self._verifiers = [verifier for verifier in verifiers if verifier is not None]

    async def authenticate(self, exchange: Exchange) -> Outcome:
        headers = exchange.request.headers
        if "authorization" in headers:
            return ABSENT
        values = find_values(headers, self._name)
        if not values:
            return ABSENT
        outcome = await self._verify(exchange, values)
        if isinstance(outcome, Accepted):
            check_forgery(exchange.request, takes_forms=exchange.service == REMOVER)
            record_cookie(exchange)
        elif exchange.request.page is not RequestOrigin.FOREIGN:
            exchange.attributes[_REJECTED] = True
        return outcome

    async def _verify(self, exchange: Exchange, values: list[str]) -> Outcome:
        authorization = read_authorization(values[0]) if len(values) == 1 else None
        if authorization is None:
            return Rejected("malformed")
        shown = _show(exchange, authorization)
        for verifier in self._verifiers:
            outcome = await verifier.authenticate(shown)
            if isinstance(outcome, Accepted):
                return outcome
        return Rejected("wrong-token")


class CookieClearer(Interceptor):
    """Clears a cookie that no mechanism accepted."""

    name: ClassVar[str] = "authCookieClearer"
    description: ClassVar[str] = "clears an authentication cookie that is not valid any more"
    point: ClassVar[Point] = Point.AFTER_AUTH
    priority: ClassVar[int] = 5
    only_with_attribute: ClassVar[str] = _REJECTED  # set by the handler

    def __init__(self, config: PluginConfig, cookie: AuthCookieSetter) -> None:
        self.config = config
        self._cookie = Cookie(cookie)

    def resolve(self, exchange: Exchange) -> bool:
        """Return whether the request had the cookie itself."""
        return not exchange.is_entry

    async def handle(self, exchange: Exchange) -> Answer | None:
        """Add the header; never ends the request."""
        exchange.headers.append(self._cookie.clear(exchange.request.connection.root_path))
        return None


class CookieClearerOnRefusal(CookieClearer):
    """Clears the cookie of requests that are rejected as unauthenticated."""

    name: ClassVar[str] = "authCookieClearerOnRefusal"
    description: ClassVar[str] = "clears an invalid authentication cookie, also with a 401"
    point: ClassVar[Point] = Point.AFTER_FAILED_AUTH


def _show(exchange: Exchange, authorization: str) -> Exchange:
    """Return a copy of the exchange with that header; its attributes are discarded afterwards."""
    request = copy.copy(exchange.request)
    request.headers = Headers.of(authorization=authorization)
    return replace(exchange, request=request, headers=[], attributes={})
