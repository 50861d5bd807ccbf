"""A look at the database from the outside in: address, login, rights, version, members, clock.

For `docgraph doctor`: each check says what it found and what to do, and one that fails makes those
behind it pointless. Nothing is changed in the database.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from enum import StrEnum
from typing import Final

from docgraph.exchange.data import Document
from docgraph.store.driver.contact import Lacking, Lost
from docgraph.store.driver.errors import translated
from docgraph.store.driver.login import log_in
from docgraph.store.driver.rights import Right
from docgraph.store.store import Store

__all__ = ["Finding", "State", "has_index", "look_at_database", "look_at_rights"]

_SECONDS: Final = 20.0
_OLDEST: Final = (5, 0)
_CLOCKS_DIFFER: Final = 5.0  # seconds; tokens and their ends are compared with the database's clock


class State(StrEnum):
    """How bad it is."""

    OK = "ok"
    ADVICE = "advice"
    WRONG = "wrong"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found, and what to do about it."""

    check: str
    state: State
    found: str
    advice: str = ""
    details: tuple[str, ...] = ()


async def look_at_database(store: Store) -> AsyncIterator[Finding]:
    """Address, login, version, kind and clock; ends with the first that makes the rest pointless.

    The store has begun to connect.
    """
    contact = store.contact
    try:
        async with asyncio.timeout(_SECONDS):
            await store.contacted()
    except TimeoutError:
        yield Finding("address", State.WRONG, f"{contact.address} does not answer in time")
        return
    fault = store.fault
    if isinstance(fault, Lost):
        where = f"{contact.address}, set at {contact.origin}: {fault.reason}"
        yield Finding("address", State.WRONG, where, fault.hint)
        return
    yield Finding("address", State.OK, f"{contact.address} answers, set at {contact.origin}")
    if fault is not None and not isinstance(fault, Lacking):
        who = f"as {contact.user!r}: " if contact.user else ""
        yield Finding("login", State.WRONG, f"{who}{fault.reason}", fault.hint)
        return
    yield await _look_at_login(store)
    with translated():
        yield _judge_version(await store.client.admin.command("buildInfo"))
        asked = time.time()
        hello = await store.client.admin.command("hello")
        yield _judge_kind(hello)
        yield _judge_clock(hello, asked, time.time())


async def _look_at_login(store: Store) -> Finding:
    with translated():
        reply = await store.client.admin.command("connectionStatus")
    users = reply["authInfo"]["authenticatedUsers"]
    if users:
        return Finding("login", State.OK, f"as {users[0]['user']!r} of {users[0]['db']}")
    return Finding(
        "login",
        State.ADVICE,
        "the database asks nobody who they are",
        "whoever reaches its port may do everything: let nobody else reach it, or turn on "
        "authorization",
    )


async def look_at_rights(
    store: Store, more: Iterable[Right], *, besides_own: bool = True
) -> Finding:
    """What the user may not do of `more`, and of what docgraph itself needs."""
    contact = store.contact if besides_own else replace(store.contact, rights=())
    with translated():
        fault = await log_in(store.client, contact, more)
    if isinstance(fault, Lacking):
        state = State.WRONG if fault.is_serious else State.ADVICE
        return Finding("rights", state, "some are missing", fault.hint, fault.places)
    return Finding("rights", State.OK, "nothing is missing")


def _judge_version(build: Document) -> Finding:
    version = str(build["version"])
    if tuple(build["versionArray"][:2]) >= _OLDEST:
        return Finding("version", State.OK, f"MongoDB {version}")
    return Finding("version", State.WRONG, f"MongoDB {version}", "docgraph needs 5.0 or later")


def _judge_kind(hello: Document) -> Finding:
    if hello.get("msg") == "isdbgrid":
        return Finding("members", State.OK, "a sharded cluster")
    if name := hello.get("setName"):
        count = len(hello.get("hosts", ()))
        members = f"{count} member{'s' if count != 1 else ''}"
        return Finding("members", State.OK, f"the replica set {name} with {members}")
    return Finding(
        "members",
        State.ADVICE,
        "a standalone server: no change streams, and no writes that survive its loss",
        "turn it into a replica set; one of a single member is enough",
    )


def _judge_clock(hello: Document, asked: float, answered: float) -> Finding:
    told = hello["localTime"].replace(tzinfo=UTC).timestamp()
    apart = max(asked - told, told - answered, 0.0)
    if apart <= _CLOCKS_DIFFER:
        return Finding("clock", State.OK, "that of the database agrees with ours")
    return Finding(
        "clock",
        State.ADVICE,
        f"that of the database and ours are {apart:.0f} s apart",
        "let both follow a time server: tokens end by the one and are made by the other",
    )


async def has_index(store: Store, db: str, collection: str, keys: Sequence[str]) -> bool | None:
    """Whether there is an index on these keys, or no collection; None if nobody can say."""
    indexes = await store.facts.indexes(db, collection)
    if not indexes:
        return None if indexes is None else True
    return any([name for name, _ in one.keys] == list(keys) for one in indexes)
