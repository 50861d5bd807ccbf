"""Survey of stored rules, users, apps and properties that would behave differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from docgraph.access.parse_rule import Knowledge, describe_flaw, read_rule
from docgraph.access.rule import UNAUTHENTICATED, Rule, RuleOrigin
from docgraph.access.sections import DbAclAuthorizer
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.cli.migrate.convert import Fate, Remark
from docgraph.codec import name_id
from docgraph.exchange import Deadline, Document
from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.apps.compiled_app import build_app
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.sections import Graphql
from docgraph.rest.properties import check_properties, find_idle
from docgraph.server.app import Docgraph
from docgraph.store import Policy
from docgraph.store.catalog import Catalog
from docgraph.store.sections import AggregationSecurity
from docgraph.variables import BUILT_IN

_MAX_READ: Final = 10_000  # documents of each collection
_LIMIT_MS: Final = 30_000
_PROPERTIES: Final = "_properties"
_MAX_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class StoredSurvey:
    """Reads the collections of an installation through the store and compares each document."""

    app: Docgraph
    _cut: list[Remark] = field(default_factory=list)

    async def run(self, databases: Sequence[str]) -> list[Remark]:
        """Return the differences of all kinds of documents; the database `*` means all."""
        acl, users, graphql = (
            self.app.plugins.values["configuration"][kind.section_name]
            for kind in (DbAclAuthorizer, DbRealmAuthenticator, Graphql)
        )
        policy = Policy.from_section(
            self.app.plugins.values["configuration"][AggregationSecurity.section_name]
        )
        rules = await self._read(acl.acl_db, acl.acl_collection)
        people = await self._read(users.users_db, users.users_collection)
        remarks = [*check_rules(rules, policy), *check_people(people, rules)]
        apps = await self._read(graphql.db, graphql.collection)
        remarks += check_apps(apps, graphql, policy)
        remarks += await self._check_views()
        if "*" in databases:
            catalog = Catalog(self.app.store, self.app.plugins.values["generations"], ttl=0.0)
            databases = await catalog.list_databases(Deadline.after_ms(_LIMIT_MS))
        for db in databases:
            remarks += check_stored_properties(db, await self._read(db, _PROPERTIES), policy)
        return remarks + self._cut

    async def _check_views(self) -> list[Remark]:
        """Return the views that rules refuse from now on (decision 58)."""
        comparison = self.app.plugins.find("accessExplain").explainer.comparison
        rules = await self.app.plugins.values["acl-rules"].find_all()
        return [
            Remark(Fate.CHANGED, f"permission {one.rule}", f"{flaw.where} {flaw.what}; {flaw.hint}")
            for one in await comparison.find_view_warnings(rules)
            if one.other is None and (flaw := one.describe())
        ]

    async def _read(self, db: str, collection: str) -> list[Document]:
        deadline = Deadline.after_ms(_LIMIT_MS)
        found = await self.app.store.reads.find(
            db, collection, {}, limit=_MAX_READ + 1, deadline=deadline
        )
        if len(found) > _MAX_READ:
            text = f"only the first {_MAX_READ} documents were compared"
            self._cut.append(Remark(Fate.CHANGED, f"{db}.{collection}", text, shows_more=True))
        return list(found[:_MAX_READ])


def check_rules(
    documents: Sequence[Document], policy: Policy, source: RuleOrigin = RuleOrigin.DATABASE
) -> Iterator[Remark]:
    """Yield rules that docgraph does not accept, and those that apply to more callers here."""
    knowledge = Knowledge(frozenset(BUILT_IN), policy)
    for number, document in enumerate(documents):
        rule = read_rule(document, source, knowledge)
        where = f"permission {name_id(document.get('_id'))}"
        if source is RuleOrigin.FILE:
            where = f"fileAclAuthorizer.permissions[{number}]"
        if not isinstance(rule, Rule):
            text = f"is not used until it is corrected: {describe_flaw(rule[0])}"
            # Another rule may admit the same requests without the filters of this one.
            yield Remark(Fate.CHANGED, where, text, shows_more=_narrows(document))
        elif UNAUTHENTICATED in rule.roles:
            text = "also applies to authenticated callers whom no rule for their roles admits"
            option = "authentication.anonymous-fallback"
            yield Remark(Fate.CHANGED, where, text, shows_more=True, needs=option)


def check_file_rules(rules: Sequence[Any]) -> list[Remark]:
    """Return the differences of the rules in the configuration; other values are left out."""
    documents = [rule for rule in rules if isinstance(rule, dict)]
    return list(check_rules(documents, Policy(), RuleOrigin.FILE))


def _narrows(document: Mapping[str, Any]) -> bool:
    conditions = document.get("mongo")
    return isinstance(conditions, Mapping) and any(
        conditions.get(name) for name in ("readFilter", "writeFilter", "projectResponse")
    )


def check_people(people: Sequence[Document], rules: Sequence[Document]) -> Iterator[Remark]:
    """Yield the callers for whom the order of their roles decides."""
    roles_with_rules = {role for rule in rules for role in _list_roles(rule)}
    found = [
        name_id(person.get("_id"))
        for person in people
        if len(roles_with_rules.intersection(_list_roles(person))) > 1
    ]
    if found:
        names = ", ".join(found[:_MAX_NAMED])
        more = f" and {len(found) - _MAX_NAMED} more" if len(found) > _MAX_NAMED else ""
        option = "acl.first-role-wins"
        text = f"have several roles with rules: {option} keeps the order of the roles"
        yield Remark(Fate.TAKEN, f"users {names}{more}", text, needs=option)


def _list_roles(document: Mapping[str, Any]) -> list[str]:
    roles = document.get("roles", document.get("role"))
    listed = [roles] if isinstance(roles, str) else roles
    return [role for role in listed if isinstance(role, str)] if isinstance(listed, list) else []


def check_apps(
    documents: Sequence[Document], settings: Graphql, policy: Policy
) -> Iterator[Remark]:
    """Yield apps that docgraph answers with 400, serves in part, or serves at two paths."""
    for document in documents:
        where = f"app {name_id(document.get('_id'))}"
        try:
            app = build_app(decode_definition(document), settings, policy=policy, is_stored=True)
        except DocgraphError as error:
            text = f"answers 400 until it is corrected: {error.message}"
            yield Remark(Fate.CHANGED, where, text)
            continue
        if app.problems:
            text = f"is served without its invalid parts: {'; '.join(map(str, app.problems))}"
            yield Remark(Fate.CHANGED, where, text)
        if isinstance(app.definition.id, str) and app.definition.uri != app.definition.id:
            option = "graphql.serve-by-id"
            text = f"is served at {app.definition.uri}, and under its _id by {option}"
            yield Remark(Fate.TAKEN, where, text, needs=option)


def check_stored_properties(
    db: str, documents: Sequence[Document], policy: Policy
) -> Iterator[Remark]:
    """Yield aggregations, streams, schemas and other properties that docgraph does not accept."""
    for document in documents:
        name = str(document.get("_id", ""))
        is_collection = name.startswith(f"{_PROPERTIES}.")
        where = f"{db}/{name.removeprefix(f'{_PROPERTIES}.')}" if is_collection else db
        try:
            check_properties(document, db=db, policy=policy, of_collection=is_collection)
        except DocgraphError as error:
            yield Remark(Fate.MISSING, where, error.message)
        for text in find_idle(document) if is_collection else ():
            yield Remark(Fate.MISSING, where, text)
