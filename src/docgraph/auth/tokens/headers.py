"""`Auth-Token`, `Auth-Token-Valid-Until`, `Auth-Token-Location`: known callers learn their token.

A caller who came by the cookie learns only until when that is good: what is kept from scripts must
not stand in an answer that they can read (decision 29). A new token goes into the cookie.

A token that cannot be made at the moment is left out rather than turned into an error, unless the
caller asked for it with `renew-auth-token`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import ClassVar, Final
from urllib.parse import quote

from docgraph.auth.tokens.sections import AuthTokenService
from docgraph.auth.tokens.token import LastToken, Token, TokenAccount
from docgraph.config.section import PluginConfig
from docgraph.exchange import Answer, DocgraphError, Exchange
from docgraph.observe import emit
from docgraph.observe.events import InterceptorFailed
from docgraph.plugins.kinds import Interceptor, Kind, Point, TokenManager
from docgraph.plugins.registry import PluginRegistry

__all__ = [
    "TokenHeaders",
    "TokenHeadersOnRefusal",
    "find_end",
    "find_manager",
    "find_token",
    "give_token",
    "is_by_cookie",
    "note_cookie",
    "render_instant",
    "service_uri",
    "wants_cookie",
    "withdraw_token",
]

_VALID_UNTIL: Final = "Auth-Token-Valid-Until"
_NAMES: Final = ("Auth-Token", _VALID_UNTIL, "Auth-Token-Location")
_TOKEN: Final = "authTokenHeaders.token"  # noqa: S105 - the name of an attribute
_BY_COOKIE: Final = "authCookieHandler.accepted"
_RENEWED: Final = "authTokenHeaders.renewed"
_RENEW: Final = "renew-auth-token"
_SET: Final = "set-auth-cookie"


def find_manager(registry: PluginRegistry) -> TokenManager | None:
    """The token manager that is on; the configuration admits one at most."""
    managers = registry.of_kind(Kind.TOKEN_MANAGER)
    return managers[0] if managers else None


def find_token(exchange: Exchange) -> Token | None:
    """The token that this answer carries."""
    token: Token | None = exchange.attributes.get(_TOKEN)
    return token


def note_cookie(exchange: Exchange) -> None:
    """The caller is known by the cookie."""
    exchange.attributes[_BY_COOKIE] = True


def is_by_cookie(exchange: Exchange) -> bool:
    """Whether the caller is known by the cookie."""
    return _BY_COOKIE in exchange.attributes


def wants_cookie(exchange: Exchange) -> bool:
    """Whether the answer should set the cookie: on request, and where what it holds was renewed.

    A cookie with the last token of its session stays as it is: setting it would prolong its life.
    """
    if is_by_cookie(exchange):
        if isinstance(find_token(exchange), LastToken):
            return False
        if _RENEWED in exchange.attributes:
            return True
    return _asks(exchange, _SET)


def give_token(exchange: Exchange, token: Token, uri: str, *, renewed: bool = False) -> None:
    """Let the answer carry this token; `uri` is the one of the token service."""
    account = exchange.account
    assert account is not None  # noqa: S101 - nobody else gets a token
    withdraw_token(exchange)
    exchange.attributes[_TOKEN] = token
    if renewed:
        exchange.attributes[_RENEWED] = True
    if is_by_cookie(exchange):
        exchange.headers.append((_VALID_UNTIL, render_instant(find_end(exchange, token))))
    else:
        exchange.headers.extend(_render(token, f"{uri}/{quote(account.name, safe='')}"))


def find_end(exchange: Exchange, token: Token) -> float:
    """When the credentials end that the caller has after this answer.

    The cookie stays as it is unless the answer sets it, though the login may have a younger token.
    """
    account = exchange.account
    if isinstance(account, TokenAccount) and is_by_cookie(exchange) and not wants_cookie(exchange):
        return account.token_expires_at
    return token.expires_at


def withdraw_token(exchange: Exchange) -> None:
    """Let the answer carry no token: the one that it had is over."""
    if exchange.attributes.pop(_TOKEN, None) is not None:
        exchange.headers[:] = [pair for pair in exchange.headers if pair[0] not in _NAMES]


def service_uri(manager: TokenManager | None, service: AuthTokenService) -> str:
    """Where the token service is, without a slash at the end; else the manager's `srv-uri`."""
    default: str = getattr(getattr(manager, "config", None), "srv_uri", "/tokens")
    return (service.uri or default).rstrip("/")


def render_instant(seconds: float) -> str:
    """`2026-05-01T12:00:00Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class TokenHeaders(Interceptor):
    """Adds the headers after the caller is known and admitted."""

    name: ClassVar[str] = "authTokenHeaders"
    description: ClassVar[str] = "tells known callers their token"
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
        """Find the token manager."""
        self._manager = find_manager(self._registry)
        self._uri = service_uri(self._manager, self._service)

    def resolve(self, exchange: Exchange) -> bool:
        """Every known caller; OPTIONS has none."""
        is_known = self._manager is not None and exchange.account is not None
        return is_known and not exchange.is_entry  # the batch itself is told

    async def handle(self, exchange: Exchange) -> Answer | None:
        """Goes on in any case."""
        manager, account = self._manager, exchange.account
        if manager is None or account is None:
            return None
        renew = _asks(exchange, _RENEW) and getattr(manager, "renewable", False)
        try:
            token = Token.of(await manager.issue(account, renew=renew))
        except DocgraphError:  # a database that is away is told of elsewhere
            if renew:
                raise
            return None
        except Exception as error:  # the manager may be anybody's plugin
            emit(InterceptorFailed(self.name, self.point, error, exchange.id))
            return None
        give_token(exchange, token, self._uri, renewed=renew)
        return None


class TokenHeadersOnRefusal(TokenHeaders):
    """The same for callers who are known and may not do what they asked for."""

    name: ClassVar[str] = "authTokenHeadersOnRefusal"
    description: ClassVar[str] = "tells known callers their token, also with a 403"
    point: ClassVar[Point] = Point.AFTER_FAILED_AUTH


def _asks(exchange: Exchange, parameter: str) -> bool:
    request = exchange.request
    return parameter.encode() in request.query_string and parameter in request.query


@lru_cache(maxsize=1024)
def _render(token: Token, location: str) -> tuple[tuple[str, str], ...]:
    values = (token.text, render_instant(token.expires_at), location)
    return tuple(zip(_NAMES, values, strict=True))
