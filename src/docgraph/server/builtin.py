"""Built-in plugins, by feature: removing a line removes the feature."""

from __future__ import annotations

from docgraph.access import (
    acl_registry,
    author_limits,
    authorize,
    dry_run,
    enforce,
    explain_decision,
    role_escalation,
    rule_authorizers,
    rule_warnings,
    rule_writes,
    rulebook,
)
from docgraph.auth import api_key_service, brute_force
from docgraph.auth.authenticators import (
    db_users,
    file_users,
    first_user,
    password_costs,
    user_writes,
)
from docgraph.auth.cookies import cookie
from docgraph.auth.mechanisms import api_key, basic, digest, jwt
from docgraph.auth.tokens import claim_warnings, revocation_watch, token, token_managers
from docgraph.auth.tokens import service as token_service
from docgraph.authoring import service as authoring_service
from docgraph.console import service as console_service
from docgraph.events import service as event_service
from docgraph.graphql.apps import app_index, app_plugins, definition_writes, history_plugins
from docgraph.graphql.http import service as graphql_service
from docgraph.mcp import oauth_metadata
from docgraph.mcp import service as mcp_service
from docgraph.openapi import service as openapi_service
from docgraph.plugins.kinds import Plugin
from docgraph.rest import news, schema_checks
from docgraph.rest import service as rest_service
from docgraph.rest.handlers import stream_list
from docgraph.server.services import batch, monitoring, rights
from docgraph.store import ClientProvider

BUILTIN: tuple[type[Plugin], ...] = (
    # the database client, for plugins
    ClientProvider,
    # authentication: mechanisms
    basic.TokenBasicMechanism,
    basic.BasicMechanism,
    digest.DigestMechanism,
    jwt.JwtMechanism,
    api_key.ApiKeyMechanism,
    api_key.KeyHeader,
    api_key_service.ApiKeyService,
    basic.IdentityMechanism,
    # authentication: realms, and what guards them
    db_users.DatabaseRealm,
    file_users.FileRealm,
    first_user.FirstUser,
    password_costs.PasswordCosts,
    user_writes.PasswordHasher,
    user_writes.PasswordStripper,
    user_writes.AffectedUsers,
    user_writes.UserChangeNotifier,
    brute_force.LoginGuard,
    brute_force.FailedLogins,
    brute_force.SuccessfulLogins,
    # authentication: tokens and cookies
    token_managers.RandomTokens,
    token_managers.JwtTokens,
    token_service.TokenService,
    token.TokenHeaders,
    token.TokenHeadersOnRefusal,
    revocation_watch.RevocationsProvider,
    claim_warnings.AccountBindings,
    revocation_watch.RevocationsGate,
    revocation_watch.RevocationsWatcher,
    claim_warnings.ClaimsAdvisor,
    cookie.CookieHandler,
    cookie.CookieClearer,
    cookie.CookieClearerOnRefusal,
    cookie.CookieSetter,
    cookie.CookieRemover,
    token_service.RolesService,
    # authorization
    acl_registry.ACLRegistryProvider,
    acl_registry.ACLRegistryVetoer,
    acl_registry.ACLRegistryAllower,
    rulebook.RuleBookProvider,
    rule_authorizers.FileAclAuthorizer,
    rule_authorizers.DbAclAuthorizer,
    rule_authorizers.AclCollection,
    rule_authorizers.AclWatcher,
    rule_warnings.RulesCheck,
    authorize.FullAuthorizer,
    authorize.OriginVetoer,
    authorize.FilterOperatorsBlacklist,
    role_escalation.RootRoleGuard,
    rule_writes.PermissionChecker,
    rule_writes.PermissionNotifier,
    enforce.HiddenReads,
    enforce.HiddenWrites,
    enforce.WriteFilter,
    enforce.RequestMerger,
    enforce.ResponseProjector,
    dry_run.DryRunProvider,
    author_limits.DefinitionLimits,
    explain_decision.AccessExplain,
    # GraphQL apps
    graphql_service.GraphqlService,
    app_plugins.AppsProvider,
    app_plugins.AppsInitializer,
    app_plugins.AppsUpdater,
    app_index.AppsIndex,
    app_index.AppsIndexOnCreation,
    definition_writes.DefinitionChecker,
    definition_writes.DefinitionNotifier,
    history_plugins.DefinitionHistorian,
    definition_writes.DefinitionReader,
    history_plugins.HistoryKeeper,
    # MCP, for agents
    mcp_service.McpService,
    oauth_metadata.McpMetadata,
    oauth_metadata.McpChallenge,
    # tools for authors, and the page that uses them
    authoring_service.ToolsService,
    rights.VisibleApps,
    rights.OwnRights,
    console_service.ConsoleService,
    # documents, and what happens to them
    rest_service.MongoService,
    batch.BatchService,
    event_service.EventStreamsProvider,
    stream_list.StreamListAllower,
    news.CollectionNotifier,
    news.CollectionsUpdater,
    schema_checks.SchemaChecker,
    schema_checks.SchemaStoreChecker,
    schema_checks.SchemaStoreReader,
    schema_checks.SchemaStoreNotifier,
    openapi_service.OpenApiService,
    openapi_service.OpenApiPageService,
    # the server itself
    monitoring.Ping,
    monitoring.DatabaseProbe,
    monitoring.MetricsService,
)
