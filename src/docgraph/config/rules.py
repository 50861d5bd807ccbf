"""Mixes of options that cannot work: one small function per rule, all of them in `RULES`.

A rule looks only at sections that are enabled and could be decoded, and blames the option that
somebody has set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from docgraph.config.nearest import suggest
from docgraph.config.section import View
from docgraph.config.sections import (
    AuthCookieHandler,
    AuthCookieRemover,
    AuthCookieSetter,
    BasicAuthMechanism,
    DbRealmAuthenticator,
    DigestAuthMechanism,
    FileRealmAuthenticator,
    IdentityAuthMechanism,
    JwtAuthenticationMechanism,
    JwtTokenManager,
    RndTokenManager,
    TokenBasicAuthMechanism,
)
from docgraph.exchange.errors import Problem

__all__ = ["RULES", "find_conflicts"]

_BCRYPT: Final = re.compile(r"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}")
_COOKIES: Final = (AuthCookieSetter, AuthCookieHandler, AuthCookieRemover)


def find_conflicts(view: View) -> list[Problem]:
    """What all rules find."""
    return [problem for rule in RULES for problem in rule(view)]


def one_token_manager(view: View) -> Iterator[Problem]:
    """Decision 29: both managers on is no start."""
    if view.on(RndTokenManager) and view.on(JwtTokenManager):
        yield view.blame(
            "/jwtTokenManager/enabled",
            "rndTokenManager and jwtTokenManager are both on",
            "set /rndTokenManager/enabled to false to use jwtTokenManager",
            "/rndTokenManager/enabled",
        )


def token_manager_has_a_key(view: View) -> Iterator[Problem]:
    """Decision 31: the key of jwtTokenManager is required, and not shorter than the hash."""
    manager = view.on(JwtTokenManager)
    if manager is None:
        return
    if manager.key is None:
        yield view.blame(
            "/jwtTokenManager/key",
            "jwtTokenManager is on and has no key",
            "set it to a random text of at least 32 bytes",
            "/jwtTokenManager/enabled",
        )
    elif _is_short(manager.key, "HS256"):
        yield view.blame(
            "/jwtTokenManager/key", "the key is shorter than 32 bytes", "use a longer random text"
        )


def jwt_has_a_key(view: View) -> Iterator[Problem]:
    """Decision 31: a key or a key set, and a secret not shorter than its hash."""
    jwt = view.on(JwtAuthenticationMechanism)
    if jwt is None:
        return
    if jwt.key is None and jwt.jwks is None:
        yield view.blame(
            "/jwtAuthenticationMechanism/key",
            "jwtAuthenticationMechanism is on and has neither key nor jwks",
            "set one of them",
            "/jwtAuthenticationMechanism/enabled",
        )
    elif jwt.key is not None and not jwt.allow_weak_key and _is_short(jwt.key, jwt.algorithm):
        yield view.blame(
            "/jwtAuthenticationMechanism/key",
            f"the key is shorter than the {_hash_bytes(jwt.algorithm)} bytes of {jwt.algorithm}",
            "use a longer random text, or set allow-weak-key to true if it cannot be changed",
        )


def _hash_bytes(algorithm: str) -> int:
    return int(algorithm[-3:]) // 8


def _is_short(key: str, algorithm: str) -> bool:
    return algorithm.startswith("H") and len(key.encode()) < _hash_bytes(algorithm)


def roles_have_one_source(view: View) -> Iterator[Problem]:
    """Decision 31: rolesClaim yields to fixedRoles; setting both is no start."""
    jwt = view.on(JwtAuthenticationMechanism)
    if jwt is None:
        return
    claim = "/jwtAuthenticationMechanism/rolesClaim"
    fixed = "/jwtAuthenticationMechanism/fixedRoles"
    if jwt.fixed_roles and view.tree.is_set(claim):
        yield view.blame(fixed, "rolesClaim and fixedRoles are both set", "remove one of them")
    if jwt.roles_claim is None and not jwt.fixed_roles:
        yield view.blame(claim, "neither rolesClaim nor fixedRoles is set", "set one of them")


def identity_excludes_digest(view: View) -> Iterator[Problem]:
    """With identity nobody is ever challenged, so that digest could never begin."""
    if view.on(IdentityAuthMechanism) and view.on(DigestAuthMechanism):
        yield view.blame(
            "/identityAuthMechanism/enabled",
            "identityAuthMechanism cannot be used together with digestAuthMechanism",
            "set one of them to false",
            "/digestAuthMechanism/enabled",
        )


def authenticators_exist(view: View) -> Iterator[Problem]:
    """A mechanism names an authenticator that is there and on."""
    built_in = {
        "dbRealmAuthenticator": view.get(DbRealmAuthenticator),
        "fileRealmAuthenticator": view.get(FileRealmAuthenticator),
    }
    plugins = view.plugins
    for section in (BasicAuthMechanism, DigestAuthMechanism):
        mechanism = view.on(section)
        if not isinstance(mechanism, BasicAuthMechanism | DigestAuthMechanism):
            continue
        name, path = mechanism.authenticator, f"/{section.section_name}/authenticator"
        authenticator = built_in.get(name)
        if name not in built_in and name not in plugins:
            yield view.blame(
                path, f"there is no authenticator '{name}'", suggest(name, [*built_in, *plugins])
            )
        elif authenticator is not None and not authenticator.enabled:
            yield view.blame(
                path,
                f"the authenticator '{name}' is off",
                f"set /{name}/enabled to true, or name another one",
                f"/{name}/enabled",
                f"/{section.section_name}/enabled",
            )


def digest_can_verify(view: View) -> Iterator[Problem]:
    """Decision 36: a digest cannot be computed from a bcrypt hash."""
    digest, realm = view.on(DigestAuthMechanism), view.on(DbRealmAuthenticator)
    if digest is None or realm is None or digest.authenticator != "dbRealmAuthenticator":
        return
    if realm.bcrypt_hashed_password and realm.prop_ha1 is None:
        yield view.blame(
            "/digestAuthMechanism/enabled",
            "digest cannot verify passwords that are hashed with bcrypt",
            "store HA1 values and name their property in /dbRealmAuthenticator/prop-ha1, or use "
            "another authenticator",
        )


def first_user_is_hashed(view: View) -> Iterator[Problem]:
    """Decision 35: no plaintext password in create-user-document while hashing is on."""
    realm = view.on(DbRealmAuthenticator)
    if realm is None or not realm.create_user or realm.create_user_document is None:
        return
    path = "/dbRealmAuthenticator/create-user-document"
    document = _parse_object(realm.create_user_document)
    if document is None:
        yield view.blame(path, "not the JSON text of an object", "write it in single quotes")
        return
    password = document.get(realm.prop_password)
    if not isinstance(password, str):
        yield view.blame(path, f"the user has no text '{realm.prop_password}'")
    elif realm.bcrypt_hashed_password and not _BCRYPT.fullmatch(password):
        yield view.blame(
            path,
            "the password is plain text while bcrypt-hashed-password is on",
            "make a hash with 'docgraph users hash'",
        )


def _parse_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def files_or_lists_are_given(view: View) -> Iterator[Problem]:
    """A realm of the file kind has to come from somewhere."""
    realm = view.on(FileRealmAuthenticator)
    if realm is not None and realm.conf_file is None and not realm.users:
        yield view.blame(
            "/fileRealmAuthenticator/users",
            "fileRealmAuthenticator is on and has no users",
            "set conf-file or users",
            "/fileRealmAuthenticator/enabled",
        )


def cookies_come_as_three(view: View) -> Iterator[Problem]:
    """Cookie authentication needs the setter, the handler and the remover."""
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


def cookies_have_a_token(view: View) -> Iterator[Problem]:
    """One of the three option sets: a manager that issues and a mechanism that verifies."""
    parts = (
        RndTokenManager,
        JwtTokenManager,
        TokenBasicAuthMechanism,
        JwtAuthenticationMechanism,
    )
    if not view.knows(*parts) or not any(view.on(section) for section in _COOKIES):
        return
    random, signed, basic, jwt = (view.on(section) is not None for section in parts)
    path = "/authCookieSetter/enabled"
    if not random and not signed:
        yield view.blame(
            path, "cookies need a token manager", "turn on rndTokenManager or jwtTokenManager"
        )
    elif not basic and not (signed and jwt):
        yield view.blame(
            path,
            "no mechanism that is on can verify the token in a cookie",
            "turn on tokenBasicAuthMechanism",
            "/tokenBasicAuthMechanism/enabled",
        )


def jwt_sections_agree(view: View) -> Iterator[Problem]:
    """Decision 30: what jwtTokenManager puts in a cookie, the JWT mechanism must accept."""
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


def _is_accepted(given: str | tuple[str, ...] | None, wanted: str | tuple[str, ...] | None) -> bool:
    if wanted is None:
        return True
    return bool(_as_set(given) & _as_set(wanted))


def _as_set(audience: str | tuple[str, ...] | None) -> set[str]:
    if audience is None:
        return set()
    return {audience} if isinstance(audience, str) else set(audience)


RULES: Final = (
    one_token_manager,
    token_manager_has_a_key,
    jwt_has_a_key,
    roles_have_one_source,
    identity_excludes_digest,
    authenticators_exist,
    digest_can_verify,
    first_user_is_hashed,
    files_or_lists_are_given,
    cookies_come_as_three,
    cookies_have_a_token,
    jwt_sections_agree,
)
