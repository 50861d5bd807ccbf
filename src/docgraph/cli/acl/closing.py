"""Rules of `apps apply --open-to` when their apps are deleted or created again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from docgraph.access.sections import DbAclAuthorizer
from docgraph.cli.acl.opening import is_plain, rule_id_of
from docgraph.cli.acl.rules import RuleCollection, describe_roles
from docgraph.cli.application import print_served
from docgraph.cli.terminal import notice
from docgraph.exchange import Document
from docgraph.server.app import Docgraph
from docgraph.server.prepare import LoadedConfiguration


@dataclass(frozen=True, slots=True)
class Closing:
    """The rules that open apps; none if rules of the database are not used."""

    rules: RuleCollection | None

    @classmethod
    def of(cls, prepared: LoadedConfiguration, app: Docgraph) -> Closing:
        """Build it from the configured location of rules."""
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
