"""Every named section of the configuration: one frozen struct each."""

from __future__ import annotations

from docgraph.config.sections.access import (
    AggregationSecurity,
    DbAclAuthorizer,
    FileAclAuthorizer,
    FilterOperatorsBlacklist,
    FullAuthorizer,
    OriginVetoer,
    RootRoleGuard,
)
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
from docgraph.config.sections.listeners import (
    ConnectionOptions,
    Cors,
    HttpListener,
    HttpsListener,
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
    "AggregationSecurity",
    "AuthCookieHandler",
    "AuthCookieRemover",
    "AuthCookieSetter",
    "AuthTokenService",
    "BasicAuthMechanism",
    "BruteForceAttackGuard",
    "ConnectionOptions",
    "Cors",
    "DbAclAuthorizer",
    "DbRealmAuthenticator",
    "DigestAuthMechanism",
    "FileAclAuthorizer",
    "FileRealmAuthenticator",
    "FilterOperatorsBlacklist",
    "FullAuthorizer",
    "HttpListener",
    "HttpsListener",
    "IdentityAuthMechanism",
    "JwtAuthenticationMechanism",
    "JwtTokenManager",
    "OriginVetoer",
    "RndTokenManager",
    "Roles",
    "RootRoleGuard",
    "TokenBasicAuthMechanism",
]
