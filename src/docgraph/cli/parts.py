"""What parts find wrong with their sections and with the files these name, before they start.

The parts look again when they start; here everything is told at once, without a database.
"""

from __future__ import annotations

from docgraph.access.file import load_rules
from docgraph.access.reading import Knowledge
from docgraph.access.sections import FileAclAuthorizer
from docgraph.auth.authenticators.file import load_users
from docgraph.auth.authenticators.sections import DbRealmAuthenticator, FileRealmAuthenticator
from docgraph.codec.roles_path import RolesPath
from docgraph.exchange import ConfigError, Problem
from docgraph.plugins import is_enabled
from docgraph.plugins.kinds import Kind
from docgraph.server.prepare import Prepared
from docgraph.store.guard.stages import Policy
from docgraph.store.sections import AggregationSecurity
from docgraph.variables.resolvers import BUILT_IN

__all__ = ["check_parts"]


def check_parts(prepared: Prepared) -> None:
    """Raise one `ConfigError` with everything that is wrong with those that are enabled."""
    problems: list[Problem] = []
    for check in (_check_roles, _check_users, _check_permissions):
        try:
            check(prepared)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)


def _check_roles(prepared: Prepared) -> None:
    section = prepared.config.get(DbRealmAuthenticator)
    if section.enabled:
        RolesPath(section.json_path_roles)


def _check_users(prepared: Prepared) -> None:
    section = prepared.config.get(FileRealmAuthenticator)
    if section.enabled:
        load_users(section)


def _check_permissions(prepared: Prepared) -> None:
    section = prepared.config.get(FileAclAuthorizer)
    if section.enabled:
        load_rules(section, _know(prepared))


def _know(prepared: Prepared) -> Knowledge:
    """What rules may refer to, as the server would know it."""
    own = (
        one.plugin.variable  # type: ignore[attr-defined]
        for one in prepared.found
        if one.plugin.kind is Kind.VARIABLE_RESOLVER and is_enabled(one, prepared.config.sections)
    )
    policy = Policy.from_section(prepared.config.get(AggregationSecurity))
    return Knowledge(frozenset((*BUILT_IN, *own)), policy)
