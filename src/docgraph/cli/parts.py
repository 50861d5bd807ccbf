"""Checks of sections and of the files they name, before the start.

The parts check again when they start; here everything is reported together, without a database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from docgraph.access.parse_rule import Knowledge
from docgraph.access.rule_authorizers import FileRules, load_rules
from docgraph.access.sections import FileAclAuthorizer
from docgraph.auth.authenticators.file_users import load_users
from docgraph.auth.authenticators.sections import DbRealmAuthenticator, FileRealmAuthenticator
from docgraph.auth.cookies.cookie import Cookie
from docgraph.auth.cookies.sections import AuthCookieSetter
from docgraph.auth.mechanisms.jwt import check_keys
from docgraph.auth.mechanisms.sections import JwtAuthenticationMechanism
from docgraph.auth.tokens.sections import AuthTokenService, JwtTokenManager, RndTokenManager
from docgraph.codec.roles_path import RolesPath
from docgraph.config.sources import CONFIGURATION, locate
from docgraph.exchange import ConfigError, Problem, StartupError
from docgraph.exchange.errors import DocgraphError
from docgraph.exchange.request import parse_path
from docgraph.plugins import FoundPlugin, is_enabled
from docgraph.plugins.kinds import Kind
from docgraph.rest.sections import Mongo
from docgraph.server.prepare import LoadedConfiguration
from docgraph.server.process.tls import build_context
from docgraph.server.sections import HttpsListener
from docgraph.store.guard.stage_checks import Policy
from docgraph.store.mounts import Mounts
from docgraph.store.sections import AggregationSecurity
from docgraph.variables.resolvers import BUILT_IN


def check_parts(prepared: LoadedConfiguration) -> list[Problem]:
    """Return warnings of the enabled parts; raise one `ConfigError` with all errors."""
    get = prepared.config.get
    keys = get(JwtAuthenticationMechanism)
    # What each enabled section is checked by, and the option to blame if that is not reported.
    checks: tuple[tuple[Any, Callable[[Any], object], str], ...] = (
        (get(DbRealmAuthenticator), lambda section: RolesPath(section.json_path_roles), ""),
        (get(FileRealmAuthenticator), load_users, ""),
        (get(FileAclAuthorizer), lambda section: load_rules(section, _know(prepared)), ""),
        (get(Mongo), lambda section: Mounts(section.mongo_mounts), "mongo-mounts"),
        (None, lambda _: _check_services(prepared), ""),
        (
            keys,
            lambda section: check_keys(section, prepared.config.directory),
            "key" if keys.jwks is None else "jwks",
        ),
        (get(AuthCookieSetter), lambda section: Cookie(section).check(), "name"),
        (get(HttpsListener), build_context, "certificate"),
    )
    problems: list[Problem] = []
    warnings: list[Problem] = []
    for section, check, option in checks:
        if section is not None and not section.enabled:
            continue
        try:
            with _blaming(f"/{section.section_name}/{option}") if option else nullcontext():
                result = check(section)
            warnings += result.warnings if isinstance(result, FileRules) else ()
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return [locate(warning, prepared.tree) for warning in warnings]


def _know(prepared: LoadedConfiguration) -> Knowledge:
    """Return the names that rules may refer to, as in a running server."""
    resolvers = (
        plugin.plugin.variable  # type: ignore[attr-defined]
        for plugin in prepared.found
        if plugin.plugin.kind is Kind.VARIABLE_RESOLVER
        and is_enabled(plugin, prepared.config.sections)
    )
    policy = Policy.from_section(prepared.config.get(AggregationSecurity))
    return Knowledge(frozenset((*BUILT_IN, *resolvers)), policy)


def _check_services(prepared: LoadedConfiguration) -> None:
    """Reject services that are bound to the same path."""
    problems: list[Problem] = []
    bound: dict[tuple[str, ...], str] = {}
    for plugin in prepared.found:
        if plugin.plugin.kind is not Kind.SERVICE or not is_enabled(
            plugin, prepared.config.sections
        ):
            continue
        option, uri = _find_uri(plugin, prepared)
        if uri is None:  # the check of the plugin reports it
            continue
        try:
            other = bound.setdefault(parse_path(uri.encode()), option)
        except DocgraphError as error:
            problems.append(Problem(CONFIGURATION, option, f"{uri!r} is not a path: {error}"))
            continue
        if other != option:
            blamed, named = (option, other) if prepared.tree.is_set(option) else (other, option)
            message = f"{uri} is also the path of {named}"
            hint = "give one of the two services another path"
            problems.append(Problem(CONFIGURATION, blamed, message, hint))
    if problems:
        raise ConfigError(problems)


def _find_uri(service: FoundPlugin, prepared: LoadedConfiguration) -> tuple[str, str | None]:
    """Return the option that binds a service, and its path.

    The token manager sets the path of the token service; that of a plugin is not known before it
    is started.
    """
    configured = getattr(prepared.config.sections.get(service.name), "uri", None)
    if configured is None and service.name == AuthTokenService.section_name:
        managers = (prepared.config.get(RndTokenManager), prepared.config.get(JwtTokenManager))
        for manager in managers:
            if manager.enabled:
                return f"/{manager.section_name}/srv-uri", manager.srv_uri
    return f"/{service.name}/uri", configured or getattr(service.plugin, "uri", None)


@contextmanager
def _blaming(path: str) -> Iterator[None]:
    """Report a part that cannot start as a mistake in its option, or in the one it names."""
    try:
        yield
    except ConfigError:
        raise
    except StartupError as error:
        named, mark, message = error.message.partition(": ")
        if not (mark and named.startswith(f"{path.rpartition('/')[0]}/")):
            named, message = path, error.message
        raise ConfigError([Problem(CONFIGURATION, named, message, error.hint)]) from None
