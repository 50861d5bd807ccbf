"""Who is calling: mechanisms, authenticators, token managers, cookies and the brute force guard."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from docgraph.config.section import ConfigurationPath, PluginConfig, Secret, ServiceConfig, Uri

__all__ = [
    "BasicAuthMechanism",
    "BruteForceAttackGuard",
    "DbRealmAuthenticator",
    "DigestAuthMechanism",
    "FileRealmAuthenticator",
    "IdentityAuthMechanism",
    "JwtAlgorithm",
    "JwtAuthenticationMechanism",
    "Roles",
    "TokenBasicAuthMechanism",
]

Name = Annotated[str, Meta(min_length=1, max_length=255)]
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
    enabled: Annotated[bool, Meta(description="whether the mechanism is on")] = True
    authenticator: Annotated[Name, Meta(description="authenticator that knows the users")] = (
        "dbRealmAuthenticator"
    )
    realm: Annotated[Realm, Meta(description="realm of the challenge")] = "docgraph"


class DigestAuthMechanism(PluginConfig, frozen=True):
    """`Authorization: Digest`."""

    section_name: ClassVar[str] = "digestAuthMechanism"
    enabled: Annotated[bool, Meta(description="whether the mechanism is on")] = False
    realm: Annotated[Realm, Meta(description="realm of the challenge")] = "docgraph"
    domain: Annotated[Realm, Meta(description="domain of the challenge")] = "/"
    authenticator: Annotated[Name, Meta(description="authenticator that knows the users")] = (
        "dbRealmAuthenticator"
    )
    algorithms: Annotated[
        tuple[Literal["MD5", "SHA-256"], ...],
        Meta(description="algorithms offered, one challenge each", min_length=1),
    ] = ("MD5",)
    key: Annotated[
        Secret | None,
        Meta(
            description="key that nonces are made with; give the same to all instances that "
            "share clients; the default is random per instance"
        ),
    ] = None


class TokenBasicAuthMechanism(PluginConfig, frozen=True):
    """`Authorization: Basic` with user id and token; needs a token manager."""

    section_name: ClassVar[str] = "tokenBasicAuthMechanism"
    enabled: Annotated[bool, Meta(description="whether the mechanism is on")] = True


class JwtAuthenticationMechanism(PluginConfig, frozen=True):
    """`Authorization: Bearer` with a JSON Web Token."""

    section_name: ClassVar[str] = "jwtAuthenticationMechanism"
    enabled: Annotated[bool, Meta(description="whether the mechanism is on")] = False
    algorithm: Annotated[JwtAlgorithm, Meta(description="the one algorithm accepted")] = "HS256"
    key: Annotated[
        Secret | None,
        Meta(
            description="secret for HMAC; public key or certificate for RSA, as PEM text or as "
            "the path of a PEM file"
        ),
    ] = None
    base64_encoded: Annotated[
        bool, Meta(description="whether the whole token is base64 once more")
    ] = msgspec.field(name="base64Encoded", default=False)
    username_claim: Annotated[Name, Meta(description="claim that holds the user id")] = (
        msgspec.field(name="usernameClaim", default="sub")
    )
    roles_claim: Annotated[
        Name | None,
        Meta(description="claim that holds the roles; not together with `fixedRoles`"),
    ] = msgspec.field(name="rolesClaim", default="roles")
    fixed_roles: Annotated[
        tuple[str, ...] | None,
        Meta(description="roles of every caller; not together with `rolesClaim`"),
    ] = msgspec.field(name="fixedRoles", default=None)
    issuer: Annotated[
        Name | None, Meta(description="issuer that a token must name; null checks none")
    ] = None
    audience: Annotated[
        Name | tuple[str, ...] | None,
        Meta(description="audience that a token must name, or a list of which one; null: any"),
    ] = None
    require_exp: Annotated[bool, Meta(description="refuse tokens that never expire")] = True
    leeway: Annotated[int, Meta(description="seconds that clocks may differ", ge=0, le=3600)] = 30
    allow_weak_key: Annotated[
        bool, Meta(description="accept a secret that is shorter than the hash")
    ] = False
    jwks: Annotated[
        Name | None, Meta(description="address or file of a key set, in place of `key`")
    ] = None


class IdentityAuthMechanism(PluginConfig, frozen=True):
    """Takes every request as coming from one account; for tests only."""

    section_name: ClassVar[str] = "identityAuthMechanism"
    enabled: Annotated[bool, Meta(description="whether the mechanism is on")] = False
    username: Annotated[Name, Meta(description="user id of the account")] = "admin"
    roles: Annotated[tuple[str, ...], Meta(description="roles of the account")] = ("admin", "user")


class DbRealmAuthenticator(PluginConfig, frozen=True):
    """Users in a collection of the database."""

    section_name: ClassVar[str] = "dbRealmAuthenticator"
    enabled: Annotated[bool, Meta(description="whether the authenticator is on")] = True
    users_db: Annotated[Name, Meta(description="database of the users")] = "docgraph"
    users_collection: Annotated[Name, Meta(description="collection of the users")] = "users"
    prop_id: Annotated[
        str,
        Meta(
            description="property that holds the user id",
            pattern=r"^[^$\s][^\s]*\Z",
            extra={"form": "the name of a property, which does not begin with '$'"},
        ),
    ] = "_id"
    prop_password: Annotated[
        str,
        Meta(
            description="property that holds the password",
            pattern=r"^[^$.\s][^.\s]*\Z",
            extra={"secret": False, "form": "the name of a top-level property"},
        ),
    ] = "password"  # noqa: S105 - the name of a property
    prop_ha1: Annotated[
        Name | None,
        Meta(
            description="property that holds HA1 values, for digest beside hashed passwords",
            extra={"secret": False},
        ),
    ] = None
    json_path_roles: Annotated[
        str,
        Meta(
            description="JSON path of the roles",
            pattern=r"^\$",
            extra={"form": "a JSON path that begins with '$'"},
        ),
    ] = "$.roles"
    bcrypt_hashed_password: Annotated[
        bool, Meta(description="whether passwords are hashed", extra={"secret": False})
    ] = True
    bcrypt_complexity: Annotated[int, Meta(description="cost of the hash", ge=4, le=20)] = 12
    create_user: Annotated[
        bool, Meta(description="create the collection and a first user when there is none")
    ] = True
    create_user_document: Annotated[
        str | None,
        Meta(
            description="the first user as JSON text, the password hashed; without it, `admin` "
            "with a random password that is printed once",
            extra={"secret": True},
        ),
    ] = None
    cache_enabled: Annotated[bool, Meta(description="keep users in memory")] = False
    cache_size: Annotated[int, Meta(description="users kept in memory", ge=1, le=1_000_000)] = 1000
    cache_ttl: Annotated[
        int, Meta(description="time that a user is kept, in ms", ge=1, le=86_400_000)
    ] = 60_000
    cache_expire_policy: Annotated[
        Literal["AFTER_WRITE", "AFTER_READ"],
        Meta(description="whether the time counts from the fetch or from the last use"),
    ] = "AFTER_WRITE"
    enforce_minimum_password_strength: Annotated[
        bool, Meta(description="refuse weak passwords", extra={"secret": False})
    ] = False
    minimum_password_strength: Annotated[
        int,
        Meta(
            description="0 weak, 1 fair, 2 good, 3 strong, 4 very strong",
            ge=0,
            le=4,
            extra={"secret": False},
        ),
    ] = 3


class FileRealmAuthenticator(PluginConfig, frozen=True):
    """Users in a file or in the configuration itself."""

    section_name: ClassVar[str] = "fileRealmAuthenticator"
    enabled: Annotated[bool, Meta(description="whether the authenticator is on")] = False
    conf_file: Annotated[
        ConfigurationPath | None,
        Meta(description="YAML file with a list `users`; wins over `users`"),
    ] = None
    users: Annotated[
        tuple[dict[str, Any], ...],
        Meta(description="users with `userid`, `password`, `roles` and any other property"),
    ] = ()


class Roles(ServiceConfig, frozen=True):
    """Tells callers their roles, at `<uri>/<userid>`."""

    section_name: ClassVar[str] = "roles"
    enabled: Annotated[bool, Meta(description="whether the service is on")] = True
    uri: Annotated[Uri, Meta(description="base path of the service")] = "/roles"


class BruteForceAttackGuard(PluginConfig, frozen=True):
    """Answers 429 to those who try passwords."""

    section_name: ClassVar[str] = "bruteForceAttackGuard"
    enabled: Annotated[bool, Meta(description="whether the guard is on")] = True
    max_failed_attempts: Annotated[
        int,
        Meta(description="failures of one address with one user in the window", ge=1, le=100_000),
    ] = 10
    max_failed_attempts_per_address: Annotated[
        int, Meta(description="failures of one address in the window", ge=1, le=1_000_000)
    ] = 100
    window_ms: Annotated[int, Meta(description="length of the window", ge=1000, le=86_400_000)] = (
        10_000
    )
