"""Conversion of logins: keys, tokens, cookies and users.

Version 9 has the key, the issuer and the audience of tokens in one section, version 8 in two.
"""

from __future__ import annotations

import secrets
from textwrap import wrap
from typing import Any, Final

from docgraph_migrate.convert import Conversion
from docgraph_migrate.report import ReportList

_KEY_BYTES: Final = 32
_PEM_WIDTH: Final = 64
_REALM: Final = "RESTHeart Realm"  # of every challenge there
_REALMS: Final = {"mongoRealmAuthenticator": "dbRealmAuthenticator"}
_COOKIES: Final = ("authCookieSetter", "authCookieHandler", "authCookieRemover")
_OURS: Final = ("HS256", "HMAC256")  # what jwtTokenManager signs with
# The password of `admin` in the default files of RESTHeart, its hash there, and its JWT key.
_PUBLISHED: Final = "secret"
_PUBLISHED_HASH: Final = "$2a$12$lZiMMNJ6pkyg4uq/I1cF5uxzUbU25aXHtg7W7sD2ED7DG1wzUoo6u"
_LOG_IN: Final = "users log in again; other services need the new key"


def convert_authentication(conversion: Conversion) -> None:
    """Convert what decides about logins."""
    get, put = conversion.config.get, conversion.put
    for section in ("basicAuthMechanism", "digestAuthMechanism"):
        if conversion.config.on(section):
            name = get(section, "authenticator")
            put(section, "authenticator", _REALMS.get(name, name), was=(section, "authenticator"))
    put("basicAuthMechanism", "realm", _REALM)
    _Tokens(conversion).convert()
    _convert_cookies(conversion)
    _convert_users(conversion)


