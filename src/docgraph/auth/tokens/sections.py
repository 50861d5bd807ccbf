"""Configuration sections for tokens: token managers and their service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from docgraph.config.section import Name, PluginConfig, Secret, ServiceConfig, Uri, View
from docgraph.exchange.errors import Problem


def hash_bytes(algorithm: str) -> int:
    """Return the hash length of an algorithm such as `HS256`, `HMAC256` or `RS256`.

    It is the minimum length of a secret (RFC 7518 3.2).
    """
    return int(algorithm[-3:]) // 8


def is_short(key: str, algorithm: str) -> bool:
    """Return whether a key is a secret, and shorter than the hash."""
    return algorithm.startswith("H") and len(key.encode()) < hash_bytes(algorithm)


Minutes = Annotated[int, Meta(ge=1, le=525_600, extra={"unit": "minutes"})]


class RndTokenManager(PluginConfig, frozen=True):
    """Random tokens, known to the instance that issued them."""

    section_name: ClassVar[str] = "rndTokenManager"
    enabled: Annotated[bool, "whether the manager is on"] = True
    ttl: Annotated[Minutes, "life of a token, in minutes"] = 15
    srv_uri: Annotated[Uri, "base path of the token service"] = "/tokens"


class JwtTokenManager(PluginConfig, frozen=True):
    """Signed tokens, known to every instance that shares the key."""

    section_name: ClassVar[str] = "jwtTokenManager"
    enabled: Annotated[bool, "whether the manager is on"] = False
    key: Annotated[Secret | None, "secret that tokens are signed with, at least 32 bytes"] = None
    ttl: Annotated[Minutes, "life of a token, in minutes"] = 15
    srv_uri: Annotated[Uri, "base path of the token service"] = "/tokens"
    issuer: Annotated[Name, "issuer named in tokens"] = "docgraph"
    audience: Annotated[Name | tuple[str, ...] | None, "audience named in tokens"] = None
    account_properties_claims: Annotated[
        tuple[Name, ...],
        "properties of the user that tokens carry beside id and roles: names, or paths such as "
        "`/address/city` and `address.city`",
    ] = ()
    max_session_age: Annotated[
        int,
        Meta(ge=0, le=525_600, extra={"unit": "minutes"}),
        "minutes after which a login by password is not prolonged any more; 0 for no end",
    ] = 0

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        """Decisions 29 and 31: one manager, and a key that is not shorter than the hash."""
        if not self.enabled:
            return
        if view.on(RndTokenManager):
            yield view.blame(
                "/jwtTokenManager/enabled",
                "rndTokenManager and jwtTokenManager are both on",
                "set /rndTokenManager/enabled to false to use jwtTokenManager",
                "/rndTokenManager/enabled",
            )
        if self.key is None:
            yield view.blame(
                "/jwtTokenManager/key",
                "jwtTokenManager is on and has no key",
                "set it to a random text of at least 32 bytes",
                "/jwtTokenManager/enabled",
            )
        elif is_short(self.key, "HS256"):
            yield view.blame(
                "/jwtTokenManager/key",
                "the key is shorter than 32 bytes",
                "use a longer random text",
            )


class AuthTokenService(ServiceConfig, frozen=True):
    """Gives and ends the caller's token, at the `srv-uri` of the token manager."""

    section_name: ClassVar[str] = "authTokenService"
    enabled: Annotated[bool, "whether the service is on"] = True
    uri: Annotated[
        Uri | None, "path of the service; none is the `srv-uri` of the token manager"
    ] = None
    oauth_style: Annotated[
        bool,
        "answer with `access_token`, `token_type` and `expires_in`, and set the cookie at "
        "`<uri>/cookie`; for moved installations",
    ] = False
    token_headers: Annotated[
        Literal["all", "service"],
        "which answers carry the token in headers: all of authenticated callers, or those of the "
        "service and of requests that ask for a token",
    ] = "all"  # noqa: S105 - no password
    secured: Annotated[bool, "whether requests have to pass an authorizer"] = False
