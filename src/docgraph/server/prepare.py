"""Prepare a configuration: plugins, decoded and validated sections, required database privileges.

All mistakes are reported together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from msgspec.structs import fields

from docgraph.access.acl_registry import ACLRegistryAllower
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
from docgraph.auth.mechanisms.sections import (
    ApiKeyMechanism,
    BasicAuthMechanism,
    DigestAuthMechanism,
    IdentityAuthMechanism,
    JwtAuthenticationMechanism,
    TokenBasicAuthMechanism,
)
from docgraph.auth.sections import AuthenticationOptions, BruteForceAttackGuard, Roles
from docgraph.auth.tokens.sections import AuthTokenService, JwtTokenManager, RndTokenManager
from docgraph.authoring.sections import Tools
from docgraph.config import (
    ConfigSources,
    ConfigTree,
    Decoded,
    PluginConfig,
    Section,
    decode,
    load,
    peek,
)
from docgraph.console.sections import Console
from docgraph.events.sections import Events
from docgraph.exchange import ConfigError, Problem
from docgraph.graphql.sections import GraphAppsInitializer, GraphAppsUpdater, Graphql
from docgraph.mcp.sections import Mcp
from docgraph.observe.sections import Logging, Otel
from docgraph.openapi.sections import OpenApi, OpenApiPage
from docgraph.plugins import FoundPlugin, discover, is_enabled
from docgraph.plugins.kinds import AuthorizerRole, Kind, Plugin
from docgraph.rest.handlers.stream_list import StreamListAllower
from docgraph.rest.sections import Mongo
from docgraph.runtime.sections import Core, Cors
from docgraph.server.builtin import BUILTIN
from docgraph.server.rate_limits.sections import CallerLimits
from docgraph.server.sections import Batch, ConnectionOptions, HttpListener, HttpsListener
from docgraph.server.services.sections import DatabaseProbe, Metrics, OwnRights, Ping, VisibleApps
from docgraph.store.driver.rights import Right
from docgraph.store.names import API_KEYS, HISTORY_STORE, KEY_STORE, REVOCATION_STORE, VERSION_STORE
from docgraph.store.sections import AggregationSecurity, MClient


@dataclass(frozen=True, slots=True)
class LoadedConfiguration:
    """The decoded configuration, and the available plugins."""

    tree: ConfigTree
    config: Decoded
    found: tuple[FoundPlugin, ...]


def load_tree(sources: ConfigSources) -> ConfigTree:
    """Load the options of all sources, for our sections and those of plugins."""
    return load(sources, SECTIONS)


def prepare(tree: ConfigTree, builtin: Sequence[type[Plugin]] = BUILTIN) -> LoadedConfiguration:
    """Find the plugins, which declare their own sections, and decode every section strictly."""
    plugins = find_plugins(tree, builtin)
    unavailable = tuple(_find_unavailable(tree, {plugin.name for plugin in plugins}))
    tree = replace(tree, problems=(*tree.problems, *unavailable))
    return LoadedConfiguration(tree, decode(tree, sections_of(plugins)), plugins)


def list_changed(prepared: LoadedConfiguration, tree: ConfigTree) -> list[str]:
    """Return the options whose values differ in another tree; raises `ConfigError`."""
    sections = decode(tree, sections_of(prepared.found)).sections
    return sorted(
        f"/{name}/{field.encode_name}"
        for name, section in prepared.config.sections.items()
        for field in fields(section)
        if getattr(section, field.name) != getattr(sections[name], field.name)
    )


def find_plugins(
    tree: ConfigTree, builtin: Sequence[type[Plugin]] = BUILTIN
) -> tuple[FoundPlugin, ...]:
    """Return the built-in plugins, and those of installed packages and the plugins directory."""
    return discover(builtin, Path(peek(tree, Core).plugins_directory))


def sections_of(plugins: Sequence[FoundPlugin]) -> dict[str, type[Section]]:
    """Return every section: ours, and those that plugins declare."""
    declared = {plugin.name: plugin.section for plugin in plugins if plugin.name not in SECTIONS}
    return {**SECTIONS, **declared}


def require_allower(prepared: LoadedConfiguration) -> None:
    """Reject a configuration without an allower: it would deny every request."""
    if any(_is_allower(plugin, prepared) for plugin in prepared.found):
        return
    raise ConfigError(
        [
            Problem(
                "configuration",
                "/",
                "no allower is enabled, so every request would be refused",
                "enable one, for example with --set /fullAuthorizer/enabled=true",
            )
        ]
    )


def _is_allower(plugin: FoundPlugin, prepared: LoadedConfiguration) -> bool:
    """Return whether a plugin is an allower; the registry is if a plugin may register with it.

    The one for lists of streams allows nothing by itself.
    """
    if plugin.plugin is StreamListAllower:
        return False
    if plugin.plugin is ACLRegistryAllower and all(x.plugin in BUILTIN for x in prepared.found):
        return False
    return (
        plugin.plugin.kind is Kind.AUTHORIZER
        and getattr(plugin.plugin, "role", None) is AuthorizerRole.ALLOWER
        and is_enabled(plugin, prepared.config.sections)
    )


def _find_unavailable(tree: ConfigTree, names: Collection[str]) -> Iterator[Problem]:
    """Yield requested plugins that are not available: fail closed."""
    for name, section in SECTIONS.items():
        if not issubclass(section, PluginConfig) or name in names:
            continue
        node = tree.find(f"/{name}/enabled")
        if node is not None and node.value is True:
            yield Problem(
                str(node.place),
                f"/{name}/enabled",
                "this version does not have that plugin",
                "leave it out, or set it to false",
            )


# The built-in sections, in the order of the template, `docgraph config show` and the reference
# page; each package declares its own.
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
    ApiKeyMechanism,
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


_NEWS = "changes made elsewhere are live immediately"
_NOTING = ("find", "insert", "update")
_WHO_SERVES = "which instance serves what"


def find_needed_rights(config: Decoded) -> tuple[Right, ...]:
    """Return the privileges that docgraph needs for its own collections, one for each purpose.

    Further privileges depend on the apps and on which callers may write: the first failing request
    reports them. `docs/how-to/use-your-own-mongodb.md` explains them; a test compares both.
    """
    users, rules = config.get(DbRealmAuthenticator), config.get(DbAclAuthorizer)
    apps = config.get(Graphql)
    rights = (*_for_users(users, config.get(ApiKeyMechanism)), *_for_rules(rules), *_for_apps(apps))
    noted = dict.fromkeys(right.db for right in rights)
    if config.get(Mongo).enabled:
        noted[apps.db] = None  # the version of data that the REST API caches
    return (*rights, *(Right(db, VERSION_STORE, _NOTING, _WHO_SERVES) for db in noted))


def _for_users(users: DbRealmAuthenticator, keys: ApiKeyMechanism) -> Iterator[Right]:
    db, collection = users.users_db, users.users_collection
    if users.enabled:
        yield Right(db, collection, ("find",), "who may log in", required=True)
        if users.create_user:
            yield Right(db, collection, ("insert",), "the first administrator")
    yield Right(db, REVOCATION_STORE, ("find",), "tokens that were revoked", required=True)
    revoking = ("insert", "update", "createIndex")
    yield Right(db, REVOCATION_STORE, revoking, "revoking tokens")
    if keys.enabled:
        yield Right(db, API_KEYS, ("find",), "which API keys are valid", required=True)
        yield Right(db, API_KEYS, ("insert", "update", "remove"), "making and revoking API keys")
        yield Right(db, KEY_STORE, ("find", "insert"), "the key of API keys")
    yield Right(db, "", ("find", "changeStream"), _NEWS)


def _for_rules(rules: DbAclAuthorizer) -> Iterator[Right]:
    db, collection = rules.acl_db, rules.acl_collection
    if rules.enabled:
        yield Right(db, collection, ("find",), "who may do what", required=True)
        if rules.cache_enabled:
            yield Right(db, collection, ("changeStream",), _NEWS)


def _for_apps(apps: Graphql) -> Iterator[Right]:
    if apps.enabled:
        yield Right(apps.db, apps.collection, ("find",), "the GraphQL apps", required=True)
        yield Right(apps.db, apps.collection, ("changeStream",), _NEWS)
        yield Right(apps.db, "", ("listCollections",), "whether there are apps")
        yield Right(apps.db, apps.collection, ("createIndex",), "no two apps have the same address")
        if apps.cursor_key is None:
            yield Right(apps.db, KEY_STORE, ("find", "insert"), "the key of cursors")
        if apps.history_versions:
            recording = ("find", "insert", "update", "remove")
            yield Right(apps.db, HISTORY_STORE, recording, "former versions of the apps")
