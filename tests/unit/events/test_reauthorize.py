"""Sessions are judged again in time, and end for what they are told then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from docgraph.events.subscription_key import StreamSession
from docgraph.exchange import Subscription, WatchedIsGone
from docgraph.exchange.close_reason import (
    CHANGED,
    FAILED,
    GONE,
    NOT_ALLOWED,
    NOT_KNOWN,
    OTHER_RIGHTS,
    CloseReason,
)
from docgraph.exchange.errors import (
    DefinitionError,
    Forbidden,
    NotFound,
    Overloaded,
    SecurityViolation,
    StoreForbidden,
    StoreRejected,
    StoreUnavailable,
    Unauthenticated,
)
from docgraph.runtime.open_streams import Reauthorizer
from docgraph.runtime.shared_memory import Generations, create_generations
from docgraph.variables.resolvers import NOW

pytestmark = pytest.mark.anyio

ASKED = Subscription("db", "things", "all", (), "standard")


class Client:
    """Remembers why it was ended."""

    def __init__(self) -> None:
        self.endings: list[CloseReason] = []

    def end(self, ending: CloseReason) -> None:
        self.endings.append(ending)

    @property
    def ending(self) -> CloseReason | None:
        return self.endings[0] if self.endings else None


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def generations(tmp_path: Path) -> Any:
    create_generations(tmp_path / "generations")
    opened = Generations(tmp_path / "generations")
    yield opened
    opened.close()


def build(
    generations: Generations, clock: Clock, outcome: Any
) -> tuple[Reauthorizer, Client, list[int]]:
    asked: list[int] = []

    async def renew() -> Subscription:
        asked.append(1)
        if isinstance(outcome, Exception):
            raise outcome
        return cast("Subscription", outcome)

    client = Client()
    renewals = Reauthorizer(generations, 50.0, clock=clock)
    renewals.sessions.add(StreamSession(cast("Any", client), ASKED, renew, authorized_at=clock.now))
    return renewals, client, asked


@pytest.mark.parametrize(
    ("outcome", "endings"),
    [
        (replace(ASKED), []),
        (StoreUnavailable("away"), []),
        (Overloaded("later"), []),
        (SecurityViolation("a value that is refused"), [NOT_ALLOWED]),
        (StoreForbidden("no"), [FAILED]),
        (StoreRejected("no"), [FAILED]),
        (Unauthenticated("no"), [NOT_KNOWN]),
        (Forbidden("no"), [NOT_ALLOWED]),
        (NotFound("no"), [GONE]),
        (WatchedIsGone(), []),
        (DefinitionError("no"), [CHANGED]),
        (RuntimeError("a fault"), [FAILED]),
        (replace(ASKED, stages=({"$match": {}},)), [CHANGED]),
        (replace(ASKED, row={"a": 1}), [OTHER_RIGHTS]),
        (replace(ASKED, shown={"a": 0}), [OTHER_RIGHTS]),
    ],
)
async def test_who_would_be_told_something_else_is_ended(
    generations: Generations, outcome: Any, endings: list[CloseReason]
) -> None:
    clock = Clock()
    renewals, client, _ = build(generations, clock, outcome)
    clock.now += 50.0
    await renewals.reauthorize_due()
    assert client.endings == endings


async def test_a_stream_that_does_not_tell_of_the_end_of_its_collection_is_ended_later(
    generations: Generations,
) -> None:
    clock = Clock()
    renewals, client, _ = build(generations, clock, WatchedIsGone())
    for passed, endings in ((50.0, []), (1.0, []), (49.0, [GONE])):
        clock.now += passed
        generations.bump("collections")
        await renewals.reauthorize_due()
        assert client.endings == endings


async def test_nobody_is_asked_before_the_time(generations: Generations) -> None:
    clock = Clock()
    renewals, _, asked = build(generations, clock, ASKED)
    for passed, count in ((49.0, 0), (1.0, 1), (49.0, 1), (1.0, 2)):
        clock.now += passed
        await renewals.reauthorize_due()
        assert len(asked) == count


@pytest.mark.parametrize("name", ["rules", "users", "tokens", "logins", "collections"])
async def test_all_are_asked_when_something_was_announced(
    generations: Generations, name: Any
) -> None:
    renewals, _, asked = build(generations, Clock(), ASKED)
    generations.bump(name)
    await renewals.reauthorize_due()
    await renewals.reauthorize_due()
    assert len(asked) == 1


async def test_who_was_admitted_before_an_announcement_is_asked(generations: Generations) -> None:
    renewals, _, asked = build(generations, Clock(), ASKED)
    (session,) = renewals.sessions
    renewals.sessions.clear()
    since = renewals.read_announced()
    generations.bump("rules")
    await renewals.reauthorize_due()  # while its stream is being opened
    renewals.add(session, since)
    await renewals.reauthorize_due()
    await renewals.reauthorize_due()
    assert len(asked) == 1


async def test_the_time_in_a_row_filter_makes_no_difference(generations: Generations) -> None:
    clock = Clock()
    momentary = replace(ASKED, row={"until": NOW, "team": "blue"})
    renewals, client, _ = build(
        generations, clock, replace(momentary, row=dict(momentary.row or {}))
    )
    (session,) = renewals.sessions
    assert isinstance(session, StreamSession)
    session.subscription = momentary
    clock.now += 50.0
    await renewals.reauthorize_due()
    assert client.endings == []
    session.subscription = replace(momentary, row={"until": NOW, "team": "red"})
    clock.now += 50.0
    await renewals.reauthorize_due()
    assert client.endings == [OTHER_RIGHTS]


async def test_credentials_that_expire_are_checked_then(generations: Generations) -> None:
    """And not before; a session that has left is forgotten."""
    clock = Clock()
    renewals, client, asked = build(generations, clock, Unauthenticated("expired"))
    (session,) = renewals.sessions
    renewals._wall = clock
    session.expires_at = 130.0
    others = [replace(session, expires_at=at, expiry_due=None) for at in (130.0, 131.5, 4000.0)]
    since = renewals.read_announced()
    for one in (session, *others):
        renewals.add(one, since)
    renewals.remove(others[0])
    for now, count in ((129.9, 0), (130.0, 1), (131.4, 1), (132.0, 2), (140.0, 2)):
        clock.now = now
        await renewals.reauthorize_expired()
        assert len(asked) == count
    assert client.endings == [NOT_KNOWN, NOT_KNOWN]
    renewals.remove(others[2])
    assert not renewals._expiries._sessions


async def test_credentials_that_are_accepted_for_longer_are_checked_again_soon(
    generations: Generations,
) -> None:
    clock = Clock()
    renewals, client, asked = build(generations, clock, ASKED)
    (session,) = renewals.sessions
    renewals._wall = clock
    session.expires_at = 130.0
    renewals.add(session, renewals.read_announced())
    for now, count in ((130.0, 1), (130.5, 1), (131.0, 2), (132.0, 3), (134.0, 4), (300.0, 4)):
        clock.now = now
        await renewals.reauthorize_expired()
        assert len(asked) == count
    assert client.endings == []


async def test_a_session_that_has_left_is_not_asked_any_more(generations: Generations) -> None:
    """Also one that leaves twice, and one whose credentials do not expire."""
    clock = Clock()
    renewals, client, asked = build(generations, clock, Forbidden("no"))
    renewals._wall = clock
    (lasting,) = renewals.sessions
    expiring = replace(lasting, expires_at=120.0)
    renewals.add(expiring, renewals.read_announced())
    for session in (lasting, expiring, lasting, expiring):
        renewals.remove(session)
    clock.now = 500.0
    await renewals.reauthorize_due()
    await renewals.reauthorize_expired()

    assert (client.endings, asked) == ([], [])
