"""Tokens, the logins that they belong to, and the response headers that contain them.

A token belongs to a login: to an account of one realm. Two realms may both have an `alice`, and the
token of one must never be given to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import orjson

from docgraph.auth.tokens.sections import AuthTokenService
from docgraph.codec import JsonMode, decode, encode
from docgraph.config.section import PluginConfig
from docgraph.exchange import Account, Answer, DocgraphError, Exchange
from docgraph.exchange.errors import BodyError
from docgraph.exchange.request import parse_path
from docgraph.observe import emit
from docgraph.observe.events import InterceptorFailed
from docgraph.plugins.kinds import Interceptor, Kind, Point, TokenManager, UserFinder
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import LruDict

V = TypeVar("V")

# Kinds whose accounts are identical if name and kind are; with any other kind (the claims of a
# foreign JWT) two accounts of one name may have different permissions.
_BY_NAME: Final = frozenset({"database", "file", "identity"})


class AuthToken(NamedTuple):
    """A token and its expiration time, in seconds since the epoch."""

    text: str
    expires_at: float

    @classmethod
    def of(cls, issued: tuple[str, float]) -> AuthToken:
        """Convert the result of a manager, which may be a plugin's."""
        return issued if isinstance(issued, AuthToken) else cls(*issued)


class LastToken(AuthToken):
    """The token that the caller sent, because the session is too old for a new one."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TokenAccount(Account):
    """An account authenticated by a token; otherwise it equals the account of the login.

    Times are times of day, except `token_made_at`, which is compared with revocation marks.
    `session_since` is when the password was checked. The text is available for signed tokens only.
    """

    token_id: str = ""
    token_issued_at: float = 0.0
    token_expires_at: float = 0.0
    token_made_at: float = 0.0
    session_since: float = 0.0
    token_text: str = field(default="", repr=False)


def find_login_end(account: Account) -> float | None:
    """Return when the login of the account ends by itself, whatever is renewed (decision 57).

    Credentials that are not a token of ours are the login itself. None: it has no end.
    """
    if account.login_ends_at is not None or isinstance(account, TokenAccount):
        return account.login_ends_at
    return account.expires_at


class AccountMemo(Generic[V]):
    """Caches a value derived from an account object, while the same object is used again.

    Accounts cannot be hashed; the pair keeps the object alive, so that its identity stays unique.
    """

    def __init__(self, build: Callable[[Account], V], size: int = 4096) -> None:
        self._build = build
        self._pairs: LruDict[int, tuple[Account, V]] = LruDict(size)

    def get(self, account: Account) -> V:
        """Return the value for this very object."""
        pair = self._pairs.get(id(account))
        if pair is not None:
            return pair[1]
        value = self._build(account)
        self._pairs.put(id(account), (account, value))
        return value


class LoginNames:
    """Names the login that a token of an account belongs to."""

    def __init__(self) -> None:
        self._by_content = AccountMemo(_name_by_content)

    def get(self, account: Account) -> str:
        """Return the same name for accounts that may share a token, and for no others."""
        is_by_name = account.kind in _BY_NAME
        name = f"{account.kind}:{account.name}" if is_by_name else self._by_content.get(account)
        end = find_login_end(account)
        return name if end is None else f"{name}:{float(end)}"


def _name_by_content(account: Account) -> str:
    return f"{account.kind}:{account.name}:{sha256(encode_account(account)).hexdigest()}"


def encode_account(account: Account) -> bytes:
    """Encode an account; equal accounts have equal bytes, in every process.

    Only values that docgraph could not have stored are lost: a UUID of three bytes, an invalid
    object that looks like extended JSON. Such a property is then unbound, without an effect on the
    others.
    """
    return encode(
        [account.name, list(account.roles), account.kind, dict(account.properties)],
        JsonMode.EXTENDED,
    )


def decode_account(data: bytes) -> Account:
    try:
        name, roles, kind, properties = decode(data)
    except BodyError:
        name, roles, kind, written = orjson.loads(data)
        properties = read_properties(written)
    return Account(name, tuple(roles), properties, kind)


def read_properties(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return properties from extended JSON, without those that cannot be decoded."""
    try:
        properties: dict[str, Any] = decode(orjson.dumps(written))
    except BodyError:
        properties = {}
        for name, value in written.items():
            try:
                properties[name] = decode(orjson.dumps(value))
            except BodyError:
                continue
    return properties