class _Tokens:
    """Converts the token managers, the JWT mechanism and the token service."""

    def __init__(self, conversion: Conversion) -> None:
        self._to = conversion
        self._config = config = conversion.config
        self._is_latest = config.version > 8  # noqa: PLR2004 - it has jwtConfigProvider
        has_keys = config.on("jwtConfigProvider") or not self._is_latest
        self._signs = has_keys and config.on("jwtTokenManager")
        self._checks = has_keys and config.on("jwtAuthenticationMechanism")
        self._keys: dict[str | None, str | None] = {}  # each old key, and the new one

    def convert(self) -> None:
        """Convert all three."""
        is_random = self._config.on("rndTokenManager")
        if is_random and self._signs:
            what = "is on along with jwtTokenManager; docgraph has one token manager"
            remedy = "set rndTokenManager.enabled to true and jwtTokenManager.enabled to false"
            self._to.add(ReportList.ANSWERS, "one-manager", "rndTokenManager.enabled", what, remedy)
        self._to.put("rndTokenManager", "enabled", is_random and not self._signs)
        self._to.put("jwtTokenManager", "enabled", self._signs)
        self._to.put("jwtAuthenticationMechanism", "enabled", self._checks)
        if self._signs:
            self._convert_manager()
        if self._checks:
            self._convert_mechanism()
        self._convert_service()

    def _source(self, section: str) -> str:
        return "jwtConfigProvider" if self._is_latest else section

    def _convert_manager(self) -> None:
        source = self._source("jwtTokenManager")
        algorithm = self._config.get(source, "algorithm") or _OURS[0]
        if str(algorithm).startswith("R"):  # a public key cannot sign
            key: str | None = secrets.token_urlsafe(_KEY_BYTES)
            what = f"is {algorithm}: docgraph signs its own tokens with a new secret, by HS256"
            remedy = "send these tokens as passwords (Basic), or turn jwtTokenManager off"
            self._to.add(ReportList.ANSWERS, "algorithm", f"{source}.algorithm", what, remedy)
        else:
            key = self._renew_key(source, _KEY_BYTES)
        options = {"key": key, "issuer": self._config.get(source, "issuer")}
        if self._is_latest:
            options["audience"] = self._config.get(source, "audience")
        else:
            options["audience"] = self._config.get("jwtTokenManager", "audience")
        self._to.put_all("jwtTokenManager", options)
        for option in options:
            self._to.origins["jwtTokenManager", option] = (source, option)

    def _convert_mechanism(self) -> None:
        section = "jwtAuthenticationMechanism"
        source = self._source(section)
        get = self._config.get
        algorithm = get(source, "algorithm")
        shares_key = self._signs and self._is_latest
        if shares_key and str(algorithm).startswith("H") and algorithm not in _OURS:
            if get(source, "key") is not None:
                what = f"is {algorithm}: docgraph signs and accepts HS256 with jwtTokenManager"
                remedy = "let other services sign with HS256, or turn jwtTokenManager off"
                self._to.add(ReportList.MORE, "algorithm", f"{source}.algorithm", what, remedy)
            algorithm = _OURS[0]
        is_public = str(algorithm).startswith("R")
        key = _read_certificate(get(source, "key")) if is_public else self._renew_key(source, 0)
        self._to.put_all(
            section,
            {
                "leeway": 0,
                "algorithm": algorithm,
                "key": key,
                "issuer": get(source, "issuer"),
                "audience": get(source, "audience"),
                "usernameClaim": get(section, "usernameClaim"),
            },
        )
        for option in ("algorithm", "key", "issuer", "audience"):
            self._to.origins[section, option] = (source, option)
        size = int(str(algorithm)[-3:]) // 8 if str(algorithm)[-3:].isdecimal() else 0
        if isinstance(key, str) and str(algorithm).startswith("H") and len(key.encode()) < size:
            self._to.put(section, "allow-weak-key", True)
            what = f"is shorter than the {size} bytes of {algorithm}: allow-weak-key is set"
            remedy = "agree on a longer key with the issuer, then remove allow-weak-key"
            self._to.add(ReportList.ANSWERS, "weak-key", f"{source}.key", what, remedy)
        self._convert_roles(section)
        self._report_wider(source)

    def _report_wider(self, source: str) -> None:
        """Report what makes docgraph accept tokens that RESTHeart does not."""
        audience = self._config.get(source, "audience")
        if isinstance(audience, list) and len(audience) > 1:
            what = "a token has to name all of them there; docgraph accepts one that names any"
            example = f"a token with aud: {audience[0]}"
            remedy = "write one audience that only tokens for this service have"
            where = f"{source}.audience"
            self._to.add(ReportList.LESS, "any-audience", where, what, remedy, example)
        if self._config.on("identityAuthMechanism"):
            what = "is tried before JWT there, so that no token counts; here it is tried last"
            example = "a token with more roles than the identity"
            remedy = "turn jwtAuthenticationMechanism or identityAuthMechanism off"
            where = "identityAuthMechanism"
            self._to.add(ReportList.LESS, "identity-last", where, what, remedy, example)

    def _convert_roles(self, section: str) -> None:
        claim, fixed = (self._config.get(section, name) for name in ("rolesClaim", "fixedRoles"))
        if claim and fixed:
            what = "is set along with rolesClaim; docgraph has one source of roles, the claim"
            remedy = "give the roles in the claim, or remove rolesClaim from the new file"
            self._to.add(ReportList.MORE, "fixed-roles", f"{section}.fixedRoles", what, remedy)
        elif fixed:
            self._to.put(section, "fixedRoles", fixed)
        else:
            self._to.put(section, "rolesClaim", claim)

    def _renew_key(self, source: str, size: int) -> str | None:
        """Return the key; a new one for a published one, a short one and one of each start."""
        old = self._config.get(source, "key")
        if old in self._keys:
            return self._keys[old]
        if isinstance(old, str) and old != _PUBLISHED and len(old.encode()) >= size:
            return old
        if old is None and not (self._is_latest or self._signs):
            return None
        self._keys[old] = new = secrets.token_urlsafe(_KEY_BYTES)
        if old is not None:
            why = "is published" if old == _PUBLISHED else f"is shorter than {size} bytes"
            what = f"{why}: the new file has a new key, and old tokens are refused"
            self._to.add(ReportList.MORE, "new-key", f"{source}.key", what, _LOG_IN)
        return new

    def _convert_service(self) -> None:
        """Keep the path of the token service, and the answers of version 9."""
        if not self._config.on("authTokenService"):
            return
        uri = self._config.get("authTokenService", "uri")
        if uri != "/tokens":
            self._to.put("authTokenService", "uri", uri)
        if self._is_latest:
            self._to.put("authTokenService", "oauth-style", True)
            self._to.put("authTokenService", "token-headers", "service")


