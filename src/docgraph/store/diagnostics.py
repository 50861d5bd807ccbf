"""Diagnostics of the database connection: address, login, privileges, version, members, clock.

For `docgraph doctor`: each check reports what it found and what to do. A failed check can make the
following checks pointless. Nothing is changed in the database.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from enum import StrEnum
from typing import Final

from docgraph.exchange.data import Document
from docgraph.store.driver.connection_status import Lacking, Lost
from docgraph.store.driver.driver_internals import find_obstacle
from docgraph.store.driver.fast_path import find_pool_size
from docgraph.store.driver.login import log_in
from docgraph.store.driver.malformed import reading_reply, translated
from docgraph.store.driver.rights import Right
from docgraph.store.store import Store

_SECONDS: Final = 20.0
_OLDEST: Final = (5, 0)
_CLOCKS_DIFFER: Final = 5.0  # seconds; token expiry is compared with the database's clock


class CheckState(StrEnum):
    """The severity of a diagnosis."""

    OK = "ok"
    ADVICE = "advice"
    WRONG = "wrong"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of one check, and what to do about it."""

    check: str
    state: CheckState
    found: str
    advice: str = ""
    details: tuple[str, ...] = ()


async def diagnose_database(store: Store, workers: int) -> AsyncIterator[Diagnosis]:
    """Check address, login, version, kind and clock; stop at a failure that blocks the rest.

    The store has begun to connect; so many workers open such stores.
    """
    contact = store.contact
    try:
        async with asyncio.timeout(_SECONDS):
            await store.contacted()
    except TimeoutError:
        yield Diagnosis("address", CheckState.WRONG, f"{contact.address} does not answer in time")
        return
    fault = store.fault
    if isinstance(fault, Lost):
        where = f"{contact.address}, set at {contact.origin}: {fault.reason}"
        yield Diagnosis("address", CheckState.WRONG, where, fault.hint)
        return
    yield Diagnosis("address", CheckState.OK, f"{contact.address} answers, set at {contact.origin}")
    if fault is not None and not isinstance(fault, Lacking):
        who = f"as {contact.user!r}: " if contact.user else ""
        yield Diagnosis("login", CheckState.WRONG, f"{who}{fault.reason}", fault.hint)
        return
    yield await _check_login(store)
    with translated():
        yield _check_version(await store.client.admin.command("buildInfo"))
        asked = time.time()
        hello = await store.client.admin.command("hello")
        yield _check_deployment(hello)
        yield _check_clock(hello, asked, time.time())
    yield await _check_connections(store, workers)
    yield _check_fast_path(store)


async def _check_login(store: Store) -> Diagnosis:
    with translated():
        reply = await store.client.admin.command("connectionStatus")
    with reading_reply():
        users = reply["authInfo"]["authenticatedUsers"]
        if users:
            return Diagnosis("login", CheckState.OK, f"as {users[0]['user']!r} of {users[0]['db']}")
    return Diagnosis(
        "login",
        CheckState.ADVICE,
        "the database has no access control",
        "everyone who reaches its port can do everything: restrict the port, or enable "
        "authorization",
    )


async def diagnose_rights(
    store: Store, more: Collection[Right], *, besides_own: bool = True
) -> Diagnosis:
    """Report missing privileges: of `more`, and of those that docgraph itself needs."""
    contact = store.contact if besides_own else replace(store.contact, rights=())
    with translated():
        fault = await log_in(store.client, contact, more)
    if isinstance(fault, Lacking):
        # Purposes, such as an app, for which every right is missing.
        missing = {lacking.right for lacking in fault.missing}
        granted = {right.purpose for right in more if right not in missing}
        unreadable = sorted({right.purpose for right in more} - granted)
        state = CheckState.WRONG if fault.is_serious or unreadable else CheckState.ADVICE
        finding = (
            f"no collection of {unreadable[0]} can be read" if unreadable else "some are missing"
        )
        return Diagnosis("rights", state, finding, fault.hint, fault.places)
    return Diagnosis("rights", CheckState.OK, "nothing is missing")


def _check_version(build: Document) -> Diagnosis:
    with reading_reply():
        version = str(build["version"])
        is_supported = tuple(build["versionArray"][:2]) >= _OLDEST
    if is_supported:
        return Diagnosis("version", CheckState.OK, f"MongoDB {version}")
    return Diagnosis(
        "version", CheckState.WRONG, f"MongoDB {version}", "docgraph needs 5.0 or later"
    )


def _check_deployment(hello: Document) -> Diagnosis:
    if hello.get("msg") == "isdbgrid":
        return Diagnosis("members", CheckState.OK, "a sharded cluster")
    if name := hello.get("setName"):
        count = len(hello.get("hosts", ()))
        members = f"{count} member{'s' if count != 1 else ''}"
        return Diagnosis("members", CheckState.OK, f"the replica set {name} with {members}")
    return Diagnosis(
        "members",
        CheckState.ADVICE,
        "a standalone server: no change streams, and no writes that survive its loss",
        "turn it into a replica set; one of a single member is enough",
    )


def _check_fast_path(store: Store) -> Diagnosis:
    reason = find_obstacle(store.client)
    if reason is None:
        return Diagnosis("fast path", CheckState.OK, "reads take it")
    return Diagnosis(
        "fast path",
        CheckState.ADVICE,
        f"off, every read costs more CPU: {reason}",
        "install a tested version of pymongo, or remove the option from the connection string "
        "if you do not need it",
    )


async def _check_connections(store: Store, workers: int) -> Diagnosis:
    needed = store.count_connections(workers)
    text = f"up to {needed or 'any number'} by {workers} worker{'s' if workers != 1 else ''}"
    text = f"{text}, {workers * find_pool_size(store.stream_client)} of them for change streams"
    free = await store.count_free_connections()
    if free is None:
        advice = "grant serverStatus (role clusterMonitor) to have it compared with the database"
        return Diagnosis("connections", CheckState.OK, text, advice)
    text = f"{text}; the database allows {free}"
    if free >= needed > 0:
        return Diagnosis("connections", CheckState.OK, text)
    return Diagnosis(
        "connections",
        CheckState.ADVICE,
        text,
        "lower events.max-cursors, mclient.max-pool-size or core.workers, or raise "
        "net.maxIncomingConnections of the database",
    )


def _check_clock(hello: Document, asked: float, answered: float) -> Diagnosis:
    with reading_reply():
        server_time = hello["localTime"].replace(tzinfo=UTC).timestamp()
    apart = max(asked - server_time, server_time - answered, 0.0)
    if apart <= _CLOCKS_DIFFER:
        return Diagnosis("clock", CheckState.OK, "that of the database agrees with ours")
    return Diagnosis(
        "clock",
        CheckState.ADVICE,
        f"that of the database and ours are {apart:.0f} s apart",
        "let both follow a time server: tokens end by the one and are made by the other",
    )


async def has_index(store: Store, db: str, collection: str, keys: Sequence[str]) -> bool | None:
    """Return True if the index exists or the collection does not; None if that is not known."""
    indexes = await store.stats.indexes(db, collection)
    if not indexes:
        return None if indexes is None else True
    return any([name for name, _ in index.keys] == list(keys) for index in indexes)
