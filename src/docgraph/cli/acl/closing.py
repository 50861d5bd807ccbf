"""What becomes of the rules of `apps apply --open-to` when their apps go, or come anew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from docgraph.access.sections import DbAclAuthorizer
from docgraph.cli.acl.opening import is_plain, rule_id_of
from docgraph.cli.acl.rules import Rules, describe_roles
from docgraph.cli.terminal import notice
from docgraph.cli.workbench import tell_served
from docgraph.exchange import Document
from docgraph.server.app import Docgraph
from docgraph.server.prepare import Prepared

__all__ = ["Closing"]


@dataclass(frozen=True, slots=True)
class Closing:
    """The rules that open apps; none where no rules of the database are looked at."""

    rules: Rules | None

    @classmethod
    def of(cls, prepared: Prepared, app: Docgraph) -> Closing:
        """Where the configuration says that rules are."""
        settings = prepared.config.get(DbAclAuthorizer)
        return cls(Rules(app, settings) if settings.enabled else None)

    async def close(self, gone: Iterable[Document], *, dry_run: bool = False) -> None:
        """Remove the rules of apps that are gone: another app of that name is not open by them.

        What has conditions of its own is somebody's work, and stays.
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
            await tell_served("rules", self.rules.versions)

    async def tell_open(self, new: Iterable[Document]) -> None:
        """Say which of these new apps a rule from before may open."""
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
