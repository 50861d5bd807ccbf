"""Configuration sections for the cookie with a token: set, read and clear it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final, Literal

from msgspec import Meta

from docgraph.auth.mechanisms.sections import JwtAuthenticationMechanism, TokenBasicAuthMechanism
from docgraph.auth.tokens.sections import JwtTokenManager, RndTokenManager
from docgraph.config.section import PluginConfig, ServiceConfig, Uri, View
from docgraph.exchange.errors import Problem


class AuthCookieSetter(PluginConfig, frozen=True):
    """Sets the cookie when a request asks for it with `set-auth-cookie`."""

    section_name: ClassVar[str] = "authCookieSetter"
    enabled: Annotated[bool, "whether the cookie is set"] = False
    secure: Annotated[bool, "set the cookie only over https"] = True
    name: Annotated[
        str,
        Meta(
            pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z",
            extra={"form": "letters, digits and '_', '-', '.'"},
        ),
        "name of the cookie",
    ] = "dg_auth"
    domain: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Za-z0-9.-]+\Z", extra={"form": "a domain name"})] | None,
        "domain of the cookie; none binds it to the host",
    ] = None
    path: Annotated[
        str,
        Meta(pattern=r"^/[^;\x00-\x20\x7f]*\Z", extra={"form": "a path that begins with '/'"}),
        "path of the cookie",
    ] = "/"
    http_only: Annotated[bool, "hide the cookie from scripts"] = True
    same_site: Annotated[bool, "send the attribute `SameSite`"] = True
    same_site_mode: Annotated[Literal["strict", "lax", "none"], "value of `SameSite`"] = "strict"
    expires_ttl: Annotated[int, Meta(ge=1, le=31_536_000), "life of the cookie, in seconds"] = (
        86_400
    )

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        """Decision 30: require all three plugins, and a token that is issued and verified."""
        yield from _come_as_three(view)
        yield from _have_a_token(view)
        yield from _agree_on_tokens(view)

    def give_advice(self, view: View) -> Iterator[Problem]:
        """Advise enabling the token-basic mechanism; only option set 1 works without it."""
        if not self.enabled or not view.knows(TokenBasicAuthMechanism):
            return
        signed = view.on(JwtTokenManager) and view.on(JwtAuthenticationMechanism)
        if signed and not view.on(TokenBasicAuthMechanism):
            yield view.blame(
                "/tokenBasicAuthMechanism/enabled",
                "cookies work without it, but it is a part of their option set 1: callers who send "
                "their token in the place of a password are not known",
                "set it to true, unless all callers send cookies or bearers",
            )


class AuthCookieHandler(PluginConfig, frozen=True):
    """Reads the cookie and takes it as an `Authorization` header."""

    section_name: ClassVar[str] = "authCookieHandler"
    enabled: Annotated[bool, "whether the cookie is read"] = False


class AuthCookieRemover(ServiceConfig, frozen=True):
    """Clears the cookie and ends the token."""

    section_name: ClassVar[str] = "authCookieRemover"
    enabled: Annotated[bool, "whether the service is on"] = False
    secure: Annotated[bool, "whether the request to log out must itself be authenticated"] = False
    uri: Annotated[Uri, "path of the service"] = "/logout"
    secured: Annotated[bool, "whether requests have to pass an authorizer"] = False


_COOKIES: Final = (AuthCookieSetter, AuthCookieHandler, AuthCookieRemover)


NO_MANAGER: Final = "cookies need a token manager"
TURN_ON: Final = "turn on rndTokenManager or jwtTokenManager"


def _come_as_three(view: View) -> Iterator[Problem]:
    """Check that the setter, the handler and the remover are enabled together."""
    if not view.knows(*_COOKIES):
        return
    off = [section.section_name for section in _COOKIES if view.on(section) is None]
    on = [section.section_name for section in _COOKIES if view.on(section) is not None]
    if on and off:
        yield view.blame(
            f"/{on[0]}/enabled",
            f"cookies need {' and '.join(off)} too",
            f"set {' and '.join(f'/{name}/enabled' for name in off)} to true",
        )


def _have_a_token(view: View) -> Iterator[Problem]:
    """Check for one of the three option sets: a manager that issues, a mechanism that verifies."""
    parts = (RndTokenManager, JwtTokenManager, TokenBasicAuthMechanism, JwtAuthenticationMechanism)
    if not view.knows(*parts) or not any(view.on(section) for section in _COOKIES):
        return
    random, signed, basic, jwt = (view.on(section) is not None for section in parts)
    path = "/authCookieSetter/enabled"
    if not random and not signed and not view.plugins:  # a plugin may be one: the start checks
        yield view.blame(path, NO_MANAGER, TURN_ON)
    elif not basic and not (signed and jwt):
        yield view.blame(
            path,
            "no mechanism that is on can verify the token in a cookie",
            "turn on tokenBasicAuthMechanism",
            "/tokenBasicAuthMechanism/enabled",
        )


def _agree_on_tokens(view: View) -> Iterator[Problem]:
    """Decision 30: check that the JWT mechanism accepts and reads the tokens of jwtTokenManager."""
    jwt, manager = view.on(JwtAuthenticationMechanism), view.on(JwtTokenManager)
    if jwt is None or manager is None or view.on(AuthCookieSetter) is None:
        return
    agreement = {
        "key": jwt.key == manager.key,
        "algorithm": jwt.algorithm in {"HS256", "HMAC256"},
        "issuer": jwt.issuer is None or jwt.issuer == manager.issuer,
        "audience": _is_accepted(manager.audience, jwt.audience),
        "base64Encoded": not jwt.base64_encoded,
    }
    for name, agrees in agreement.items():
        if not agrees:
            yield view.blame(
                f"/jwtAuthenticationMechanism/{name}",
                f"'{name}' does not agree with jwtTokenManager, whose tokens the cookies carry",
                "jwtTokenManager signs with HS256; set key, issuer and audience of both alike",
                f"/jwtTokenManager/{name}",
            )
    claims = {
        "usernameClaim": (jwt.username_claim == "sub", "writes the user id to the claim 'sub'"),
        "rolesClaim": (
            bool(jwt.fixed_roles) or jwt.roles_claim == "roles",
            "writes the roles to the claim 'roles'",
        ),
        "fixedRoles": (not jwt.fixed_roles, "writes the roles of the user, which these replace"),
    }
    manager_at = view.tree.find_origin("/jwtTokenManager/enabled")
    for name, (fits, written) in claims.items():
        if not fits:
            yield view.blame(
                f"/jwtAuthenticationMechanism/{name}",
                f"'{name}' does not fit /jwtTokenManager ({manager_at}), whose tokens the cookies "
                f"carry: it {written}",
                f"remove '{name}', or use rndTokenManager in place of jwtTokenManager",
            )


def _is_accepted(given: str | tuple[str, ...] | None, wanted: str | tuple[str, ...] | None) -> bool:
    if wanted is None:
        return True
    return bool(_as_set(given) & _as_set(wanted))


def _as_set(audience: str | tuple[str, ...] | None) -> set[str]:
    if audience is None:
        return set()
    return {audience} if isinstance(audience, str) else set(audience)