_VALID_UNTIL: Final = "Auth-Token-Valid-Until"
_NAMES: Final = ("Auth-Token", _VALID_UNTIL, "Auth-Token-Location")
_TOKEN: Final = "authTokenHeaders.token"  # noqa: S105 - the name of an attribute
_BY_COOKIE: Final = "authCookieHandler.accepted"
_RENEWED: Final = "authTokenHeaders.renewed"
_COOKIE_WANTED: Final = "authTokenHeaders.cookie"
_REQUESTS: Final = ("set-auth-cookie", "renew-auth-token")  # parameters that ask for a token


def find_manager(registry: PluginRegistry) -> TokenManager | None:
    """Return the enabled token manager; the configuration permits one at most."""
    managers = registry.of_kind(Kind.TOKEN_MANAGER)
    return managers[0] if managers else None


def find_token(exchange: Exchange) -> AuthToken | None:
    token: AuthToken | None = exchange.attributes.get(_TOKEN)
    return token


def record_cookie(exchange: Exchange) -> None:
    exchange.attributes[_BY_COOKIE] = True


def is_by_cookie(exchange: Exchange) -> bool:
    return _BY_COOKIE in exchange.attributes


def wants_cookie(exchange: Exchange) -> bool:
    """Return whether to set the cookie: on request, and when its token was renewed.

    A cookie with the last token of its session stays unchanged: setting it would prolong its life.
    """
    if is_by_cookie(exchange):
        if isinstance(find_token(exchange), LastToken):
            return False
        if _RENEWED in exchange.attributes:
            return True
    return _COOKIE_WANTED in exchange.attributes or _asks(exchange, "set-auth-cookie")


def request_cookie(exchange: Exchange) -> None:
    """Let the response set the cookie, as `set-auth-cookie` does."""
    exchange.attributes[_COOKIE_WANTED] = True


def give_token(exchange: Exchange, token: AuthToken, uri: str, *, renewed: bool = False) -> None:
    """Add this token to the response; `uri` is that of the token service.

    Authenticated users receive their token. A caller with the cookie gets only its expiration time:
    a token that is hidden from scripts must not be in a response that they can read (decision 29).
    A new token goes into the cookie. A token that cannot be issued at the moment is omitted and is
    no error, unless the caller requested it with `renew-auth-token`.
    """
    account = exchange.account
    assert account is not None  # noqa: S101 - only authenticated users get a token
    withdraw_token(exchange)
    exchange.attributes[_TOKEN] = token
    if renewed:
        exchange.attributes[_RENEWED] = True
    if is_by_cookie(exchange):
        exchange.headers.append((_VALID_UNTIL, render_instant(find_end(exchange, token))))
    else:
        exchange.headers.extend(_render(token, f"{uri}/{quote(account.name, safe='')}"))


def find_end(exchange: Exchange, token: AuthToken) -> float:
    """Return the expiration time of the caller's credentials after this response.

    The cookie stays unchanged unless the response sets it, though the login may have a newer token.
    """
    account = exchange.account
    if isinstance(account, TokenAccount) and is_by_cookie(exchange) and not wants_cookie(exchange):
        return account.token_expires_at
    return token.expires_at


def withdraw_token(exchange: Exchange) -> None:
    """Remove the token from the response: it is revoked."""
    if exchange.attributes.pop(_TOKEN, None) is not None:
        exchange.headers[:] = [pair for pair in exchange.headers if pair[0] not in _NAMES]


