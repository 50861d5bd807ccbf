"""Checks of `docgraph doctor`: the configuration, and the database from the outside in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from docgraph.auth.authenticators.db_users import REALM
from docgraph.auth.authenticators.password_costs import find_too_expensive
from docgraph.auth.authenticators.sections import MAX_COST, DbRealmAuthenticator
from docgraph.cli.application import open_application
from docgraph.cli.apps.definitions import check_stored, list_rights, resolve_all_questions
from docgraph.cli.apps.stored import Definitions
from docgraph.cli.parts import check_parts
from docgraph.config import ConfigSources, ConfigTree
from docgraph.config.sources import locating
from docgraph.embedded import EmbeddedMongo
from docgraph.exchange import ConfigError, Deadline, DocgraphError, StartupError
from docgraph.exchange.errors import StoreError
from docgraph.graphql.apps.definition_writes import URIS
from docgraph.graphql.sections import Graphql
from docgraph.runtime.native import explain_lane
from docgraph.runtime.sections import Core
from docgraph.server.app import Docgraph
from docgraph.server.prepare import LoadedConfiguration, load_tree, prepare, require_allower
from docgraph.server.process.tls import find_validity
from docgraph.server.sections import HttpsListener
from docgraph.server.settings import ServerSettings, list_addresses
from docgraph.store.diagnostics import (
    CheckState,
    Diagnosis,
    diagnose_database,
    diagnose_rights,
    has_index,
)
from docgraph.store.driver.rights import Right
from docgraph.store.names import REVOCATION_STORE
from docgraph.store.sections import MClient

_CHECKS = (
    *("address", "login", "version", "members", "clock", "connections", "fast path"),
    *("rights", "indexes", "passwords", "apps"),
)
_MAX_APPS = 10_000
_LIMIT_MS = 10_000
_MAX_NAMED = 20


def examine(sources: ConfigSources) -> list[Diagnosis]:
    """Return the findings of every check; checks that could not run are named, too."""
    try:
        prepared, findings = _check_configuration(load_tree(sources))
        findings += _examine_database(prepared)
    except ConfigError as error:
        findings = [
            Diagnosis("configuration", CheckState.WRONG, str(problem)) for problem in error.problems
        ]
    seen = {finding.check for finding in findings}
    skipped = "not checked, because of the above"
    return [
        *findings,
        Diagnosis("JSON lane", CheckState.OK, explain_lane()),
        *(Diagnosis(check, CheckState.SKIPPED, skipped) for check in _CHECKS if check not in seen),
    ]


def _check_configuration(tree: ConfigTree) -> tuple[LoadedConfiguration, list[Diagnosis]]:
    with locating(tree):
        prepared = prepare(tree)
        require_allower(prepared)
        advised = check_parts(prepared)
    where = str(tree.file) if tree.file else "no file: the defaults, and what was given beside them"
    warnings = (*prepared.config.warnings, *advised)
    advice = (Diagnosis("configuration", CheckState.ADVICE, str(warning)) for warning in warnings)
    listeners = ", ".join(list_addresses(ServerSettings.from_sections(prepared.config.sections)))
    return prepared, [
        Diagnosis("configuration", CheckState.OK, where),
        *advice,
        Diagnosis("listeners", CheckState.OK, listeners),
        *_check_certificate(prepared.config.get(HttpsListener)),
    ]


def _check_certificate(listener: HttpsListener) -> Iterator[Diagnosis]:
    if not listener.enabled:
        return
    validity = find_validity(listener)
    state, advice = CheckState.OK, ""
    if validity.ends_soon:
        state = CheckState.WRONG if validity.is_over else CheckState.ADVICE
        advice = f"renew {listener.certificate}; the server loads the new files by itself"
    verb = "expired" if validity.is_over else "expires"
    yield Diagnosis("certificate", state, f"{verb} {validity.describe_end()}", advice)


def _examine_database(prepared: LoadedConfiguration) -> list[Diagnosis]:
    address = prepared.config.get(MClient).connection_string
    if address is None:
        directory = prepared.config.get(Core).data_directory
        address = EmbeddedMongo.find_running(directory)
        if address is None:
            message = f"the embedded MongoDB of {directory} does not run"
            return [Diagnosis("address", CheckState.OK, message, "`docgraph serve` starts it")]
    findings: list[Diagnosis] = []
    try:
        asyncio.run(_examine(prepared, address, findings))
    except (StartupError, DocgraphError) as error:
        check = "database" if findings else "address"
        findings.append(Diagnosis(check, CheckState.WRONG, error.message, error.hint or ""))
    return findings


async def _examine(prepared: LoadedConfiguration, address: str, findings: list[Diagnosis]) -> None:
    """Add the findings, as far as the checks can run."""
    async with open_application(prepared, address) as app:
        store = app.store
        async for finding in diagnose_database(store, prepared.config.get(Core).workers):
            findings.append(finding)
        if any(
            finding.check in ("address", "login") and finding.state is CheckState.WRONG
            for finding in findings
        ):
            return
        findings.append(await diagnose_rights(store, await _find_rights_for_apps(app)))
        if findings[-1].state is not CheckState.WRONG:
            findings.append(await _inspect_indexes(app))
            findings.append(await _check_passwords(app))
            findings.append(await _check_apps(app, prepared))


async def _find_rights_for_apps(app: Docgraph) -> list[Right]:
    """Return the rights to read the collections of stored apps; none if apps cannot be read."""
    settings: Graphql = app.plugins.values["configuration"][Graphql.section_name]
    try:
        documents = await app.store.reads.find(
            settings.db,
            settings.collection,
            {},
            limit=_MAX_APPS,
            deadline=Deadline.after_ms(_LIMIT_MS),
        )
    except StoreError:
        if app.store.fault is None:
            raise
        return []  # the missing right is already reported
    return list_rights(documents)


async def _inspect_indexes(app: Docgraph) -> Diagnosis:
    sections = app.plugins.values["configuration"]
    apps: Graphql = sections[Graphql.section_name]
    users: DbRealmAuthenticator = sections[DbRealmAuthenticator.section_name]
    wanted = (
        (apps.db, apps.collection, (URIS,)),
        (users.users_db, REVOCATION_STORE, ("until",)),
        (users.users_db, REVOCATION_STORE, ("written", "_id")),
    )
    indexes = {
        f"{db}.{collection}: {', '.join(keys)}": await has_index(app.store, db, collection, keys)
        for db, collection, keys in wanted
    }
    if missing := [name for name, is_there in indexes.items() if is_there is False]:
        advice = "`docgraph serve` makes them when it starts"
        return Diagnosis("indexes", CheckState.ADVICE, "some are missing", advice, tuple(missing))
    if None in indexes.values():
        advice = "grant listIndexes to have them looked at"
        return Diagnosis("indexes", CheckState.ADVICE, "the database does not tell them", advice)
    return Diagnosis("indexes", CheckState.OK, "those of docgraph are there, or not needed yet")


async def _check_passwords(app: Docgraph) -> Diagnosis:
    """Find users who cannot log in because their hash is too expensive; callers do not learn it."""
    realm = app.plugins.find(REALM)
    if realm is None:
        return Diagnosis("passwords", CheckState.OK, f"{REALM} is off")
    users = await find_too_expensive(app.store, realm, _MAX_NAMED + 1)
    if not users:
        return Diagnosis("passwords", CheckState.OK, f"no hash has a cost above {MAX_COST}")
    return Diagnosis(
        "passwords",
        CheckState.WRONG,
        f"users cannot log in with a password: the cost of their bcrypt hash is above {MAX_COST}",
        "set a new password: `docgraph users passwd`",
        _shorten(users),
    )


async def _check_apps(app: Docgraph, prepared: LoadedConfiguration) -> Diagnosis:
    """Name stored apps that are not served, or not completely."""
    settings = prepared.config.get(Graphql)
    stored = await Definitions(app, settings).read_all()
    checked = await asyncio.to_thread(check_stored, prepared, stored)
    resolved = await resolve_all_questions(checked, app.store, settings)
    invalid = [f"{check.name}: {check.errors[0]}" for check in resolved if check.errors]
    if not invalid:
        return Diagnosis("apps", CheckState.OK, f"{len(stored)} stored, none is invalid")
    return Diagnosis(
        "apps",
        CheckState.WRONG,
        f"{len(invalid)} of {len(stored)} stored apps are invalid",
        "fix them; `docgraph apps check` lists all errors",
        _shorten(invalid),
    )


def _shorten(names: Sequence[str]) -> tuple[str, ...]:
    more = ("and others",) if len(names) > _MAX_NAMED else ()
    return (*names[:_MAX_NAMED], *more)
