"""Configuration sections of the authentication mechanisms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from docgraph.auth.authenticators.sections import DbRealmAuthenticator, FileRealmAuthenticator
from docgraph.auth.tokens.sections import JwtTokenManager, RndTokenManager, hash_bytes, is_short
from docgraph.config.nearest import suggest
from docgraph.config.section import Name, PluginConfig, Secret, View
from docgraph.exchange.errors import Problem

Realm = Annotated[
    str,
    Meta(
        pattern=r'^[^"\\\x00-\x1f\x7f]{1,255}\Z',
        extra={"form": "printable text without quotes and backslashes"},
    ),
]
JwtAlgorithm = Literal[
    "HS256",
    "HS384",
    "HS512",
    "RS256",
    "RS384",
    "RS512",
    "HMAC256",
    "HMAC384",
    "HMAC512",
    "RSA256",
    "RSA384",
    "RSA512",
]


class BasicAuthMechanism(PluginConfig, frozen=True):
    """`Authorization: Basic` with user id and password."""

    section_name: ClassVar[str] = "basicAuthMechanism"
    enabled: Annotated[bool, "whether the mechanism is on"] = True
    authenticator: Annotated[Name, "authenticator that knows the users"] = "dbRealmAuthenticator"
    realm: Annotated[Realm, "realm of the challenge"] = "docgraph"

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        yield from _check_authenticator(self, view)


class DigestAuthMechanism(PluginConfig, frozen=True):
    """`Authorization: Digest`."""

    section_name: ClassVar[str] = "digestAuthMechanism"
    enabled: Annotated[bool, "whether the mechanism is on"] = False
    realm: Annotated[Realm, "realm of the challenge"] = "docgraph"
    domain: Annotated[Realm, "domain of the challenge"] = "/"
    authenticator: Annotated[Name, "authenticator that knows the users"] = "dbRealmAuthenticator"
    algorithms: Annotated[
        tuple[Literal["MD5", "SHA-256"], ...],
        Meta(min_length=1),
        "algorithms offered, one challenge each",
    ] = ("MD5",)
    key: Annotated[
        Secret | None,
        "key that nonces are made with; give the same to all instances that share clients; the "
        "default is random per instance",
    ] = None

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        """Decision 36: a digest cannot be computed from a bcrypt hash."""
        yield from _check_authenticator(self, view)
        realm = view.on(DbRealmAuthenticator)
        if not self.enabled or realm is None or self.authenticator != realm.section_name:
            return
        if realm.bcrypt_hashed_password and realm.prop_ha1 is None:
            yield view.blame(
                "/digestAuthMechanism/enabled",
                "digest cannot verify passwords that are hashed with bcrypt",
                "store HA1 values and name their property in /dbRealmAuthenticator/prop-ha1, or "
                "use another authenticator",
            )


class TokenBasicAuthMechanism(PluginConfig, frozen=True):
    """`Authorization: Basic` with user id and token; needs a token manager."""

    section_name: ClassVar[str] = "tokenBasicAuthMechanism"
    enabled: Annotated[bool, "whether the mechanism is on"] = True

    def give_advice(self, view: View) -> Iterator[Problem]:
        """Advise when tokens are issued but not verified, or the reverse."""
        if not view.knows(RndTokenManager, JwtTokenManager):
            return
        is_issued = view.on(RndTokenManager) or view.on(JwtTokenManager)
        if self.enabled and not is_issued:
            yield view.blame(
                "/tokenBasicAuthMechanism/enabled",
                "no token manager of docgraph is on, whose tokens tokenBasicAuthMechanism would "
                "verify",
                "turn on rndTokenManager or jwtTokenManager, or set "
                "/tokenBasicAuthMechanism/enabled to false; a plugin may bring a manager, too",
                "/rndTokenManager/enabled",
            )
        if not self.enabled and view.on(RndTokenManager):
            yield view.blame(
                "/tokenBasicAuthMechanism/enabled",
                "no mechanism verifies the tokens that rndTokenManager issues",
                "set /rndTokenManager/enabled to false, too, or this one to true",
            )


class JwtAuthenticationMechanism(PluginConfig, frozen=True):
    """`Authorization: Bearer` with a JSON Web Token."""

    section_name: ClassVar[str] = "jwtAuthenticationMechanism"
    enabled: Annotated[bool, "whether the mechanism is on"] = False
    algorithm: Annotated[JwtAlgorithm, "the one algorithm accepted"] = "HS256"
    key: Annotated[
        Secret | None,
        "secret for HMAC; public key or certificate for RSA, as PEM text or as the path of a PEM "
        "file",
    ] = None
    base64_encoded: Annotated[bool, "whether the whole token is base64-encoded again"] = (
        msgspec.field(name="base64Encoded", default=False)
    )
    username_claim: Annotated[Name, "claim that holds the user id"] = msgspec.field(
        name="usernameClaim", default="sub"
    )
    roles_claim: Annotated[
        Name | None, "claim that holds the roles; not together with `fixedRoles`"
    ] = msgspec.field(name="rolesClaim", default="roles")
    fixed_roles: Annotated[
        tuple[str, ...] | None, "roles of every caller; not together with `rolesClaim`"
    ] = msgspec.field(name="fixedRoles", default=None)
    issuer: Annotated[Name | None, "issuer that a token must name; null checks none"] = None
    audience: Annotated[
        Name | tuple[str, ...] | None,
        "audience that a token must name, or a list of which one; null: any",
    ] = None
    require_exp: Annotated[bool, "refuse tokens that never expire"] = True
    leeway: Annotated[int, Meta(ge=0, le=3600), "seconds that clocks may differ"] = 30
    allow_weak_key: Annotated[bool, "accept a secret that is shorter than the hash"] = False
    jwks: Annotated[Name | None, "address or file of a key set, in place of `key`"] = None
    shares_users: Annotated[
        bool,
        "whether tokens of other issuers name users of this service: deleting a user or changing "
        "a password then ends their older tokens, too",
    ] = False

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        """Decision 31: a key or a key set, and one source of roles."""
        if self.enabled:
            yield from self._check_key(view)
            yield from self._check_roles(view)

    def _check_key(self, view: View) -> Iterator[Problem]:
        """Check that a secret is not shorter than its hash."""
        if self.key is None and self.jwks is None:
            yield view.blame(
                "/jwtAuthenticationMechanism/key",
                "jwtAuthenticationMechanism is on and has neither key nor jwks",
                "set one of them",
                "/jwtAuthenticationMechanism/enabled",
            )
        elif self.key is not None and self.jwks is not None:
            yield view.blame(
                "/jwtAuthenticationMechanism/jwks",
                "key and jwks are both set",
                "remove one of them",
            )
        elif (
            self.key is not None and not self.allow_weak_key and is_short(self.key, self.algorithm)
        ):
            yield view.blame(
                "/jwtAuthenticationMechanism/key",
                f"the key is shorter than the {hash_bytes(self.algorithm)} bytes of "
                f"{self.algorithm}",
                "use a longer random text, or set allow-weak-key to true if it cannot be changed",
            )

    def _check_roles(self, view: View) -> Iterator[Problem]:
        """Check that only one of rolesClaim and fixedRoles is set."""
        claim = "/jwtAuthenticationMechanism/rolesClaim"
        fixed = "/jwtAuthenticationMechanism/fixedRoles"
        if self.fixed_roles and view.tree.is_set(claim):
            yield view.blame(fixed, "rolesClaim and fixedRoles are both set", "remove one of them")
        if self.roles_claim is None and not self.fixed_roles:
            yield view.blame(claim, "neither rolesClaim nor fixedRoles is set", "set one of them")


class ApiKeyMechanism(PluginConfig, frozen=True):
    """`Authorization: Bearer` with an API key; and the service that lists and makes keys."""

    section_name: ClassVar[str] = "apiKeyMechanism"
    enabled: Annotated[bool, Meta(description="whether the mechanism is on")] = False
    header: Annotated[
        Annotated[str, Meta(pattern=r"^[Xx]-[A-Za-z0-9-]{1,60}\Z")] | None,
        Meta(description="header that may hold a key, too, such as `X-API-Key`; null: none"),
    ] = None
    max_age_days: Annotated[
        int, Meta(description="days after which a key ends at the latest", ge=1, le=395)
    ] = 365
    max_keys_per_user: Annotated[
        int, Meta(description="keys that a user can own", ge=1, le=10_000)
    ] = 100
    allow_root_role: Annotated[
        bool, Meta(description="whether a key may have the root role of its owner")
    ] = False


class IdentityAuthMechanism(PluginConfig, frozen=True):
    """Takes requests without accepted credentials as coming from one account; for tests only."""

    section_name: ClassVar[str] = "identityAuthMechanism"
    enabled: Annotated[bool, "whether the mechanism is on"] = False
    username: Annotated[Name, "user id of the account"] = "admin"
    roles: Annotated[tuple[str, ...], "roles of the account"] = ("admin", "user")

    def find_conflicts(self, view: View) -> Iterator[Problem]:
        """Reject identity together with digest: without a challenge, digest could never begin."""
        if self.enabled and view.on(DigestAuthMechanism):
            yield view.blame(
                "/identityAuthMechanism/enabled",
                "identityAuthMechanism cannot be used together with digestAuthMechanism",
                "set one of them to false",
                "/digestAuthMechanism/enabled",
            )

    def give_advice(self, view: View) -> Iterator[Problem]:
        """Warn that every request is authenticated: acceptable for tests only."""
        if self.enabled:
            yield view.blame(
                "/identityAuthMechanism/enabled",
                "every request without other credentials counts as one account",
                "use it for tests only",
            )


def _check_authenticator(
    mechanism: BasicAuthMechanism | DigestAuthMechanism, view: View
) -> Iterator[Problem]:
    """Check that a mechanism names an authenticator that exists and is enabled."""
    if not mechanism.enabled:
        return
    ours = (DbRealmAuthenticator, FileRealmAuthenticator)
    sections = {section.section_name: view.get(section) for section in ours}
    name, path = mechanism.authenticator, f"/{mechanism.section_name}/authenticator"
    authenticator = sections.get(name)
    if name not in sections and name not in view.plugins:
        yield view.blame(
            path, f"there is no authenticator '{name}'", suggest(name, [*sections, *view.plugins])
        )
    elif authenticator is not None and not authenticator.enabled:
        yield view.blame(
            path,
            f"the authenticator '{name}' is off",
            f"set /{name}/enabled to true, or name another one",
            f"/{name}/enabled",
            f"/{mechanism.section_name}/enabled",
        )
