"""Every named section of the configuration: one frozen struct each, and the names they go by.

The order of `SECTIONS` is the order of the template, of `docgraph config show` and of the
reference page.
"""

from __future__ import annotations

from docgraph.config.section import Section
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
from docgraph.config.sections.core import Core, Logging, MClient
from docgraph.config.sections.graphql import (
    GraphAppsInitializer,
    GraphAppsUpdater,
    Graphql,
    GraphqlLimits,
    Mcp,
)
from docgraph.config.sections.listeners import (
    ConnectionOptions,
    Cors,
    HttpListener,
    HttpsListener,
)
from docgraph.config.sections.rest import (
    DatabaseProbe,
    EtagCheckPolicy,
    Metrics,
    Mongo,
    MongoMount,
    Ping,
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
    "SECTIONS",
    "AggregationSecurity",
    "AuthCookieHandler",
    "AuthCookieRemover",
    "AuthCookieSetter",
    "AuthTokenService",
    "BasicAuthMechanism",
    "BruteForceAttackGuard",
    "ConnectionOptions",
    "Core",
    "Cors",
    "DatabaseProbe",
    "DbAclAuthorizer",
    "DbRealmAuthenticator",
    "DigestAuthMechanism",
    "EtagCheckPolicy",
    "FileAclAuthorizer",
    "FileRealmAuthenticator",
    "FilterOperatorsBlacklist",
    "FullAuthorizer",
    "GraphAppsInitializer",
    "GraphAppsUpdater",
    "Graphql",
    "GraphqlLimits",
    "HttpListener",
    "HttpsListener",
    "IdentityAuthMechanism",
    "JwtAuthenticationMechanism",
    "JwtTokenManager",
    "Logging",
    "MClient",
    "Mcp",
    "Metrics",
    "Mongo",
    "MongoMount",
    "OriginVetoer",
    "Ping",
    "RndTokenManager",
    "Roles",
    "RootRoleGuard",
    "TokenBasicAuthMechanism",
]

SECTIONS: dict[str, type[Section]] = {
    "core": Core,
    "http-listener": HttpListener,
    "https-listener": HttpsListener,
    "connection-options": ConnectionOptions,
    "cors": Cors,
    "logging": Logging,
    "mclient": MClient,
    "mongo": Mongo,
    "graphql": Graphql,
    "graphAppsInitializer": GraphAppsInitializer,
    "graphAppsUpdater": GraphAppsUpdater,
    "mcp": Mcp,
    "ping": Ping,
    "database-probe": DatabaseProbe,
    "metrics": Metrics,
    "tokenBasicAuthMechanism": TokenBasicAuthMechanism,
    "basicAuthMechanism": BasicAuthMechanism,
    "digestAuthMechanism": DigestAuthMechanism,
    "jwtAuthenticationMechanism": JwtAuthenticationMechanism,
    "identityAuthMechanism": IdentityAuthMechanism,
    "dbRealmAuthenticator": DbRealmAuthenticator,
    "fileRealmAuthenticator": FileRealmAuthenticator,
    "rndTokenManager": RndTokenManager,
    "jwtTokenManager": JwtTokenManager,
    "authTokenService": AuthTokenService,
    "authCookieSetter": AuthCookieSetter,
    "authCookieHandler": AuthCookieHandler,
    "authCookieRemover": AuthCookieRemover,
    "roles": Roles,
    "bruteForceAttackGuard": BruteForceAttackGuard,
    "dbAclAuthorizer": DbAclAuthorizer,
    "fileAclAuthorizer": FileAclAuthorizer,
    "fullAuthorizer": FullAuthorizer,
    "originVetoer": OriginVetoer,
    "filterOperatorsBlacklist": FilterOperatorsBlacklist,
    "rootRoleGuard": RootRoleGuard,
    "aggregationSecurity": AggregationSecurity,
}
