"""`docgraph apps apply --open-to`: a rule for each app that lets callers ask it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from docgraph.access.rule import UNAUTHENTICATED
from docgraph.cli.acl.rules import EVERYBODY, Rules, describe_roles, quote_text, require_authorizer
from docgraph.cli.terminal import notice
from docgraph.cli.workbench import tell_served
from docgraph.exchange import Document, StartupError
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.sections import Graphql
from docgraph.server.app import Docgraph
from docgraph.server.prepare import Prepared

__all__ = ["Opening", "build_rule", "is_plain", "rule_id_of"]

_PREFIX = "app-"

_OURS = frozenset({"_id", "_etag", "roles", "predicate"})
_ADDRESS = re.compile(r"""path\((?:'[^']*'|"[^"]*")\)""")


class Opening:
    """The rules for the apps that are being applied; none where nobody is named."""

    def __init__(self, prepared: Prepared, names: Sequence[str]) -> None:
        if not all(names):
            raise click.BadParameter("a role is not empty", param_hint="--open-to")
        roles = [UNAUTHENTICATED if name == EVERYBODY else name for name in names]
        self._roles = list(dict.fromkeys(roles))
        self._base = prepared.config.get(Graphql).uri
        self._settings = require_authorizer(prepared) if names else None
        self._rules: Rules | None = None
        self._wanted: list[Document] = []

    async def prepare(self, app: Docgraph, definitions: Sequence[Document]) -> None:
        """Make the rules; raises for one that would take the place of somebody's own."""
        if self._settings is None:
            return
        self._rules = Rules(app, self._settings)
        self._wanted = [build_rule(one, self._base, self._roles) for one in definitions]
        for rule in self._wanted:
            found = await self._rules.find(rule["_id"])
            if found is not None and not is_plain(found):
                raise StartupError(
                    f"there is a rule {rule['_id']} with conditions of its own",
                    hint=f"change it with `docgraph acl add {rule['_id']} --replace`, "
                    "or leave --open-to out",
                )

    def announce(self) -> None:
        """What a dry run would do."""
        for rule in self._wanted:
            notice(f"would open {self._describe(rule)}")

    async def store(self) -> None:
        """Let the callers in."""
        if self._rules is None:
            return
        await self._rules.add(self._wanted, replace=True)
        for rule in self._wanted:
            notice(f"opened {self._describe(rule)}")
        await tell_served("rules", self._rules.versions)

    def _describe(self, rule: Document) -> str:
        app = rule["_id"].removeprefix(_PREFIX)
        return f"{app} to {describe_roles(rule['roles'])} by the rule {rule['_id']}"


def build_rule(definition: Document, base: str, roles: Sequence[str]) -> Document:
    """The rule that opens an app below the path `base` to callers with these roles."""
    path = f"{base.rstrip('/')}/{decode_definition(definition).uri}"
    return {
        "_id": rule_id_of(definition),
        "roles": [*roles],
        "predicate": f"path({quote_text(path)})",
    }


def rule_id_of(definition: Document) -> str:
    """The `_id` of the rule that opens an app."""
    return f"{_PREFIX}{definition['_id']!s}"


def is_plain(found: Document) -> bool:
    """Whether it opens an address and no more: nobody's conditions would be lost."""
    return found.keys() <= _OURS and bool(_ADDRESS.fullmatch(str(found.get("predicate"))))
