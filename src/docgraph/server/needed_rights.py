"""Database privileges that docgraph needs for its own collections, by configuration.

Further privileges depend on the apps and on which callers may write: the first failing request
reports them. `docs/how-to/use-your-own-mongodb.md` explains them; a test compares both.
"""

from __future__ import annotations

from collections.abc import Iterator

from docgraph.access.sections import DbAclAuthorizer
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.config import Decoded
from docgraph.graphql.sections import Graphql
from docgraph.rest.sections import Mongo
from docgraph.store.driver.rights import Right
from docgraph.store.mounts import HISTORY_STORE, KEY_STORE, REVOCATION_STORE, VERSION_STORE

_NEWS = "changes made elsewhere are live immediately"
_NOTING = ("find", "insert", "update")
_WHO_SERVES = "which instance serves what"


def find_needed_rights(config: Decoded) -> tuple[Right, ...]:
    """Return one privilege for each purpose and place."""
    users, rules = config.get(DbRealmAuthenticator), config.get(DbAclAuthorizer)
    apps = config.get(Graphql)
    own = (*_for_users(users), *_for_rules(rules), *_for_apps(apps))
    noted = dict.fromkeys(right.db for right in own)
    if config.get(Mongo).enabled:
        noted[apps.db] = None  # the version of data that the REST API caches
    return (*own, *(Right(db, VERSION_STORE, _NOTING, _WHO_SERVES) for db in noted))


def _for_users(users: DbRealmAuthenticator) -> Iterator[Right]:
    db, collection = users.users_db, users.users_collection
    if users.enabled:
        yield Right(db, collection, ("find",), "who may log in", required=True)
        if users.create_user:
            yield Right(db, collection, ("insert",), "the first administrator")
    yield Right(db, REVOCATION_STORE, ("find",), "tokens that were revoked", required=True)
    revoking = ("insert", "update", "createIndex")
    yield Right(db, REVOCATION_STORE, revoking, "revoking tokens")
    yield Right(db, "", ("find", "changeStream"), _NEWS)


def _for_rules(rules: DbAclAuthorizer) -> Iterator[Right]:
    db, collection = rules.acl_db, rules.acl_collection
    if rules.enabled:
        yield Right(db, collection, ("find",), "who may do what", required=True)
        if rules.cache_enabled:
            yield Right(db, collection, ("changeStream",), _NEWS)


def _for_apps(apps: Graphql) -> Iterator[Right]:
    if apps.enabled:
        yield Right(apps.db, apps.collection, ("find",), "the GraphQL apps", required=True)
        yield Right(apps.db, apps.collection, ("changeStream",), _NEWS)
        yield Right(apps.db, "", ("listCollections",), "whether there are apps")
        yield Right(apps.db, apps.collection, ("createIndex",), "no two apps have the same address")
        if apps.cursor_key is None:
            yield Right(apps.db, KEY_STORE, ("find", "insert"), "the key of cursors")
        if apps.history_versions:
            recording = ("find", "insert", "update", "remove")
            yield Right(apps.db, HISTORY_STORE, recording, "former versions of the apps")
