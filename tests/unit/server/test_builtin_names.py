"""The names of the built-in plugins, by which configurations switch them on and off."""

from __future__ import annotations

from docgraph.server.builtin import BUILTIN

NAMES = """
    ACLRegistryAllower ACLRegistryVetoer accessExplain accountBindings aclRegistry aclRules
    aclRulesCheck affectedUsers authCookieClearer authCookieClearerOnRefusal authCookieHandler
    authCookieRemover authCookieSetter authTokenHeaders authTokenHeadersOnRefusal
    authTokenService basicAuthMechanism batch bruteForceAttackGuard collectionTeller
    collectionsUpdater console createAclCollection createIndexesOnGqlApps
    createIndexesOnNewGqlApps database-probe dbAclAuthorizer dbAclUpdater dbRealmAuthenticator
    digestAuthMechanism events failedLoginCounter fileAclAuthorizer fileRealmAuthenticator
    filterOperatorsBlacklist firstUserInitializer fullAuthorizer gqlAppDefinitionCache
    graphAppDefinitionChecker graphAppDefinitionReader graphAppDefinitionTeller
    graphAppHistorian graphAppsHistory graphAppsInitializer graphAppsUpdater graphql
    identityAuthMechanism imaginedRequests jsonSchemaChecker jsonSchemaStoreChecker
    jsonSchemaStoreReader jsonSchemaStoreTeller jwtAuthenticationMechanism jwtTokenManager
    mclientProvider mcp mcpChallenge mcpMetadata metrics mongo openapi openapiPage originVetoer
    ownRights passwordCostScanner permissionChecker permissionDefinitions permissionHiddenReads
    permissionHiddenWrites permissionRequestMerger permissionResponseProjector permissionTeller
    permissionWriteFilter ping rndTokenManager roles rootRoleGuard successfulLoginCounter
    tokenBasicAuthMechanism tokenClaimsAdvisor tokenRevocations tokenRevocationsGate
    tokenRevocationsWatcher tools userChangeTeller userPasswordHasher userPasswordStripper
    visibleApps
"""


def test_plugins_keep_the_names_that_configurations_use() -> None:
    assert set(NAMES.split()) <= {plugin.name for plugin in BUILTIN}


def test_plugins_that_announce_writes_hear_of_uncertain_ones() -> None:
    """A write whose confirmation was lost may have changed what others remember."""
    announcing = {plugin.name for plugin in BUILTIN if getattr(plugin, "hears_uncertain", False)}
    assert announcing >= {
        "collectionTeller",
        "graphAppDefinitionTeller",
        "jsonSchemaStoreTeller",
        "permissionTeller",
        "userChangeTeller",
    }


def test_plugins_that_enforce_permissions_belong_to_the_security_of_the_server() -> None:
    """Without them it does not start."""
    enforcing = {plugin.name for plugin in BUILTIN if getattr(plugin, "security", False)}
    assert enforcing >= {"permissionDefinitions", "permissionWriteFilter", "rootRoleGuard"}
