"""Checks of sections and of the files they name, before the start.

The parts check again when they start; here everything is reported together, without a database.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from docgraph.access.parse_rule import Knowledge
from docgraph.access.rule_authorizers import load_rules
from docgraph.access.sections import FileAclAuthorizer
from docgraph.auth.authenticators.file_users import load_users
from docgraph.auth.authenticators.sections import DbRealmAuthenticator, FileRealmAuthenticator
from docgraph.auth.cookies.cookie import Cookie
from docgraph.auth.cookies.sections import AuthCookieSetter
from docgraph.auth.mechanisms.jwt import check_keys
from docgraph.auth.mechanisms.sections import JwtAuthenticationMechanism
from docgraph.auth.tokens.sections import AuthTokenService, JwtTokenManager, RndTokenManager
from docgraph.codec.patterns import RolesPath
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
    problems: list[Problem] = []
    warnings: list[Problem] = []
    for check in (
        *(_check_roles, _check_users, _check_permissions, _check_mounts),
        *(_check_services, _check_keys, _check_cookie, _check_certificate),
    ):
        try:
            warnings += check(prepared)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return [locate(one, prepared.tree) for one in warnings]


def _check_roles(prepared: LoadedConfiguration) -> list[Problem]:
    section = prepared.config.get(DbRealmAuthenticator)
    if section.enabled:
        RolesPath(section.json_path_roles)
    return []


def _check_users(prepared: LoadedConfiguration) -> list[Problem]:
    section = prepared.config.get(FileRealmAuthenticator)
    if section.enabled:
        load_users(section)
    return []


def _check_permissions(prepared: LoadedConfiguration) -> list[Problem]:
    section = prepared.config.get(FileAclAuthorizer)
    return load_rules(section, _know(prepared)).warnings if section.enabled else []


def _know(prepared: LoadedConfiguration) -> Knowledge:
    """Return what rules may refer to, as the server would know it."""
    own = (
        one.plugin.variable  # type: ignore[attr-defined]
        for one in prepared.found
        if one.plugin.kind is Kind.VARIABLE_RESOLVER and is_enabled(one, prepared.config.sections)
    )
    policy = Policy.from_section(prepared.config.get(AggregationSecurity))
    return Knowledge(frozenset((*BUILT_IN, *own)), policy)


def _check_mounts(prepared: LoadedConfiguration) -> list[Problem]:
    section = prepared.config.get(Mongo)
    with _blaming("/mongo/mongo-mounts"):
        if section.enabled:
            Mounts(section.mongo_mounts)
    return []


def _check_services(prepared: LoadedConfiguration) -> list[Problem]:
    """Two services cannot be bound to the same path."""
    problems: list[Problem] = []
    bound: dict[tuple[str, ...], str] = {}
    for one in prepared.found:
        if one.plugin.kind is not Kind.SERVICE or not is_enabled(one, prepared.config.sections):
            continue
        option, uri = _find_uri(one, prepared)
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
    return []


def _find_uri(service: FoundPlugin, prepared: LoadedConfiguration) -> tuple[str, str | None]:
    """The option that binds a service, and its path; the token service is where its manager says.

    A manager from outside says it only when it has been started.
    """
    own = getattr(prepared.config.sections.get(service.name), "uri", None)
    if own is None and service.name == AuthTokenService.section_name:
        managers = (prepared.config.get(RndTokenManager), prepared.config.get(JwtTokenManager))
        for manager in managers:
            if manager.enabled:
                return f"/{manager.section_name}/srv-uri", manager.srv_uri
    return f"/{service.name}/uri", own or getattr(service.plugin, "uri", None)


def _check_keys(prepared: LoadedConfiguration) -> list[Problem]:
    section = prepared.config.get(JwtAuthenticationMechanism)
    option = "key" if section.jwks is None else "jwks"
    with _blaming(f"/{section.section_name}/{option}"):
        if section.enabled:
            check_keys(section, prepared.config.directory)
    return []


def _check_cookie(prepared: LoadedConfiguration) -> list[Problem]:
    section = prepared.config.get(AuthCookieSetter)
    with _blaming("/authCookieSetter/name"):
        if section.enabled:
            Cookie(section).check()
    return []


def _check_certificate(prepared: LoadedConfiguration) -> list[Problem]:
    section = prepared.config.get(HttpsListener)
    with _blaming("/https-listener/certificate"):
        if section.enabled:
            build_context(section)
    return []


@contextmanager
def _blaming(path: str) -> Iterator[None]:
    """Let a part that cannot start be a mistake in the option, or in the one that it names."""
    try:
        yield
    except ConfigError:
        raise
    except StartupError as error:
        named, mark, message = error.message.partition(": ")
        if not (mark and named.startswith(f"{path.rpartition('/')[0]}/")):
            named, message = path, error.message
        raise ConfigError([Problem(CONFIGURATION, named, message, error.hint)]) from None
