"""Permission rules for commands: parsed from files, checked, stored, and the indexes they need.

`access/parse_rule.py` decides what a rule means, for commands as for a server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from docgraph.access.parse_rule import Knowledge, find_refused, find_unknown, read_rule
from docgraph.access.rule import UNAUTHENTICATED, Rule, RuleOrigin
from docgraph.access.rule_authorizers import AUTHORIZER
from docgraph.access.rule_filters import find_row_filters
from docgraph.access.sections import DbAclAuthorizer
from docgraph.cli.adviser import find_adviser
from docgraph.cli.apps.definitions import find_variables
from docgraph.cli.apps.sources import require_content
from docgraph.cli.terminal import make_printable, notice
from docgraph.codec.bson_types import ObjectId
from docgraph.exchange import (
    Deadline,
    DocgraphError,
    Document,
    Read,
    Resource,
    ResourceType,
    StartupError,
    Write,
    WriteKind,
)
from docgraph.exchange.errors import Conflict, StoreUnavailable
from docgraph.rest.sections import Mongo
from docgraph.store import Policy
from docgraph.store.catalog import Catalog
from docgraph.store.mounts import split_mount
from docgraph.store.sections import AggregationSecurity
from docgraph.store.versions import Versions
from docgraph.variables import Flaw

if TYPE_CHECKING:
    from docgraph.cli.adviser import DataFinding
    from docgraph.server.app import Docgraph
    from docgraph.server.prepare import LoadedConfiguration

EVERYBODY = "everybody"
_LIMIT_MS = 30_000
_MAX_RULES = 100_000
_WRAPPER = "permissions"


def require_authorizer(prepared: LoadedConfiguration) -> DbAclAuthorizer:
    """Return the section of the rules in the database; raise if they would not be used."""
    settings = prepared.config.get(DbAclAuthorizer)
    if not settings.enabled:
        raise StartupError(
            f"{AUTHORIZER} is off, and knows no rules", hint=f"set /{AUTHORIZER}/enabled to true"
        )
    return settings


def build_knowledge(prepared: LoadedConfiguration) -> Knowledge:
    """Return what rules are checked against, without a database."""
    policy = Policy.from_section(prepared.config.get(AggregationSecurity))
    return Knowledge(find_variables(prepared), policy)


def find_flaws(document: Document, knowledge: Knowledge) -> Sequence[Flaw]:
    """Return everything that is wrong with a rule; nothing if a server would accept it."""
    read = read_rule(document, RuleOrigin.DATABASE, knowledge)
    return () if isinstance(read, Rule) else read


def find_rule_warnings(document: Document, knowledge: Knowledge) -> Sequence[Flaw]:
    """Return the flaws without a database: an unknown operator counts as a mistake."""
    read = read_rule(document, RuleOrigin.DATABASE, knowledge)
    return find_unknown(read) if isinstance(read, Rule) else read


def compile_rules(documents: Sequence[Document], knowledge: Knowledge) -> list[Rule]:
    """Compile the valid rules, as if they were stored in this order."""
    read = (
        read_rule(document, RuleOrigin.DATABASE, knowledge, position=place)
        for place, document in enumerate(documents)
    )
    return [rule for rule in read if isinstance(rule, Rule)]


def load_rules(file: Path) -> list[Document]:
    """Load the rules of a JSON or YAML file: one, a list, or a list below `permissions`."""
    content = require_content(file)
    if isinstance(content, dict) and content.keys() == {_WRAPPER}:
        content = content[_WRAPPER]
    rules = content if isinstance(content, list) else [content]
    if not rules or not all(isinstance(rule, dict) for rule in rules):
        raise StartupError(
            f"{file}: there are no rules in it",
            hint="a rule is an object with roles and a predicate; several are a list",
        )
    return rules


def quote_text(text: str) -> str:
    """Return the text as a value of a predicate."""
    mark = '"' if "'" in text and '"' not in text else "'"
    return mark + text.replace(mark, f"\\{mark}") + mark


def describe_roles(roles: Sequence[str]) -> str:
    """Return the roles of a rule in words."""
    shown = [EVERYBODY if role == UNAUTHENTICATED else role for role in roles]
    return make_printable(", ".join(shown))


class RuleCollection:
    """The collection of rules, read and written through the interceptors."""

    def __init__(self, app: Docgraph, settings: DbAclAuthorizer) -> None:
        self.app = app
        self.versions = Versions(app.store, settings.acl_db, settings.acl_collection)
        self._place = (settings.acl_db, settings.acl_collection)
        self._resource = Resource(ResourceType.COLLECTION, *self._place)

    async def read_all(self) -> list[Document]:
        """Return every stored rule; those with a higher priority first."""
        return await self._read(Read(sort=[("priority", -1), ("_id", -1)], limit=_MAX_RULES))

    async def find(self, id: str) -> Document | None:
        """Return the rule with that id, whether it is a string, a number or an ObjectId."""
        spellings: list[Any] = [id]
        if ObjectId.is_valid(id):
            spellings.append(ObjectId(id))
        if id.lstrip("-").isdecimal():
            spellings.append(int(id))
        documents = await self._read(Read(filter={"_id": {"$in": spellings}}, limit=1))
        return documents[0] if documents else None

    async def require(self, id: str) -> Document:
        """Return the rule with that id; raise if there is none."""
        document = await self.find(id)
        if document is None:
            raise StartupError(
                f"there is no rule {id!r}", hint="`docgraph acl list` lists the stored ones"
            )
        return document

    async def add(self, rules: Sequence[Document], *, replace: bool) -> None:
        """Store rules; with `replace`, instead of those with the same ids."""
        kind = WriteKind.REPLACE if replace else WriteKind.INSERT
        try:
            await self._write(Write(kind, tuple(rules), upsert=replace))
        except Conflict:
            raise StartupError(
                "there is such a rule already", hint="--replace puts the new one in its place"
            ) from None

    async def remove(self, id: Any) -> bool:
        """Remove the rule with that `_id`; return whether it existed."""
        result = await self._write(Write(WriteKind.DELETE, filter={"_id": id}))
        return bool(result.deleted)

    async def find_flaws(self, document: Document, knowledge: Knowledge) -> Sequence[Flaw]:
        """Return what is wrong with a rule; the database may accept more operators."""
        read = read_rule(document, RuleOrigin.DATABASE, knowledge)
        if not isinstance(read, Rule):
            return read
        return await find_refused(read, self.app.store, self._place)

    async def _read(self, read: Read) -> list[Document]:
        return await self.app.store.reads.read(
            self._resource, read, deadline=Deadline.after_ms(_LIMIT_MS)
        )

    async def _write(self, write: Write) -> Any:
        result = await self.app.store.writes.write(
            self._resource, write, deadline=Deadline.after_ms(_LIMIT_MS), majority=True
        )
        if result.failures:
            raise Conflict(result.failures[0].message)
        return result


_LIST_MS: Final = 6_000


async def find_missing_indexes(rules: RuleCollection) -> Sequence[DataFinding]:
    """Return advice on the indexes of collections that stored rules filter."""
    adviser = find_adviser()
    if adviser is None:
        return ()
    values = rules.app.plugins.values
    stored = [
        rule for rule in await values["acl-rules"].find_all() if rule.source is RuleOrigin.DATABASE
    ]
    filtered = [rule for rule in stored if rule.conditions.has_filters]
    mongo = values["configuration"].get(Mongo.section_name) or Mongo()
    try:
        places = [place async for place in _find_places(rules, filtered, mongo)]
        rows = list(find_row_filters(filtered, dict.fromkeys(places), mongo))
        return await adviser.advise_rows(rules.app, rows)
    except StoreUnavailable:
        raise
    except DocgraphError as error:
        notice(f"the indexes for row filters could not be checked: {error.message}")
        return ()


async def _find_places(
    rules: RuleCollection, filtered: Iterable[Rule], mongo: Mongo
) -> AsyncIterator[tuple[str, str]]:
    """Yield the collections that `readFilters` names, and those of mounted databases."""
    for rule in filtered:
        for namespace in rule.conditions.read_filters:
            db, _, collection = namespace.partition(".")
            yield db, collection
    if not any(rule.conditions.read_filter or rule.conditions.write_filter for rule in filtered):
        return
    generations = rules.app.plugins.values["generations"]
    catalog = Catalog(rules.app.store, generations, ttl=0.0)
    mounts = [mount for mount in map(split_mount, mongo.mongo_mounts) if not mount.is_template]
    named = {mount.what[0] for mount in mounts if mount.what}
    if any(not mount.what for mount in mounts):
        named |= {*await catalog.list_databases(Deadline.after_ms(_LIST_MS))}
    for db in sorted(named):
        for collection in await catalog.list_collections(db, Deadline.after_ms(_LIST_MS)):
            yield db, collection