def service_uri(manager: TokenManager | None, service: AuthTokenService) -> str:
    """Return the URI of the token service, without a trailing slash.

    By default it is the manager's `srv-uri`.
    """
    default: str = getattr(getattr(manager, "config", None), "srv_uri", "/tokens")
    return (service.uri or default).rstrip("/")


def render_instant(seconds: float) -> str:
    """Render an instant as `2026-05-01T12:00:00Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class TokenHeaders(Interceptor):
    """Adds the headers after the caller is authenticated and authorized."""

    name: ClassVar[str] = "authTokenHeaders"
    description: ClassVar[str] = "sends authenticated callers their token"
    point: ClassVar[Point] = Point.AFTER_AUTH
    priority: ClassVar[int] = 5

    def __init__(
        self, config: PluginConfig, registry: PluginRegistry, service: AuthTokenService
    ) -> None:
        self.config = config
        self._registry = registry
        self._service = service
        self._manager: TokenManager | None = None
        self._uri = ""

    async def provision(self) -> None:
        self._manager = find_manager(self._registry)
        self._uri = service_uri(self._manager, self._service)

    def resolve(self, exchange: Exchange) -> bool:
        """Return whether the caller is authenticated; never for OPTIONS."""
        if self._manager is None or exchange.account is None or exchange.is_entry:
            return False  # the response of a batch has the headers, not its entries
        if exchange.account.owner:
            return False  # nothing outlives a key (decision 72)
        is_everywhere = self._service.token_headers == "all"  # noqa: S105 - no password
        return is_everywhere or self._is_asked_for(exchange)

    def _is_asked_for(self, exchange: Exchange) -> bool:
        prefix = parse_path(self._uri.encode())
        is_service = exchange.request.segments[: len(prefix)] == prefix
        return is_service or any(_asks(exchange, name) for name in _REQUESTS)

    async def handle(self, exchange: Exchange) -> Answer | None:
        """Add the headers; never ends the request."""
        manager, account = self._manager, exchange.account
        if manager is None or account is None:
            return None
        renew = _asks(exchange, "renew-auth-token") and getattr(manager, "renewable", False)
        try:
            token = AuthToken.of(await manager.issue(account, renew=renew))
        except DocgraphError:  # a database failure is reported elsewhere
            if renew:
                raise
            return None
        except Exception as error:  # the manager may be a plugin
            emit(InterceptorFailed(self.name, self.point, error, exchange.id))
            return None
        give_token(exchange, token, self._uri, renewed=renew)
        return None


class TokenHeadersOnRefusal(TokenHeaders):
    """Adds the headers to responses that deny an authenticated user's request."""

    name: ClassVar[str] = "authTokenHeadersOnRefusal"
    description: ClassVar[str] = "sends authenticated callers their token, also with a 403"
    point: ClassVar[Point] = Point.AFTER_FAILED_AUTH


def _asks(exchange: Exchange, parameter: str) -> bool:
    request = exchange.request
    return parameter.encode() in request.query_string and parameter in request.query


@lru_cache(maxsize=1024)
def _render(token: AuthToken, location: str) -> tuple[tuple[str, str], ...]:
    values = (token.text, render_instant(token.expires_at), location)
    return tuple(zip(_NAMES, values, strict=True))


# An account of another kind comes from the plugin of that name, if it exists.
_REALMS: Final = {"database": "dbRealmAuthenticator", "file": "fileRealmAuthenticator"}


class Realms:
    """The authenticators that can find a user without a password."""

    def __init__(self, registry: PluginRegistry) -> None:
        self._registry = registry

    async def read_again(self, account: Account) -> Account | None:
        """Return the current account of its realm, None when it no longer exists.

        An account that no realm here can look up, such as one from a foreign JWT, stays unchanged.
        """
        realm = self._registry.find(_REALMS.get(account.kind, account.kind))
        if not isinstance(realm, UserFinder):
            return Account(account.name, account.roles, account.properties, account.kind)
        return await realm.find(account.name)
