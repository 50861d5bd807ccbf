"""Built-in plugins, by feature: removing a line removes the feature."""

from __future__ import annotations

from docgraph.access.acl_registry import ACLRegistryAllower, ACLRegistryProvider, ACLRegistryVetoer
from docgraph.access.author_limits import DefinitionLimits
from docgraph.access.authorize import FilterOperatorsBlacklist, FullAuthorizer, OriginVetoer
from docgraph.access.dry_run import DryRunProvider
from docgraph.access.enforce import (
    HiddenReads,
    HiddenWrites,
    RequestMerger,
    ResponseProjector,
    WriteFilter,
)
from docgraph.access.explain_decision import AccessExplain
from docgraph.access.role_escalation import RootRoleGuard
from docgraph.access.rule_authorizers import (
    AclCollection,
    AclWatcher,
    DbAclAuthorizer,
    FileAclAuthorizer,
)
from docgraph.access.rule_warnings import RulesCheck
from docgraph.access.rule_writes import PermissionChecker, PermissionNotifier
from docgraph.access.rulebook import RuleBookProvider
from docgraph.auth.authenticators.db_users import DatabaseRealm
from docgraph.auth.authenticators.file_users import FileRealm
from docgraph.auth.authenticators.first_user import FirstUser
from docgraph.auth.authenticators.password_costs import PasswordCosts
from docgraph.auth.authenticators.user_writes import (
    AffectedUsers,
    PasswordHasher,
    PasswordStripper,
    UserChangeNotifier,
)
from docgraph.auth.brute_force import FailedLogins, LoginGuard, SuccessfulLogins
from docgraph.auth.cookies.cookie import (
    CookieClearer,
    CookieClearerOnRefusal,
    CookieHandler,
    CookieRemover,
    CookieSetter,
)
from docgraph.auth.mechanisms.api_key import ApiKeyMechanism, ApiKeyService, KeyHeader
from docgraph.auth.mechanisms.basic import BasicMechanism, IdentityMechanism, TokenBasicMechanism
from docgraph.auth.mechanisms.digest import DigestMechanism
from docgraph.auth.mechanisms.jwt import JwtMechanism
from docgraph.auth.tokens.claim_warnings import AccountBindings, ClaimsAdvisor
from docgraph.auth.tokens.revocation_watch import (
    RevocationsGate,
    RevocationsProvider,
    RevocationsWatcher,
)
from docgraph.auth.tokens.service import RolesService, TokenService
from docgraph.auth.tokens.token import TokenHeaders, TokenHeadersOnRefusal
from docgraph.auth.tokens.token_managers import JwtTokens, RandomTokens
from docgraph.authoring.service import ToolsService
from docgraph.console.service import ConsoleService
from docgraph.events.service import EventStreamsProvider
from docgraph.graphql.apps.app_index import AppsIndex, AppsIndexOnCreation
from docgraph.graphql.apps.app_plugins import AppsInitializer, AppsProvider, AppsUpdater
from docgraph.graphql.apps.definition_writes import (
    DefinitionChecker,
    DefinitionNotifier,
    DefinitionReader,
)
from docgraph.graphql.apps.history_plugins import DefinitionHistorian, HistoryKeeper
from docgraph.graphql.http.service import GraphqlService
from docgraph.mcp.oauth_metadata import McpChallenge, McpMetadata
from docgraph.mcp.service import McpService
from docgraph.openapi.service import OpenApiPageService, OpenApiService
from docgraph.plugins.kinds import Plugin
from docgraph.rest.handlers.stream_list import StreamListAllower
from docgraph.rest.news import CollectionNotifier, CollectionsUpdater
from docgraph.rest.schema_checks import (
    SchemaChecker,
    SchemaStoreChecker,
    SchemaStoreNotifier,
    SchemaStoreReader,
)
from docgraph.rest.service import MongoService
from docgraph.server.services.batch import BatchService
from docgraph.server.services.monitoring import DatabaseProbe, MetricsService, Ping
from docgraph.server.services.rights import OwnRights, VisibleApps
from docgraph.store import ClientProvider

BUILTIN: tuple[type[Plugin], ...] = (
    # the database client, for plugins
    ClientProvider,
    # authentication: mechanisms
    TokenBasicMechanism,
    BasicMechanism,
    DigestMechanism,
    JwtMechanism,
    ApiKeyMechanism,
    KeyHeader,
    ApiKeyService,
    IdentityMechanism,
    # authentication: realms, and what guards them
    DatabaseRealm,
    FileRealm,
    FirstUser,
    PasswordCosts,
    PasswordHasher,
    PasswordStripper,
    AffectedUsers,
    UserChangeNotifier,
    LoginGuard,
    FailedLogins,
    SuccessfulLogins,
    # authentication: tokens and cookies
    RandomTokens,
    JwtTokens,
    TokenService,
    TokenHeaders,
    TokenHeadersOnRefusal,
    RevocationsProvider,
    AccountBindings,
    RevocationsGate,
    RevocationsWatcher,
    ClaimsAdvisor,
    CookieHandler,
    CookieClearer,
    CookieClearerOnRefusal,
    CookieSetter,
    CookieRemover,
    RolesService,
    # authorization
    ACLRegistryProvider,
    ACLRegistryVetoer,
    ACLRegistryAllower,
    RuleBookProvider,
    FileAclAuthorizer,
    DbAclAuthorizer,
    AclCollection,
    AclWatcher,
    RulesCheck,
    FullAuthorizer,
    OriginVetoer,
    FilterOperatorsBlacklist,
    RootRoleGuard,
    PermissionChecker,
    PermissionNotifier,
    HiddenReads,
    HiddenWrites,
    WriteFilter,
    RequestMerger,
    ResponseProjector,
    DryRunProvider,
    DefinitionLimits,
    AccessExplain,
    # GraphQL apps
    GraphqlService,
    AppsProvider,
    AppsInitializer,
    AppsUpdater,
    AppsIndex,
    AppsIndexOnCreation,
    DefinitionChecker,
    DefinitionNotifier,
    DefinitionHistorian,
    DefinitionReader,
    HistoryKeeper,
    # MCP, for agents
    McpService,
    McpMetadata,
    McpChallenge,
    # tools for authors, and the page that uses them
    ToolsService,
    VisibleApps,
    OwnRights,
    ConsoleService,
    # documents, and what happens to them
    MongoService,
    BatchService,
    EventStreamsProvider,
    StreamListAllower,
    CollectionNotifier,
    CollectionsUpdater,
    SchemaChecker,
    SchemaStoreChecker,
    SchemaStoreReader,
    SchemaStoreNotifier,
    OpenApiService,
    OpenApiPageService,
    # the server itself
    Ping,
    DatabaseProbe,
    MetricsService,
)