def _read_certificate(key: Any) -> Any:
    """Return a certificate as PEM text; there it is the same text without its first line."""
    if not isinstance(key, str) or "-----" in key:
        return key
    lines = wrap("".join(key.split()), _PEM_WIDTH)
    return "\n".join(("-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""))


def _convert_cookies(conversion: Conversion) -> None:
    """Keep cookies if all three plugins are on, and a token that they can carry."""
    config, get = conversion.config, conversion.config.get
    is_on = [config.on(name) for name in _COOKIES]
    for name in _COOKIES:
        conversion.put(name, "enabled", all(is_on))
    if not all(is_on):
        if any(is_on) and config.is_set("authCookieSetter", "enabled"):
            on = ", ".join(name for name, enabled in zip(_COOKIES, is_on, strict=True) if enabled)
            what = f"is on without the other plugins of cookies; docgraph turns all off: {on}"
            remedy = "turn on all three to keep cookies"
            conversion.add(ReportList.MORE, "cookies-off", "authCookieSetter.enabled", what, remedy)
        return
    if not any(conversion.get(name, "enabled") for name in ("rndTokenManager", "jwtTokenManager")):
        turn_cookies_off(conversion)  # there, too, they have no token to carry
        return
    domain = get("authCookieSetter", "domain")
    if domain != "localhost":
        conversion.put("authCookieSetter", "domain", domain)
    if config.version > 8:  # noqa: PLR2004 - minutes since version 9
        seconds: Any = get("authCookieSetter", "ttl")
        seconds = seconds * 60 if isinstance(seconds, int) else seconds
        conversion.put("authCookieSetter", "expires-ttl", seconds, was=("authCookieSetter", "ttl"))
    else:
        conversion.put("authCookieSetter", "expires-ttl", get("authCookieSetter", "expires-ttl"))


def turn_cookies_off(conversion: Conversion) -> None:
    """Turn all three plugins of cookies off."""
    for name in _COOKIES:
        conversion.sections.pop(name, None)


def _convert_users(conversion: Conversion) -> None:
    """Take over users of files and the first user, without the published password."""
    users = conversion.load_list("fileRealmAuthenticator", "users")
    if users is not None and conversion.config.on("fileRealmAuthenticator"):
        # Without a password, a user is disabled there.
        active = [user for user in users if not isinstance(user, dict) or user.get("password", "")]
        replaced = [_replace(conversion, user) for user in active]
        conversion.put("fileRealmAuthenticator", "users", replaced)
    document = conversion.config.get("mongoRealmAuthenticator", "create-user-document")
    if not isinstance(document, str) or not conversion.config.on("mongoRealmAuthenticator"):
        return
    if _PUBLISHED_HASH in document or f'"{_PUBLISHED}"' in document:
        return  # docgraph creates the first user with a random password
    old = ("mongoRealmAuthenticator", "create-user-document")
    conversion.put("dbRealmAuthenticator", "create-user-document", document, was=old)


def _replace(conversion: Conversion, user: Any) -> Any:
    if not isinstance(user, dict) or user.get("password") != _PUBLISHED:
        return user
    what = "has the published password: the new file has a new one"
    where = f"fileRealmAuthenticator.users[userid='{user.get('userid')}'].password"
    conversion.add(ReportList.MORE, "new-password", where, what, "log in with the new password")
    return {**user, "password": secrets.token_urlsafe(12)}
