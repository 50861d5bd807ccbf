"""Survey of stored rules, users, apps and properties that would behave differently."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from docgraph import DocgraphError, Document
from docgraph.tools.stored import (
    AUTHENTICATED,
    BCRYPT_HASH,
    MAX_COST,
    METADATA_STORE,
    SCHEMA_STORE,
    UNAUTHENTICATED,
    DbAclAuthorizer,
    DbRealmAuthenticator,
    Docgraph,
    Graphql,
    Policy,
    Rule,
    RuleOrigin,
    build_stored_app,
    check_properties,
    check_schema,
    find_idle,
    find_policy,
    find_section,
    find_view_warnings,
    list_databases,
    name_id,
    parse_rule,
    read_documents,
)
from docgraph_migrate.report import Remark, ReportList

_MAX_READ: Final = 10_000  # documents of each collection
_MAX_NAMED: Final = 10
_HASH_THERE: Final = "$2a$"  # of every password hash that RESTHeart accepts
_CORRECT: Final = "correct it before you switch over"
# Conditions that are never true there, and work here.
_IDLE_THERE: Final = re.compile(r"bson-request-prop-equals|equals\s*[(\[]\s*@qparams\s*\[")


@dataclass(frozen=True, slots=True)
class StoredSurvey:
    """Reads the collections of an installation through the store and compares each document."""

    app: Docgraph
    _cut: list[Remark] = field(default_factory=list)

    async def run(self, databases: Sequence[str]) -> list[Remark]:
        """Return the differences of all kinds of documents; the database `*` means all."""
        acl = find_section(self.app, DbAclAuthorizer)
        users = find_section(self.app, DbRealmAuthenticator)
        graphql, policy = find_section(self.app, Graphql), find_policy(self.app)
        rules = await self._read(acl.acl_db, acl.acl_collection) if acl.enabled else []
        place = (users.users_db, users.users_collection)
        people = await self._read(*place, passwords=True) if users.enabled else []
        named = [(f"permission {name_id(rule.get('_id'))}", rule) for rule in rules]
        remarks = [*check_rules(named, policy, RuleOrigin.DATABASE), *check_people(people, rules)]
        if users.bcrypt_hashed_password:
            remarks += check_hashes(people, users.prop_password)
        apps = await self._read(graphql.db, graphql.collection) if graphql.enabled else []
        remarks += check_apps(apps, graphql, policy)
        remarks += await self._check_views()
        if "*" in databases:
            databases = await list_databases(self.app)
        for db in databases:
            properties = await self._read(db, METADATA_STORE)
            remarks += check_stored_properties(db, properties, policy)
            remarks += await self._check_schemas(db, properties)
        return remarks + self._cut

    async def _check_views(self) -> list[Remark]:
        """Return the views that rules refuse from now on (decision 58)."""
        return [
            Remark(
                ReportList.MORE,
                "view",
                f"permission {warning.rule}",
                f"{flaw.where} {flaw.what}",
                flaw.hint or _CORRECT,
                "GET of the view",
            )
            for warning in await find_view_warnings(self.app)
            if warning.other is None and (flaw := warning.describe())
        ]

    async def _check_schemas(self, db: str, properties: Sequence[Document]) -> list[Remark]:
        """Return the JSON schemas that cannot work, and the collections that name one."""
        places = {
            f"schema {db}/{name_id(schema['_id'])}": (db, schema["_id"])
            for schema in await self._read(db, SCHEMA_STORE)
        }
        for document in properties:
            setting = document.get("jsonSchema")
            if isinstance(setting, dict) and setting.get("schemaId") is not None:
                store = setting.get("schemaStoreDb", db)
                places[f"{_name_place(db, document)}/jsonSchema"] = (store, setting["schemaId"])
        remarks = []
        for where, key in places.items():
            try:
                await check_schema(self.app, *key)
            except DocgraphError as error:
                remedy = error.hint or _CORRECT
                example = f"schemaId: {key[1]}"
                remarks.append(
                    Remark(ReportList.MORE, "schema", where, error.message, remedy, example)
                )
        return remarks

    async def _read(self, db: str, collection: str, *, passwords: bool = False) -> list[Document]:
        documents = await read_documents(
            self.app, db, collection, limit=_MAX_READ + 1, passwords=passwords
        )
        if len(documents) > _MAX_READ:
            text = f"only the first {_MAX_READ} documents were compared"
            where, remedy = f"{db}.{collection}", "compare the others yourself"
            example = f"db.{collection}.find().skip({_MAX_READ})"
            self._cut.append(Remark(ReportList.LESS, "not-compared", where, text, remedy, example))
        return list(documents[:_MAX_READ])


def check_rules(
    named: Iterable[tuple[str, Mapping[str, Any]]], policy: Policy, source: RuleOrigin
) -> Iterator[Remark]:
    """Yield rules, each with its location, that docgraph refuses or decides otherwise."""
    narrowing: list[str] = []
    bound: list[str] = []
    for where, document in named:
        rule = parse_rule(document, source, policy)
        if not isinstance(rule, Rule):
            # Another rule may admit the same requests without the filters of this one.
            effect = ReportList.LESS if _narrows(document) else ReportList.MORE
            text = f"is not used until it is corrected: {'; '.join(rule)}"
            yield Remark(effect, "rule-not-used", where, text, _CORRECT, _show(document))
            continue
        yield from _compare_rule(rule, document, where)
        if rule.conditions.read_filter is not None or rule.conditions.project_response:
            narrowing.append(where)
        merge = rule.conditions.merge_request
        if rule.conditions.variables or (merge is not None and merge.names):
            bound.append(where)
    yield from _describe_filters(narrowing, bound)


def _compare_rule(rule: Rule, document: Mapping[str, Any], where: str) -> Iterator[Remark]:
    """Yield why a valid rule admits more requests here."""
    example = _show(document)
    if UNAUTHENTICATED in rule.roles:
        text = "also applies to authenticated callers whom no rule for their roles admits"
        option = "authentication.anonymous-fallback"
        remedy = "accept it, or narrow the predicate to what every caller may do"
        yield Remark(ReportList.LESS, "public-rule", where, text, remedy, example, option)
    never = []
    if AUTHENTICATED in rule.roles:
        never.append(f"no caller has the role {AUTHENTICATED} there")
    if rule.source is RuleOrigin.DATABASE and "roles" not in document:
        never.append("a stored rule needs roles there, and role is not read")
    if _IDLE_THERE.search(rule.predicate.text):
        never.append("its predicate is never true there")
    if never:
        text = f"never matched, and does here: {'; '.join(never)}"
        remedy = "remove the rule, or accept it if it is meant"
        yield Remark(ReportList.LESS, "idle-rule", where, text, remedy, example)


def _describe_filters(narrowing: Sequence[str], bound: Sequence[str]) -> Iterator[Remark]:
    if narrowing:
        text = (
            "their readFilter and projectResponse also apply to aggregations and change streams; "
            "filter and sort by a hidden property are 403"
        )
        remedy = "give callers who need more a rule without the filter"
        example = "GET /coll/_aggrs/name, GET /coll?sort=-hidden"
        where = _name_some(narrowing)
        yield Remark(ReportList.MORE, "filtered-reads", where, text, remedy, example)
    if bound:
        text = "a variable without a value in readFilter or mergeRequest is 403; there it is null"
        remedy = "give users the property that the variable names"
        where, example = _name_some(bound), "@user.team for a user without team"
        yield Remark(ReportList.MORE, "unbound-variable", where, text, remedy, example)


def _show(document: Mapping[str, Any]) -> str:
    roles = ", ".join(_list_roles(document)) or "no role"
    return f"{roles}: {' '.join(str(document.get('predicate')).split())}"


def _name_some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f"{', '.join(names[:_MAX_NAMED])}{more}"


class FileRulesSurvey(NamedTuple):
    """The differences of file rules, and the positions of those that cannot be read."""

    remarks: list[Remark]
    unreadable: frozenset[int]


def check_file_rules(rules: Sequence[Any]) -> FileRulesSurvey:
    """Return the differences of the rules in the configuration; other values are left out."""
    documents = {number: rule for number, rule in enumerate(rules) if isinstance(rule, dict)}
    unreadable = (
        number
        for number, document in documents.items()
        if not isinstance(parse_rule(document, RuleOrigin.FILE), Rule)
    )
    named = [
        (f"fileAclAuthorizer.permissions[{number}]", rule) for number, rule in documents.items()
    ]
    differences = check_rules(named, Policy(), RuleOrigin.FILE)
    return FileRulesSurvey(list(differences), frozenset(unreadable))


def _narrows(document: Mapping[str, Any]) -> bool:
    conditions = document.get("mongo")
    return isinstance(conditions, Mapping) and any(
        conditions.get(name)
        for name in ("readFilter", "writeFilter", "mergeRequest", "projectResponse")
    )


def check_people(people: Sequence[Document], rules: Sequence[Document]) -> Iterator[Remark]:
    """Yield the callers for whom the order of their roles decides."""
    roles_with_rules = {role for rule in rules for role in _list_roles(rule)}
    affected = [
        name_id(person.get("_id"))
        for person in people
        if len(roles_with_rules.intersection(_list_roles(person))) > 1
    ]
    if affected:
        option = "acl.first-role-wins"
        text = f"have several roles with rules: {option} keeps the order of the roles"
        where = f"users {_name_some(affected)}"
        yield Remark(ReportList.KEPT, "roles", where, text, "", needs=option)


def check_hashes(people: Sequence[Document], prop_password: str) -> Iterator[Remark]:
    """Yield the users who can log in only here, and those who can only there."""
    newly, no_longer = [], []
    for person in people:
        value = person.get(prop_password)
        stored = value if isinstance(value, str) else ""
        shape = BCRYPT_HASH.fullmatch(stored)
        is_new = shape is not None and not stored.startswith(_HASH_THERE)
        if shape is not None and int(shape[1]) > MAX_COST:
            no_longer += [] if is_new else [name_id(person.get("_id"))]
        elif is_new:
            newly.append(name_id(person.get("_id")))
    example = f"a hash that does not begin with {_HASH_THERE}"
    if newly:
        text = "can log in here; their password hashes are not accepted there"
        remedy = "remove these users or their passwords, or accept that they log in"
        where = f"users {_name_some(newly)}"
        yield Remark(ReportList.LESS, "foreign-hash", where, text, remedy, example)
    if no_longer:
        text = f"cannot log in: the cost of their password hashes is above {MAX_COST}"
        where, remedy = f"users {_name_some(no_longer)}", "set their passwords again"
        example = f"{_HASH_THERE}15$…"
        yield Remark(ReportList.MORE, "costly-hash", where, text, remedy, example)


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
            app = build_stored_app(document, settings, policy)
        except DocgraphError as error:
            text = f"answers 400 until it is corrected: {error.message}"
            remedy = error.hint or _CORRECT
            yield Remark(ReportList.ANSWERS, "app", where, text, remedy, _show_app(document))
            continue
        if app.problems:
            text = f"is served without its invalid parts: {'; '.join(map(str, app.problems))}"
            yield Remark(ReportList.ANSWERS, "app", where, text, _CORRECT, _show_app(document))
        if isinstance(app.definition.id, str) and app.definition.uri != app.definition.id:
            option = "graphql.serve-by-id"
            text = f"is served at {app.definition.uri}, and under its _id by {option}"
            yield Remark(ReportList.KEPT, "two-paths", where, text, "", needs=option)


def _show_app(document: Mapping[str, Any]) -> str:
    descriptor = document.get("descriptor")
    uri = descriptor.get("uri") if isinstance(descriptor, Mapping) else None
    return f"POST /graphql/{uri or name_id(document.get('_id'))}"


def check_stored_properties(
    db: str, documents: Sequence[Document], policy: Policy
) -> Iterator[Remark]:
    """Yield aggregations, streams, schemas and other properties that docgraph does not accept."""
    for document in documents:
        where = _name_place(db, document)
        is_collection = where != db
        try:
            check_properties(document, db=db, policy=policy, of_collection=is_collection)
        except DocgraphError as error:
            faults = error.details if isinstance(error.details, list) else [error.message]
            text, remedy = "; ".join(map(str, faults)), error.hint or _CORRECT
            example = f"GET /{where.rpartition('/')[2]}/_meta"
            yield Remark(ReportList.MORE, "properties", where, text, remedy, example)
        for text in find_idle(document) if is_collection else ():
            remedy = "remove it when your clients no longer rely on it"
            example = f"GET /{where.rpartition('/')[2]}/_meta"
            yield Remark(ReportList.ANSWERS, "idle-property", where, text, remedy, example)


def _name_place(db: str, document: Mapping[str, Any]) -> str:
    """Return the database or the collection whose properties the document has."""
    name = str(document.get("_id", ""))
    prefix = f"{METADATA_STORE}."
    return f"{db}/{name.removeprefix(prefix)}" if name.startswith(prefix) else db
