"""Stored documents for tools: rules, users, apps, properties and JSON schemas, and their faults.

The readers have no row filters: users who get the results must be allowed to read all of the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from docgraph.access.parse_rule import Knowledge, describe_flaw, read_rule
from docgraph.access.rule import AUTHENTICATED, UNAUTHENTICATED, Rule, RuleOrigin
from docgraph.access.sections import DbAclAuthorizer, FileAclAuthorizer
from docgraph.access.view_rules import ViewWarning
from docgraph.auth.authenticators.sections import BCRYPT_HASH, MAX_COST, DbRealmAuthenticator
from docgraph.cli.application import work_on
from docgraph.codec import name_id
from docgraph.config.section import Section
from docgraph.exchange import Deadline, Document
from docgraph.graphql.apps.compiled_app import App, build_app
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.sections import Graphql
from docgraph.rest.properties import check_properties, find_idle
from docgraph.rest.schema_checks import open_lane
from docgraph.rest.schema_store import Schemas
from docgraph.rest.sections import Mongo
from docgraph.server.app import Docgraph
from docgraph.server.prepare import LoadedConfiguration
from docgraph.store import Policy
from docgraph.store.catalog import Catalog
from docgraph.store.names import METADATA_STORE, SCHEMA_STORE
from docgraph.store.sections import AggregationSecurity
from docgraph.variables import BUILT_IN

__all__ = [
    "AUTHENTICATED",
    "BCRYPT_HASH",
    "MAX_COST",
    "METADATA_STORE",
    "SCHEMA_STORE",
    "UNAUTHENTICATED",
    "DbAclAuthorizer",
    "DbRealmAuthenticator",
    "Docgraph",
    "Graphql",
    "Policy",
    "Rule",
    "RuleOrigin",
    "build_stored_app",
    "check_properties",
    "check_schema",
    "find_idle",
    "find_policy",
    "find_section",
    "find_view_warnings",
    "list_databases",
    "list_file_rules",
    "list_mounted_databases",
    "name_id",
    "parse_rule",
    "read_documents",
    "work_on",
]

_LIMIT_MS = 30_000
S = TypeVar("S", bound=Section)


def list_mounted_databases(prepared: LoadedConfiguration) -> list[str]:
    """Return the databases that the REST API serves; `*` means all."""
    mounts = prepared.config.get(Mongo).mongo_mounts
    return sorted({mount.what.strip("/").split("/")[0] for mount in mounts})


def list_file_rules(prepared: LoadedConfiguration) -> Sequence[dict[str, Any]]:
    """Return the rules that are written in the configuration, if they are in use."""
    section = prepared.config.get(FileAclAuthorizer)
    return section.permissions if section.enabled else ()


def find_section(app: Docgraph, kind: type[S]) -> S:
    """Return a section of the configuration."""
    section: S = app.plugins.values["configuration"][kind.section_name]
    return section


def find_policy(app: Docgraph) -> Policy:
    """Return the stages and operators that are forbidden."""
    return Policy.from_section(find_section(app, AggregationSecurity))


def parse_rule(
    document: Mapping[str, Any], origin: RuleOrigin, policy: Policy | None = None
) -> Rule | list[str]:
    """Return the rule, or the flaws for which it is not used."""
    parsed = read_rule(document, origin, Knowledge(frozenset(BUILT_IN), policy or Policy()))
    return parsed if isinstance(parsed, Rule) else [describe_flaw(flaw) for flaw in parsed]


def build_stored_app(document: Document, settings: Graphql, policy: Policy) -> App:
    """Compile a stored definition; raise `DocgraphError` if it cannot be served."""
    return build_app(decode_definition(document), settings, policy=policy, is_stored=True)


async def read_documents(
    app: Docgraph, db: str, collection: str, *, limit: int, passwords: bool = False
) -> list[Document]:
    """Return the first documents of a collection; those of users with `passwords` if wanted."""
    keys = app.plugins.find(DbRealmAuthenticator.section_name).keys if passwords else ()
    deadline = Deadline.after_ms(_LIMIT_MS)
    return await app.store.reads.find(
        db, collection, {}, limit=limit, deadline=deadline, reveal=keys
    )


async def list_databases(app: Docgraph) -> list[str]:
    """Return the databases of the server."""
    catalog = Catalog(app.store, app.plugins.values["generations"], ttl=0.0)
    return list(await catalog.list_databases(Deadline.after_ms(_LIMIT_MS)))


async def find_view_warnings(app: Docgraph) -> list[ViewWarning]:
    """Return the views that row filters refuse (decision 58)."""
    comparison = app.plugins.find("accessExplain").explainer.comparison
    rules = await app.plugins.values["acl-rules"].find_all()
    return list(await comparison.find_view_warnings(rules))


async def check_schema(app: Docgraph, db: str, id: Any) -> None:
    """Raise `DocgraphError` if a stored JSON schema is missing or cannot work."""
    values = app.plugins.values
    lane = open_lane(values["blocking"])
    await Schemas(app.store, values["generations"], lane, ttl=0.0).find(db, id)
