"""Decision 61: configurations from the table, compared with a model of RESTHeart's security.

The model has its own facts about RESTHeart: the plugins that are on without a section, and the
defaults of their code. After the migration nothing may be open that was not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docgraph.config.config_node import Origin, from_plain
from docgraph.exchange import ConfigError
from docgraph.server.prepare import SECTIONS
from docgraph_migrate.convert import Conversion
from docgraph_migrate.corrections import check_new_file
from docgraph_migrate.report import ReportList
from docgraph_migrate.restheart_config import RestheartConfig, load_actions
from docgraph_migrate.steps import run_conversion

Config = dict[str, dict[str, Any]]

_OFF_BY_DEFAULT = {
    "basicAuthMechanism",
    "tokenBasicAuthMechanism",
    "jwtAuthenticationMechanism",
    "digestAuthMechanism",
    "identityAuthMechanism",
    "fileRealmAuthenticator",
    "fileAclAuthorizer",
    "fullAuthorizer",
    "originVetoer",
    "rndTokenManager",
    "jwtTokenManager",
    "bruteForceAttackGuard",
    "filterOperatorsBlacklist",
}
_KEY = "a-key-of-more-than-thirty-two-bytes-for-the-tests"
_USERS = [{"userid": "ann", "password": "a-password", "roles": ["user"]}]
_RULES = [{"role": "user", "predicate": "path-prefix('/a')", "priority": 1}]
# Values other than the default; without one here, booleans are negated and numbers doubled.
_OTHERS: dict[tuple[str, str], Any] = {
    ("jwtConfigProvider", "key"): _KEY,
    ("jwtConfigProvider", "algorithm"): "HS512",
    ("jwtConfigProvider", "audience"): ["a", "b"],
    ("ping", "secured"): True,
    ("metrics", "secured"): True,
    ("graphql", "secured"): True,
    ("jwtAuthenticationMechanism", "key"): _KEY,
    ("jwtAuthenticationMechanism", "usernameClaim"): "email",
    ("jwtAuthenticationMechanism", "rolesClaim"): "groups",
    ("jwtAuthenticationMechanism", "fixedRoles"): ["guest"],
    ("jwtTokenManager", "key"): _KEY,
    ("mongoAclAuthorizer", "root-role"): "boss",
    ("originVetoer", "whitelist"): ["https://app.example.org"],
    ("fileRealmAuthenticator", "users"): _USERS,
    ("fileAclAuthorizer", "permissions"): _RULES,
    ("authCookieSetter", "same-site-mode"): "lax",
    ("filterOperatorsBlacklist", "blacklist"): ["$regex"],
    ("aggregationSecurity", "stageBlacklist"): ["$lookup"],
    ("aggregationSecurity", "operatorBlacklist"): ["$rand"],
    ("bruteForceAttackGuard", "max-failed-attempts"): 3,
    ("mongo", "mongo-mounts"): [{"what": "restheart", "where": "api"}],
    ("mongo", "max-pagesize"): 500,
    ("graphql", "app-cache-ttr"): 50,
}
_PROTECTING = {"originVetoer", "bruteForceAttackGuard", "filterOperatorsBlacklist"}
_SECTIONS = (
    *sorted(_OFF_BY_DEFAULT),
    "jwtConfigProvider",
    "mongoRealmAuthenticator",
    "mongoAclAuthorizer",
    "authCookieSetter",
    "authCookieHandler",
    "authCookieRemover",
    "authTokenService",
    "aggregationSecurity",
    "mongo",
    "graphql",
    "ping",
    "metrics",
)
# What can be weaker, and the line of the first list that has to report it.
_REPORTED = {"audience": "any-audience", "identity": "identity-last"}
# Without these a section does not work in RESTHeart either.
_NEEDED: Config = {
    "fileRealmAuthenticator": {"users": _USERS},
    "fileAclAuthorizer": {"permissions": _RULES},
    "jwtAuthenticationMechanism": {"key": _KEY, "usernameClaim": "sub", "rolesClaim": "roles"},
    "jwtTokenManager": {"key": _KEY},
    "fullAuthorizer": {"authentication-required": True},
}


def model(config: Config, version: int) -> dict[str, Any]:
    """What RESTHeart permits: names of what is open, and limits."""

    def on(section: str) -> bool:
        if version == 8 and section in ("jwtConfigProvider", "aggregationSecurity"):
            return False
        enabled = config.get(section, {}).get("enabled")
        return enabled if isinstance(enabled, bool) else section not in _OFF_BY_DEFAULT

    def get(section: str, option: str, default: Any) -> Any:
        return config.get(section, {}).get(option, default)

    has_keys = version == 8 or on("jwtConfigProvider")
    opens = {name for name in _OFF_BY_DEFAULT if on(name)}
    if not has_keys:
        opens -= {"jwtAuthenticationMechanism", "jwtTokenManager"}
    vetoer, cookie = "originVetoer", "authCookieSetter"
    is_old = version == 8
    return {
        "opens": opens | {name for name in ("mongoAclAuthorizer", "authTokenService") if on(name)},
        "root": get("mongoAclAuthorizer", "root-role", None) if on("mongoAclAuthorizer") else None,
        "origins": (get(vetoer, "whitelist", None) or None) if on(vetoer) else None,
        "needs-origin": on(vetoer) and not get(vetoer, "allow-missing-origin", not is_old),
        "secure": get(cookie, "secure", True),
        "hidden": get(cookie, "http-only", True),
        "same-site": get(cookie, "same-site-mode", "strict")
        if get(cookie, "same-site", True)
        else None,
        "life": get(cookie, "expires-ttl", 86400) if is_old else get(cookie, "ttl", 15) * 60,
        "has-cookies": all(on(f"authCookie{part}") for part in ("Setter", "Handler", "Remover")),
        "attempts": get("bruteForceAttackGuard", "max-failed-attempts", 5)
        if on("bruteForceAttackGuard")
        else None,
        "operators": set(get("filterOperatorsBlacklist", "blacklist", ()))
        if on("filterOperatorsBlacklist")
        else set(),
        "stages": set(
            get(
                "aggregationSecurity",
                "stageBlacklist",
                ("$out", "$merge", "$lookup", "$graphLookup", "$unionWith"),
            )
        )
        if on("aggregationSecurity")
        else set(),
        "is-public": on("fullAuthorizer")
        and not get("fullAuthorizer", "authentication-required", True),
        "pagesize": get("mongo", "max-pagesize", 1000),
        "secured": [name for name in ("ping", "metrics", "graphql") if get(name, "secured", False)],
    }


def find_weaker(conversion: Conversion, old: dict[str, Any]) -> Iterator[str]:
    """What docgraph permits with the new file and RESTHeart did not."""
    get = conversion.get
    for name in sorted((_OFF_BY_DEFAULT | {"mongoAclAuthorizer"}) - _PROTECTING):
        ours = "dbAclAuthorizer" if name == "mongoAclAuthorizer" else name
        if get(ours, "enabled") and name not in old["opens"]:
            yield f"{name} is on"
    text = conversion.render()
    has_root = get("dbAclAuthorizer", "enabled")
    is_full = get("fullAuthorizer", "enabled")
    filters, stages = "filterOperatorsBlacklist", "aggregationSecurity"
    guard, vetoer = "bruteForceAttackGuard", "originVetoer"
    checks = {
        "root role": has_root and get("dbAclAuthorizer", "root-role") not in (None, old["root"]),
        "origins": old["origins"] is not None
        and not (get(vetoer, "enabled") and get(vetoer, "whitelist") == old["origins"]),
        "missing origin": old["origins"] is not None
        and old["needs-origin"]
        and get(vetoer, "allow-missing-origin"),
        "brute force": not get(guard, "enabled")
        or get(guard, "max-failed-attempts") > (old["attempts"] or 10),
        "operators": not (
            get(filters, "enabled") and old["operators"] <= {*get(filters, "blacklist")}
        ),
        "stages": not (
            get(stages, "enabled") and old["stages"] <= {*get(stages, "stageBlacklist")}
        ),
        "other databases": get(stages, "allowCrossDatabaseOperations"),
        "code": get(stages, "allowJavaScriptExecution"),
        "public": is_full
        and not (get("fullAuthorizer", "authentication-required") or old["is-public"]),
        "pagesize": get("mongo", "enabled") and get("mongo", "max-pagesize") > old["pagesize"],
        "needs a login": any(
            get(name, "enabled") and not get(name, "secured") for name in old["secured"]
        ),
        "a published key": '"secret"' in text or ": secret" in text,
    }
    yield from (name for name, is_weaker in checks.items() if is_weaker)
    jwt = "jwtAuthenticationMechanism"
    if get(jwt, "enabled"):
        audience = get(jwt, "audience")
        yield from ["audience"] if isinstance(audience, list) and len(audience) > 1 else []
        yield from ["identity"] if get("identityAuthMechanism", "enabled") else []
        yield from ["expired tokens"] if get(jwt, "leeway") else []
    if get("authCookieSetter", "enabled"):
        yield from _find_weaker_cookies(get, old)


def _find_weaker_cookies(get: Any, old: dict[str, Any]) -> Iterator[str]:
    section = "authCookieSetter"
    order = (None, "none", "lax", "strict")
    mode = get(section, "same-site-mode") if get(section, "same-site") else None
    checks = {
        "cookies": not old["has-cookies"],
        "secure": old["secure"] and not get(section, "secure"),
        "http-only": old["hidden"] and not get(section, "http-only"),
        "same-site": order.index(mode) < order.index(old["same-site"]),
        "life of the cookie": get(section, "expires-ttl") > old["life"],
    }
    yield from (name for name, is_weaker in checks.items() if is_weaker)


def _read(config: Config, version: int) -> RestheartConfig:
    return RestheartConfig(from_plain(config, Origin("restheart.yml", 1)), version)


def convert(config: Config, version: int) -> Conversion:
    conversion = Conversion(_read(config, version), Path(), SECTIONS)
    run_conversion(conversion)
    check_new_file(conversion)
    return conversion


def list_options() -> list[tuple[str, str, Any]]:
    return [
        (section, option, row.default)
        for (section, option), row in load_actions().items()
        if section in _SECTIONS and option not in ("enabled", "conf-file", "")
    ]


def find_other(section: str, option: str, default: Any) -> Any:
    if (section, option) in _OTHERS:
        return _OTHERS[section, option]
    if isinstance(default, bool):
        return not default
    return default * 2 if isinstance(default, int) and default > 0 else default


def build_each() -> Iterator[Config]:
    """Each section absent, off and on; each option absent, default and other."""
    yield {}
    for section in _SECTIONS:
        needed = _NEEDED.get(section, {})
        yield {section: {**needed}}
        yield {section: {**needed, "enabled": False}}
        yield {section: {**needed, "enabled": True}}
        yield {section: {**needed, "enabled": "yes"}}  # ignored there: not a boolean
    for section, option, default in list_options():
        needed = _NEEDED.get(section, {})
        for value in (default, find_other(section, option, default)):
            if value is not None:
                yield {section: {**needed, "enabled": True, option: value}}


def build_some(count: int, seed: int) -> Iterator[Config]:
    """Any combination of them."""
    chance = random.Random(seed)
    options = list_options()
    for _ in range(count):
        config: Config = {}
        for section in _SECTIONS:
            if chance.random() < 0.4:
                continue
            config[section] = {**_NEEDED.get(section, {})}
            if chance.random() < 0.9:
                config[section]["enabled"] = chance.random() < 0.6
            for one, option, default in options:
                value = default if chance.random() < 0.4 else find_other(one, option, default)
                if one == section and value is not None and chance.random() < 0.4:
                    config[section][option] = value
        yield config


@pytest.mark.parametrize("version", [8, 9])
def test_nothing_is_weaker_than_in_the_model(version: int) -> None:
    configs = [*build_each(), *build_some(40, version)]
    refused = [config for config in configs if not _is_kept(config, version)]
    assert len(refused) < len(configs) / 4


def _is_kept(config: Config, version: int) -> bool:
    """Compare one configuration; return False if nothing is written."""
    conversion = Conversion(_read(config, version), Path(), SECTIONS)
    run_conversion(conversion)
    try:
        check_new_file(conversion)
    except ConfigError:
        return False
    lines = {one.code for one in conversion.remarks if one.effect is ReportList.LESS}
    weaker = list(find_weaker(conversion, model(config, version)))
    assert {_REPORTED.get(name, name) for name in weaker} <= lines, (config, weaker)
    return True


@pytest.mark.parametrize("version", [8, 9])
def test_the_model_finds_a_weaker_file(version: int) -> None:
    config: Config = {"originVetoer": {"enabled": True, "whitelist": ["https://a.example"]}}
    conversion = convert(config, version)
    conversion.sections["originVetoer"]["whitelist"] = []
    conversion.put("dbAclAuthorizer", "root-role", "admin")
    conversion.put("basicAuthMechanism", "enabled", True)
    expected = ["basicAuthMechanism is on", "root role", "origins"]
    assert list(find_weaker(conversion, model(config, version))) == expected
