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
from docgraph.config.locate import locate
from docgraph.exchange import ConfigError, Problem
from docgraph.plugins import is_enabled
from docgraph.plugins.kinds import Kind
from docgraph.server.prepare import Prepared
from docgraph.store.guard.stages import Policy
from docgraph.store.sections import AggregationSecurity
from docgraph.variables.resolvers import BUILT_IN

__all__ = ["check_parts"]


def check_parts(prepared: Prepared) -> list[Problem]:
    """What deserves a warning in those that are enabled; raises one `ConfigError` with the rest."""
    problems: list[Problem] = []
    warnings: list[Problem] = []
    for check in (_check_roles, _check_users, _check_permissions):
        try:
            warnings += check(prepared)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return [locate(one, prepared.tree) for one in warnings]


def _check_roles(prepared: Prepared) -> list[Problem]:
    section = prepared.config.get(DbRealmAuthenticator)
    if section.enabled:
        RolesPath(section.json_path_roles)
    return []


def _check_users(prepared: Prepared) -> list[Problem]:
    section = prepared.config.get(FileRealmAuthenticator)
    if section.enabled:
        load_users(section)
    return []


def _check_permissions(prepared: Prepared) -> list[Problem]:
    section = prepared.config.get(FileAclAuthorizer)
    return load_rules(section, _know(prepared)).warnings if section.enabled else []


def _know(prepared: Prepared) -> Knowledge:
    """What rules may refer to, as the server would know it."""
    own = (
        one.plugin.variable  # type: ignore[attr-defined]
        for one in prepared.found
        if one.plugin.kind is Kind.VARIABLE_RESOLVER and is_enabled(one, prepared.config.sections)
    )
    policy = Policy.from_section(prepared.config.get(AggregationSecurity))
    return Knowledge(frozenset((*BUILT_IN, *own)), policy)
