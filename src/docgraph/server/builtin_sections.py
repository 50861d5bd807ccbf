"""Built-in sections of the configuration; each package declares its own.

Their order is the order of the template, of `docgraph config show` and of the reference page.
"""

from __future__ import annotations

from typing import Final

from docgraph.access.sections import (
    Acl,
    DbAclAuthorizer,
    FileAclAuthorizer,
    FilterOperatorsBlacklist,
    FullAuthorizer,
    OriginVetoer,
    RootRoleGuard,
)
from docgraph.auth.authenticators.sections import DbRealmAuthenticator, FileRealmAuthenticator
from docgraph.auth.cookies.sections import AuthCookieHandler, AuthCookieRemover, AuthCookieSetter
from docgraph.auth.guard.sections import BruteForceAttackGuard
from docgraph.auth.mechanisms.sections import (
    BasicAuthMechanism,
    DigestAuthMechanism,
    IdentityAuthMechanism,
    JwtAuthenticationMechanism,
    TokenBasicAuthMechanism,
)
from docgraph.auth.sections import AuthenticationOptions, Roles
from docgraph.auth.tokens.sections import AuthTokenService, JwtTokenManager, RndTokenManager
from docgraph.config.section import Section
from docgraph.console.sections import Console
from docgraph.events.sections import Events
from docgraph.graphql.sections import GraphAppsInitializer, GraphAppsUpdater, Graphql
from docgraph.mcp.sections import Mcp
from docgraph.observe.sections import Logging, Otel
from docgraph.openapi.sections import OpenApi, OpenApiPage
from docgraph.rest.sections import Mongo
from docgraph.runtime.sections import Core, Cors
from docgraph.server.batch.sections import Batch
from docgraph.server.rate_limits.sections import CallerLimits
from docgraph.server.sections import ConnectionOptions, HttpListener, HttpsListener
from docgraph.server.services.sections import DatabaseProbe, Metrics, OwnRights, Ping, VisibleApps
from docgraph.store.sections import AggregationSecurity, MClient
from docgraph.workbench.sections import Tools

_IN_ORDER: Final[tuple[type[Section], ...]] = (
    Core,
    HttpListener,
    HttpsListener,
    ConnectionOptions,
    Cors,
    Logging,
    Otel,
    MClient,
    Mongo,
    Batch,
    Events,
    Graphql,
    GraphAppsInitializer,
    GraphAppsUpdater,
    Mcp,
    Tools,
    VisibleApps,
    OwnRights,
    Console,
    Ping,
    DatabaseProbe,
    Metrics,
    OpenApi,
    OpenApiPage,
    AuthenticationOptions,
    TokenBasicAuthMechanism,
    BasicAuthMechanism,
    DigestAuthMechanism,
    JwtAuthenticationMechanism,
    IdentityAuthMechanism,
    DbRealmAuthenticator,
    FileRealmAuthenticator,
    RndTokenManager,
    JwtTokenManager,
    AuthTokenService,
    AuthCookieSetter,
    AuthCookieHandler,
    AuthCookieRemover,
    Roles,
    BruteForceAttackGuard,
    CallerLimits,
    Acl,
    DbAclAuthorizer,
    FileAclAuthorizer,
    FullAuthorizer,
    OriginVetoer,
    FilterOperatorsBlacklist,
    RootRoleGuard,
    AggregationSecurity,
)

SECTIONS: Final = {section.section_name: section for section in _IN_ORDER}
