"""Every named section of the configuration: one frozen struct each."""

from __future__ import annotations

from docgraph.config.sections.auth import (
    BasicAuthMechanism,
    BruteForceAttackGuard,
    DbRealmAuthenticator,
    DigestAuthMechanism,
    FileRealmAuthenticator,
    IdentityAuthMechanism,
    JwtAuthenticationMechanism,
    Roles,
    TokenBasicAuthMechanism,
)
from docgraph.config.sections.tokens import (
    AuthCookieHandler,
    AuthCookieRemover,
    AuthCookieSetter,
    AuthTokenService,
    JwtTokenManager,
    RndTokenManager,
)

__all__ = [
    "AuthCookieHandler",
    "AuthCookieRemover",
    "AuthCookieSetter",
    "AuthTokenService",
    "BasicAuthMechanism",
    "BruteForceAttackGuard",
    "DbRealmAuthenticator",
    "DigestAuthMechanism",
    "FileRealmAuthenticator",
    "IdentityAuthMechanism",
    "JwtAuthenticationMechanism",
    "JwtTokenManager",
    "RndTokenManager",
    "Roles",
    "TokenBasicAuthMechanism",
]
