"""The sections against the tables of the specification and of the decisions."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import docgraph
from docgraph.config.options import options_of, walk_options
from docgraph.config.section import Section
from docgraph.server.prepare import SECTIONS

SOURCE = Path(docgraph.__file__).parent

# Section → option → default, as service.md, decisions.md and reliability.md section 4 have them.
TABLES: dict[str, dict[str, Any]] = {
    "core": {
        "name": "docgraph",
        "workers": 1,
        "data-directory": "./data",
        "trusted-proxies": [],
        "plugins-directory": "plugins",
        "tracing-headers": [],
        "workers-scheduler-parallelism": 0,
        "workers-scheduler-max-pool-size": 256,
        "force-gzip-encoding": False,
    },
    "http-listener": {"enabled": True, "host": "127.0.0.1", "port": 8080},
    "https-listener": {"enabled": False, "port": 4443, "certificate": None, "key": None},
    "connection-options": {
        "max-header-size": 8192,
        "max-headers-size": 32768,
        "max-headers": 100,
        "max-url-size": 8192,
        "max-parameters": 200,
        "header-timeout-ms": 10_000,
        "body-timeout-ms": 30_000,
        "min-body-rate": 1024,
        "keep-alive-timeout-ms": 30_000,
        "write-timeout-ms": 20_000,
        "max-connections": 2000,
        "max-connections-per-address": None,
        "max-requests-in-flight": 256,
        "queue": 256,
    },
    "cors": {"allow-origins": []},
    "otel": {
        "enabled": False,
        "endpoint": None,
        "headers": {},
        "service-name": None,
        "traces": True,
        "metrics": True,
        "sample-ratio": 1.0,
        "trust-incoming": True,
        "interval-ms": None,
    },
    "mclient": {
        "connection-string": None,
        "command-ceiling-ms": 300_000,
        "max-pool-size": 100,
        "min-pool-size": 5,
        "max-connecting": 2,
        "wait-queue-timeout-ms": None,
        "connect-timeout-ms": 2000,
        "heartbeat-frequency-ms": 2000,
        "server-selection-timeout-ms": 15_000,
    },
    "graphql": {
        "uri": "/graphql",
        "db": "docgraph",
        "collection": "gql-apps",
        "app-cache-enabled": True,
        "app-cache-ttr": 60_000,
        "default-limit": 100,
        "max-limit": 1000,
        "query-time-limit": 0,
        "verbose": False,
        "introspection": "all",
        "json-mode": "standard",
        "max-body-size": 1 << 20,
        "limits": {
            "depth": 15,
            "aliases": 50,
            "root-fields": 20,
            "tokens": 2500,
            "directives": 50,
            "estimated-documents": 2_000_000,
            "fetched-documents": 100_000,
            "relation-depth": 3,
            "representations": 10_000,
            "response-bytes": 16 << 20,
        },
    },
    "graphAppsInitializer": {"enabled": True},
    "graphAppsUpdater": {"enabled": True},
    "mongo": {
        "mongo-mounts": [{"what": "/docgraph", "where": "/"}],
        "default-pagesize": 100,
        "max-pagesize": 1000,
        "etag-check-policy": {
            "db": "REQUIRED_FOR_DELETE",
            "coll": "REQUIRED_FOR_DELETE",
            "doc": "OPTIONAL",
        },
    },
    "ping": {"uri": "/ping", "secured": False},
    "database-probe": {
        "uri": "/health/db",
        "secured": False,
        "timeout-ms": 2000,
        "dbname": "admin",
    },
    "metrics": {"uri": "/metrics"},
    "basicAuthMechanism": {
        "enabled": True,
        "authenticator": "dbRealmAuthenticator",
        "realm": "docgraph",
    },
    "tokenBasicAuthMechanism": {"enabled": True},
    "digestAuthMechanism": {"enabled": False, "algorithms": ["MD5"], "key": None},
    "jwtAuthenticationMechanism": {
        "enabled": False,
        "algorithm": "HS256",
        "base64Encoded": False,
        "usernameClaim": "sub",
        "rolesClaim": "roles",
        "issuer": None,
        "audience": None,
        "require-exp": True,
        "leeway": 30,
        "allow-weak-key": False,
        "jwks": None,
    },
    "identityAuthMechanism": {"enabled": False},
    "dbRealmAuthenticator": {
        "enabled": True,
        "users-db": "docgraph",
        "users-collection": "users",
        "prop-id": "_id",
        "prop-password": "password",
        "json-path-roles": "$.roles",
        "bcrypt-hashed-password": True,
        "bcrypt-complexity": 12,
        "create-user": True,
        "create-user-document": None,
        "cache-enabled": False,
        "cache-size": 1000,
        "cache-ttl": 60_000,
        "cache-expire-policy": "AFTER_WRITE",
        "enforce-minimum-password-strength": False,
        "minimum-password-strength": 3,
    },
    "fileRealmAuthenticator": {"enabled": False, "conf-file": None, "users": []},
    "rndTokenManager": {"enabled": True, "ttl": 15, "srv-uri": "/tokens"},
    "jwtTokenManager": {
        "enabled": False,
        "key": None,
        "ttl": 15,
        "srv-uri": "/tokens",
        "issuer": "docgraph",
        "account-properties-claims": [],
        "max-session-age": 0,
    },
    "authTokenService": {"enabled": True, "uri": None, "secured": False},
    "roles": {"enabled": True, "uri": "/roles"},
    "authCookieSetter": {
        "enabled": False,
        "secure": True,
        "name": "dg_auth",
        "domain": None,
        "path": "/",
        "http-only": True,
        "same-site": True,
        "same-site-mode": "strict",
        "expires-ttl": 86_400,
    },
    "authCookieHandler": {"enabled": False},
    "authCookieRemover": {"enabled": False, "secure": False, "uri": "/logout", "secured": False},
    "bruteForceAttackGuard": {"enabled": True, "max-failed-attempts": 10},
    "caller-limits": {"enabled": False, "limits": []},
    "dbAclAuthorizer": {"enabled": True, "acl-collection": "acl", "root-role": "admin"},
    "fileAclAuthorizer": {"enabled": False},
    "fullAuthorizer": {"enabled": False, "authentication-required": True},
    "originVetoer": {"enabled": False, "allow-missing-origin": True},
    "filterOperatorsBlacklist": {"enabled": True, "blacklist": ["$where"]},
    "rootRoleGuard": {"enabled": True},
    "aggregationSecurity": {
        "enabled": True,
        "allowCrossDatabaseOperations": False,
        "allowJavaScriptExecution": False,
    },
    "mcp": {
        "enabled": False,
        "uri": "/mcp",
        "allowed-hosts": [],
        "allowed-origins": [],
        "authorization-servers": [],
        "calls-per-second": 20,
        "max-documents": 10_000,
        "max-result-bytes": 65_536,
    },
    "visibleApps": {"enabled": True, "uri": "/_tools/apps", "secured": False},
    "ownRights": {"enabled": True, "uri": "/_tools/rights", "secured": False},
    "batch": {"enabled": True, "uri": "/_batch", "secured": True, "time-limit": 30_000},
    "tools": {"enabled": True, "uri": "/_tools", "secured": True, "max-body-size": 2_097_152},
    "console": {"enabled": True, "uri": "/console", "secured": False},
}


@pytest.mark.parametrize("name", TABLES)
def test_defaults_are_those_of_the_specification(name: str) -> None:
    values = msgspec.json.decode(msgspec.json.encode(SECTIONS[name]()))

    assert {option: values[option] for option in TABLES[name]} == TABLES[name]


@pytest.mark.parametrize(("name", "section"), SECTIONS.items())
def test_every_option_is_described_and_has_a_default_that_fits(
    name: str, section: type[Section]
) -> None:
    for path, option in walk_options(section, f"/{name}"):
        assert option.description, path
        assert option.description[-1] != ".", path
    values = msgspec.to_builtins(section())
    assert msgspec.convert(values, section) == section()


@pytest.mark.parametrize(("name", "section"), SECTIONS.items())
def test_every_section_is_described_and_frozen(name: str, section: type[Section]) -> None:
    assert section.__doc__
    assert section.__struct_config__.frozen
    assert section.__struct_config__.forbid_unknown_fields


def test_options_that_all_plugins_share_come_first() -> None:
    assert list(options_of(SECTIONS["roles"])) == ["enabled", "uri", "secured"]


NOT_READ = {
    "allow_java_script_execution",  # understood, and told to be without effect
    "app_def_cache_ttl",  # deprecated: understood, and told to be without effect
}


def test_every_option_is_read_somewhere() -> None:
    """An option that nobody reads is a promise that nobody keeps."""
    files = [file for file in SOURCE.rglob("*.py") if file.name != "sections.py"]
    words = {word for file in files for word in re.findall(r"\w+", file.read_text())}
    names = {field.name for struct in structs() for field in msgspec.structs.fields(struct)}
    assert names - words - NOT_READ == set()


def test_every_section_is_declared_by_a_module_of_its_package_that_is_called_so() -> None:
    modules = {struct.__module__ for struct in structs() if struct.section_name}

    assert {module.rpartition(".")[2] for module in modules} == {"sections"}
    assert {module for module in modules if module.startswith("docgraph.config.")} == set()


@pytest.mark.parametrize(
    "file", sorted(SOURCE.rglob("sections.py")), ids=lambda file: str(file.relative_to(SOURCE))
)
def test_modules_that_declare_sections_import_nothing_heavy(file: Path) -> None:
    """So that knowing what can be configured does not take importing what is configured.

    A check that needs more imports it when it is made.
    """
    imported = {
        node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom)
    }

    heavy = {
        name
        for name in imported
        if name.split(".")[0] not in {"msgspec", *sys.stdlib_module_names}
        and not name.startswith(("docgraph.config.", "docgraph.exchange."))
        and not name.endswith((".sections", ".hashes"))
    }
    assert heavy == set()


def structs() -> list[type[Section]]:
    """Every section and the sections inside them."""
    found: list[type[Section]] = [Section]
    for one in found:
        found += (inner for inner in one.__subclasses__() if inner not in found)
    return [one for one in found if one.__module__.startswith("docgraph.")]
