"""Tools for users and permission rules: where they are stored, and validation of a rule.

The REST API writes them, like all documents; nothing is stored here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from docgraph.access.parse_rule import FILTERS, find_refused, read_rule
from docgraph.access.rule import Rule, RuleOrigin
from docgraph.access.rule_warnings import find_ties
from docgraph.access.rulebook import Ignored, RuleBook
from docgraph.access.sections import Acl, DbAclAuthorizer
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.authoring.app_sessions import AppSessions
from docgraph.authoring.requests import ToolArguments, locate, read_text
from docgraph.codec import EncodeError, JsonMode, decode, name_id, to_json
from docgraph.codec.roles_path import RolesPath
from docgraph.config.config_node import ConfigNode
from docgraph.exchange import Exchange
from docgraph.exchange.errors import BodyError, Forbidden
from docgraph.graphql.definition.inputs import build_bson
from docgraph.rest.sections import Mongo
from docgraph.runtime import Lane, run_blocking
from docgraph.variables import Flaw

_SHOWN: Final = ("description", "mongo")
_MAX_FINDINGS: Final = 1_000


@dataclass(frozen=True, slots=True)
class UsersAndRules:
    """The tools for users and rules; work that takes long runs in the `lane`."""

    sessions: AppSessions
    lane: Lane
    book: RuleBook
    users_section: DbRealmAuthenticator
    rules_section: DbAclAuthorizer
    mongo: Mongo

    async def realm(self, exchange: Exchange, wanted: ToolArguments) -> dict[str, Any]:
        """Return where the REST API serves users and rules, and the properties of a user."""
        users, rules = self.users_section, self.rules_section
        path = self.sessions.find_path(self.mongo, rules.acl_db, rules.acl_collection)
        return {
            "rootRole": rules.root_role if rules.enabled else None,
            "users": self._describe_users() if users.enabled else None,
            "rules": {"path": path} if rules.enabled else None,
        }

    def _describe_users(self) -> dict[str, Any]:
        users = self.users_section
        is_strict = users.enforce_minimum_password_strength
        return {
            "path": self.sessions.find_path(self.mongo, users.users_db, users.users_collection),
            "propId": users.prop_id,
            "propPassword": users.prop_password,
            "jsonPathRoles": users.json_path_roles,
            "propRoles": RolesPath(users.json_path_roles).exact,
            "minimumPasswordStrength": users.minimum_password_strength if is_strict else None,
        }

    async def rules(self, exchange: Exchange, wanted: ToolArguments) -> dict[str, Any]:
        """Return all rules in the order of evaluation; or what is wrong with the one sent."""
        if wanted.rule is not None:
            return await self._check(wanted.rule)
        if exchange.request.method not in ("GET", "HEAD"):
            raise BodyError("'rule' is missing", hint="give a rule as it would be stored")
        if not self.sessions.is_root(exchange):
            raise Forbidden("only the root role may see all rules")
        rules = sorted(
            await self.book.find_all(),
            key=lambda rule: self.book.rank(rule, tuple(rule.roles)),
            reverse=True,
        )
        ignored = await self.book.find_ignored()
        return await run_blocking(self.lane, _describe_rules, rules, ignored, self.book.acl)

    async def _check(self, source: Mapping[str, Any]) -> dict[str, Any]:
        """Return the findings of a write; if filters are texts, findings have positions in them."""
        document, read = await run_blocking(self.lane, self._read, source)
        if isinstance(read, Rule):
            section = self.rules_section
            place = (section.acl_db, section.acl_collection)
            read = await find_refused(read, self.sessions.store, place)
        return await run_blocking(self.lane, _describe_check, document, read)

    def _read(self, source: Mapping[str, Any]) -> tuple[dict[str, Any], Rule | list[Flaw]]:
        try:
            document: dict[str, Any] = build_bson(dict(source))
        except ValueError as error:
            return {}, [Flaw("", str(error))]
        return document, read_rule(document, RuleOrigin.DATABASE, self.book.knowledge)


def _describe_check(document: dict[str, Any], flaws: Sequence[Flaw]) -> dict[str, Any]:
    if flaws:
        return {"valid": False, "errors": _describe_flaws(flaws, document)}
    return {"valid": True, "errors": [], "rule": _render(_open_filters(document))}


def _describe_rules(rules: Sequence[Rule], ignored: Sequence[Ignored], acl: Acl) -> dict[str, Any]:
    ties = {id(tie.rule): [tie.describe()] for tie in find_ties(rules, acl)}
    described = (_describe_rule(rule, ties.get(id(rule), [])) for rule in rules)
    return {"rules": [*described, *map(_describe_ignored, ignored)]}


def _describe_rule(rule: Rule, warnings: Sequence[Flaw]) -> dict[str, Any]:
    return {
        "rule": rule.label,
        "id": _render(rule.id),
        "source": str(rule.source),
        "roles": sorted(rule.roles),
        "predicate": rule.predicate.text,
        "priority": rule.priority,
        **_describe_rest(rule.document),
        "errors": [],
        "warnings": _describe_flaws(warnings, {}),
    }


def _describe_ignored(ignored: Ignored) -> dict[str, Any]:
    document = ignored.document
    roles = document.get("roles", document.get("role"))
    listed = roles if isinstance(roles, list) else [roles]
    return {
        "rule": f"{name_id(document.get('_id'))} ({RuleOrigin.DATABASE})",
        "id": _render(document.get("_id")),
        "source": str(RuleOrigin.DATABASE),
        "roles": [role for role in listed if isinstance(role, str)],
        "predicate": str(document.get("predicate", "")),
        "priority": None,
        **_describe_rest(document),
        "errors": _describe_flaws(ignored.flaws, document),
        "warnings": [],
    }


def _describe_rest(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _render(document[name]) for name in _SHOWN if document.get(name) is not None}


def _render(value: Any) -> Any:
    """Return the value as JSON that preserves its types, as far as possible."""
    try:
        return to_json(value, JsonMode.STRICT)
    except EncodeError:
        return None


def _describe_flaws(flaws: Sequence[Flaw], document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the findings, with their positions in filters that are texts."""
    block = document.get("mongo")
    filters = block if isinstance(block, Mapping) else {}
    texts = {f"mongo.{name}": filters.get(name) for name in FILTERS}
    nodes = {
        where: node
        for where, text in texts.items()
        if isinstance(text, str) and (node := read_text(text)) is not None
    }
    return [_describe_flaw(flaw, nodes) for flaw in flaws[:_MAX_FINDINGS]]


def _open_filters(document: dict[str, Any]) -> dict[str, Any]:
    """Return the rule with filter texts parsed to objects, as far as keys allow it."""
    block = document.get("mongo")
    if not isinstance(block, Mapping):
        return document
    opened = {
        name: decode(value) if name in FILTERS and isinstance(value, str) else value
        for name, value in block.items()
    }
    return {**document, "mongo": opened}


def _describe_flaw(flaw: Flaw, nodes: Mapping[str, ConfigNode]) -> dict[str, Any]:
    content = {"where": flaw.where, "what": flaw.what, "hint": flaw.hint}
    if flaw.line:
        return content | {"line": flaw.line, "column": flaw.column}
    for where, node in nodes.items():
        if flaw.where.startswith(f"{where}.") and (place := locate(node, flaw.where[len(where) :])):
            return content | place._asdict()
    return content
