"""Rules of `docgraph apps apply --open-to`: one for each app, until it is deleted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import click

from docgraph.access.rule import UNAUTHENTICATED
from docgraph.access.sections import DbAclAuthorizer
from docgraph.cli.acl.rules import (
    EVERYBODY,
    RuleCollection,
    describe_roles,
    quote_text,
    require_authorizer,
)
from docgraph.cli.application import print_served
from docgraph.cli.terminal import notice
from docgraph.exchange import Document, StartupError
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.sections import Graphql
from docgraph.server.app import Docgraph
from docgraph.server.prepare import LoadedConfiguration

_PREFIX = "app-"
_SIMILAR = 0.85  # of a misspelt `everybody`; `everyone` may be a role

_OURS = frozenset({"_id", "_etag", "roles", "predicate"})
_ADDRESS = re.compile(r"""path\((?:'[^']*'|"[^"]*")\)""")


class Opening:
    """The rules for the apps that are being applied; none if no role is named."""

    def __init__(self, prepared: LoadedConfiguration, names: Sequence[str]) -> None:
        if not all(names):
            raise click.BadParameter("a role is not empty", param_hint="--open-to")
        for name in names:
            if name != EVERYBODY and get_close_matches(name, [EVERYBODY], cutoff=_SIMILAR):
                message = f"there is no role {name!r}: did you mean {EVERYBODY!r}?"
                raise click.BadParameter(message, param_hint="--open-to")
        roles = [UNAUTHENTICATED if name == EVERYBODY else name for name in names]
        self._roles = list(dict.fromkeys(roles))
        self._base = prepared.config.get(Graphql).uri
        self._settings = require_authorizer(prepared) if names else None
        self._rules: RuleCollection | None = None
        self._wanted: list[Document] = []

    async def prepare(self, app: Docgraph, definitions: Sequence[Document]) -> None:
        """Build the rules; raise for one that would replace a rule of the user."""
        if self._settings is None:
            return
        self._rules = RuleCollection(app, self._settings)
        self._wanted = [
            build_rule(definition, self._base, self._roles) for definition in definitions
        ]
        for rule in self._wanted:
            stored = await self._rules.find(rule["_id"])
            if stored is not None and not is_plain(stored):
                raise StartupError(
                    f"there is a rule {rule['_id']} with conditions of its own",
                    hint=f"change it with `docgraph acl add {rule['_id']} --replace`, "
                    "or leave --open-to out",
                )

    def announce(self) -> None:
        """Print what would be done, for a dry run."""
        for rule in self._wanted:
            notice(f"would open {self._describe(rule)}")

    async def store(self) -> None:
        if self._rules is None:
            return
        await self._rules.add(self._wanted, replace=True)
        for rule in self._wanted:
            notice(f"opened {self._describe(rule)}")
        await print_served("rules", self._rules.versions)

    def _describe(self, rule: Document) -> str:
        app = rule["_id"].removeprefix(_PREFIX)
        return f"{app} to {describe_roles(rule['roles'])} by the rule {rule['_id']}"


def build_rule(definition: Document, base: str, roles: Sequence[str]) -> Document:
    """Return the rule that opens an app below the path `base` to callers with these roles."""
    path = f"{base.rstrip('/')}/{decode_definition(definition).uri}"
    return {
        "_id": rule_id_of(definition),
        "roles": [*roles],
        "predicate": f"path({quote_text(path)})",
    }


def rule_id_of(definition: Document) -> str:
    """Return the `_id` of the rule that opens an app."""
    return f"{_PREFIX}{definition['_id']!s}"


def is_plain(rule: Document) -> bool:
    """Return whether the rule only opens a path: replacing it loses no conditions."""
    return rule.keys() <= _OURS and bool(_ADDRESS.fullmatch(str(rule.get("predicate"))))


@dataclass(frozen=True, slots=True)
class Closing:
    """The rules that open apps; none if rules of the database are not used."""

    rules: RuleCollection | None

    @classmethod
    def of(cls, prepared: LoadedConfiguration, app: Docgraph) -> Closing:
        """Build it for the configured collection of rules, if that is used."""
        settings = prepared.config.get(DbAclAuthorizer)
        return cls(RuleCollection(app, settings) if settings.enabled else None)

    async def close(self, gone: Iterable[Document], *, dry_run: bool = False) -> None:
        """Remove the rules of deleted apps, so that they do not open another app of that name.

        A rule with conditions of its own was edited by a user, and stays.
        """
        if self.rules is None:
            return
        removed = False
        for definition in gone:
            rule = await self.rules.find(rule_id_of(definition))
            if rule is None:
                continue
            roles = describe_roles(rule.get("roles", ()))
            if not is_plain(rule):
                notice(
                    f"the rule {rule['_id']} stays, as it has conditions of its own: "
                    f"`docgraph acl remove {rule['_id']}` removes it"
                )
            elif dry_run:
                notice(f"would remove the rule {rule['_id']} ({roles})")
            else:
                removed |= await self.rules.remove(rule["_id"])
                notice(f"removed the rule {rule['_id']}, which opened it to {roles}")
        if removed:
            await print_served("rules", self.rules.versions)

    async def print_open_rules(self, new: Iterable[Document]) -> None:
        """Print which of these new apps an existing rule may open."""
        if self.rules is None:
            return
        for definition in new:
            rule = await self.rules.find(rule_id_of(definition))
            if rule is not None:
                notice(
                    f"the rule {rule['_id']} was there before, and may open it to "
                    f"{describe_roles(rule.get('roles', ()))}: "
                    f"`docgraph acl remove {rule['_id']}` removes it"
                )
