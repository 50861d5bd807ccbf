"""Tokens in place of passwords: their managers, their service, the cookies that carry them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from docgraph.config.section import PluginConfig, Secret, Uri

__all__ = [
    "AuthCookieHandler",
    "AuthCookieRemover",
    "AuthCookieSetter",
    "AuthTokenService",
    "JwtTokenManager",
    "RndTokenManager",
]

Minutes = Annotated[int, Meta(ge=1, le=525_600, extra={"unit": "minutes"})]
Name = Annotated[str, Meta(min_length=1, max_length=255)]


class RndTokenManager(PluginConfig, frozen=True):
    """Random tokens, known to the instance that issued them."""

    enabled: Annotated[bool, Meta(description="whether the manager is on")] = True
    ttl: Annotated[Minutes, Meta(description="life of a token, in minutes")] = 15
    srv_uri: Annotated[Uri, Meta(description="base path of the token service")] = "/tokens"


class JwtTokenManager(PluginConfig, frozen=True):
    """Signed tokens, known to every instance that shares the key."""

    enabled: Annotated[bool, Meta(description="whether the manager is on")] = False
    key: Annotated[
        Secret | None, Meta(description="secret that tokens are signed with, at least 32 bytes")
    ] = None
    ttl: Annotated[Minutes, Meta(description="life of a token, in minutes")] = 15
    srv_uri: Annotated[Uri, Meta(description="base path of the token service")] = "/tokens"
    issuer: Annotated[Name, Meta(description="issuer named in tokens")] = "docgraph"
    audience: Annotated[
        Name | tuple[str, ...] | None, Meta(description="audience named in tokens")
    ] = None
    account_properties_claims: Annotated[
        tuple[Name, ...],
        Meta(
            description="properties of the user that tokens carry beside id and roles: names, "
            "or paths such as `/address/city` and `address.city`"
        ),
    ] = ()
    max_session_age: Annotated[
        int,
        Meta(
            description="minutes after which a login by password is not prolonged any more; "
            "0 for no end",
            ge=0,
            le=525_600,
            extra={"unit": "minutes"},
        ),
    ] = 0


class AuthTokenService(PluginConfig, frozen=True):
    """Gives and ends the caller's token, at the `srv-uri` of the token manager."""

    enabled: Annotated[bool, Meta(description="whether the service is on")] = True


class AuthCookieSetter(PluginConfig, frozen=True):
    """Sets the cookie when a request asks for it with `set-auth-cookie`."""

    enabled: Annotated[bool, Meta(description="whether the cookie is set")] = False
    secure: Annotated[bool, Meta(description="set the cookie only over https")] = True
    name: Annotated[
        str,
        Meta(
            description="name of the cookie",
            pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z",
            extra={"form": "letters, digits and '_', '-', '.'"},
        ),
    ] = "dg_auth"
    domain: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Za-z0-9.-]+\Z", extra={"form": "a domain name"})] | None,
        Meta(description="domain of the cookie; none binds it to the host"),
    ] = None
    path: Annotated[
        str,
        Meta(
            description="path of the cookie",
            pattern=r"^/[^;\x00-\x20\x7f]*\Z",
            extra={"form": "a path that begins with '/'"},
        ),
    ] = "/"
    http_only: Annotated[bool, Meta(description="hide the cookie from scripts")] = True
    same_site: Annotated[bool, Meta(description="send the attribute `SameSite`")] = True
    same_site_mode: Annotated[
        Literal["strict", "lax", "none"], Meta(description="value of `SameSite`")
    ] = "strict"
    expires_ttl: Annotated[
        int, Meta(description="life of the cookie, in seconds", ge=1, le=31_536_000)
    ] = 86_400


class AuthCookieHandler(PluginConfig, frozen=True):
    """Reads the cookie and takes it as an `Authorization` header."""

    enabled: Annotated[bool, Meta(description="whether the cookie is read")] = False


class AuthCookieRemover(PluginConfig, frozen=True):
    """Clears the cookie and ends the token."""

    enabled: Annotated[bool, Meta(description="whether the service is on")] = False
    secure: Annotated[
        bool, Meta(description="whether the request to log out must itself be authenticated")
    ] = False
    uri: Annotated[Uri, Meta(description="path of the service")] = "/logout"
