"""One token per login over all workers: two `IssuedTokens` on one table stand for two workers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from docgraph.auth.tokens import table
from docgraph.auth.tokens.issued import IssuedTokens, LoginEnded, UserGone
from docgraph.auth.tokens.revocation import Revocations
from docgraph.auth.tokens.table import TokenTable
from docgraph.auth.tokens.token import TokenAccount
from docgraph.exchange import Account
from docgraph.runtime import Blocking, Generations
from docgraph.runtime.shared_memory import create_generations
from tests.expect import keep, present

pytestmark = pytest.mark.anyio

ADA = Account("ada", ("user",), {"_id": "ada"}, "database")
LIFE = 900.0


class Clock:
    """A time that moves when the test says so."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Ends(Revocations):
    """What has been revoked, by the time of the stamp."""

    latest = 0.0

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def is_revoked(self, jti: str | None, user: str | None, issued_at: float | None) -> bool:
        return issued_at is None or issued_at <= self.latest

    def date(self, user: str) -> float:
        return max(self.clock(), self.latest + 0.001)


class World:
    """What the workers of an instance have in common, and what happens around them."""

    def __init__(self, directory: Path) -> None:
        create_generations(directory / "generations")
        self.directory = directory
        self.clock = Clock()
        self.ends = Ends(self.clock)
        self.users = {"ada": ADA}
        self.read: list[str] = []
        self.opened: list[Any] = []

    async def read_again(self, account: Account | TokenAccount) -> Account | None:
        self.read.append(account.name)
        return self.users.get(account.name)

    async def open(self, **options: Any) -> IssuedTokens:
        blocking = Blocking(2)
        generations = Generations(self.directory / "generations")
        worker = IssuedTokens(
            self.directory / "tokens",
            LIFE,
            blocking=blocking,
            generations=generations,
            revocations=self.ends,
            read_again=self.read_again,
            clock=self.clock,
            **options,
        )
        await worker.open()
        self.opened.append((worker, generations, blocking))
        return worker

    async def close(self) -> None:
        for worker, generations, blocking in self.opened:
            await worker.close()
            generations.close()
            await blocking.close()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Any]:
    world = World(tmp_path)
    yield world
    await world.close()


@pytest.fixture
async def workers(world: World) -> list[IssuedTokens]:
    return [await world.open(), await world.open()]


async def test_both_workers_give_out_one_token(workers: list[IssuedTokens]) -> None:
    one, two = await asyncio.gather(*(worker.current(ADA) for worker in workers))
    assert one.id == two.id
    assert one.account == two.account
    assert isinstance(one.account, TokenAccount)
    assert (one.account.name, one.account.properties) == ("ada", {"_id": "ada"})


async def test_both_workers_give_out_one_token_where_both_see_that_the_last_one_was_revoked(
    world: World, workers: list[IssuedTokens], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await workers[0].current(ADA)
    world.clock.now += 10
    world.ends.latest = world.clock.now
    world.clock.now += 10
    is_seen, is_issued, find = asyncio.Event(), asyncio.Event(), IssuedTokens._call

    async def find_late(self: IssuedTokens, method: Callable[..., Any], *args: Any) -> Any:
        found = await find(self, method, *args)
        if method is TokenTable.find_latest and self is workers[1]:
            is_seen.set()
            await is_issued.wait()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(IssuedTokens, "_call", find_late)
        later = asyncio.create_task(workers[1].current(ADA))
        await is_seen.wait()
        one = await workers[0].current(ADA)
        is_issued.set()
        two = await later

    assert one.id == two.id != old.id
    assert [await worker.find(one.id) is not None for worker in workers] == [True, True]
    assert await workers[0].find(old.id) is None


async def test_both_workers_know_the_token(workers: list[IssuedTokens]) -> None:
    issued = await workers[0].current(ADA)
    found = await workers[1].find(issued.id)
    assert found is not None
    assert found.account == issued.account
    assert await workers[1].find(b"x" * 24) is None


async def test_a_token_has_a_fixed_life(world: World, workers: list[IssuedTokens]) -> None:
    """Decision 33: use does not prolong it."""
    issued = await workers[0].current(ADA)
    assert issued.expires_at == world.clock.now + LIFE
    world.clock.now += LIFE - 100
    assert present(await workers[0].find(issued.id)).expires_at == issued.expires_at
    world.clock.now += 100
    assert await workers[0].find(issued.id) is None


async def test_a_token_that_is_nearly_over_is_good_but_not_given_out(
    world: World, workers: list[IssuedTokens]
) -> None:
    old = await workers[0].current(ADA)
    world.clock.now += LIFE - 30
    new = await workers[1].current(ADA)
    assert new.id != old.id
    assert (await workers[0].current(ADA)).id == new.id
    assert await workers[0].find(old.id) is not None


async def test_who_comes_with_a_token_gets_the_next_one_only_while_the_user_is_there(
    world: World, workers: list[IssuedTokens]
) -> None:
    """Decision 32: renewal reads the user again."""
    old = await workers[0].current(ADA)
    assert world.read == []
    world.users["ada"] = Account("ada", ("other",), {"_id": "ada"}, "database")
    world.clock.now += LIFE - 30
    new = await workers[0].current(old.account)
    assert (world.read, new.account.roles) == (["ada"], ("other",))
    del world.users["ada"]
    world.clock.now += LIFE - 30
    with pytest.raises(UserGone):
        await workers[0].current(new.account)


async def test_renewing_puts_a_new_token_in_the_place_of_the_old_for_all_workers(
    workers: list[IssuedTokens],
) -> None:
    old = await workers[0].current(ADA)
    assert await workers[1].find(old.id) is not None
    new = await workers[0].renew(ADA)
    assert (await workers[1].current(ADA)).id == new.id
    assert await workers[1].find(old.id) is None


async def test_ending_takes_all_tokens_of_the_login_and_of_no_other(
    workers: list[IssuedTokens],
) -> None:
    bob = Account("bob", (), {}, "file")
    other = await workers[0].current(bob)
    issued = await workers[0].current(ADA)
    await workers[1].find(issued.id)
    assert await workers[1].end(ADA) == [issued.id]
    assert await workers[0].find(issued.id) is None
    assert (await workers[0].current(ADA)).id != issued.id
    assert (await workers[0].current(bob)).id == other.id


async def test_a_token_that_is_older_than_a_stamp_is_neither_known_nor_given_out(
    world: World, workers: list[IssuedTokens]
) -> None:
    issued = await workers[0].current(ADA)
    world.ends.latest = world.clock.now
    world.clock.now += 1
    assert await workers[0].find(issued.id) is None
    fresh = await workers[1].current(ADA)
    assert fresh.id != issued.id
    assert (await workers[0].current(ADA)).id == fresh.id


async def test_a_login_that_has_changed_changes_the_account_behind_the_token(
    workers: list[IssuedTokens],
) -> None:
    issued = await workers[0].current(ADA)
    assert present(await workers[1].find(issued.id)).account.roles == ("user",)
    changed = Account("ada", ("admin",), {"_id": "ada"}, "database")
    assert (await workers[0].current(changed)).id == issued.id
    assert present(await workers[1].find(issued.id)).account.roles == ("admin",)


async def test_equal_logins_write_nothing(world: World, workers: list[IssuedTokens]) -> None:
    await workers[0].current(ADA)
    with closing(Generations(world.directory / "generations")) as generations:
        before = generations.read("logins")
        for worker in workers:
            for properties in ({"_id": "ada"}, {"_id": "ada"}):
                await worker.current(Account("ada", ("user",), properties, "database"))
        assert generations.read("logins") == before


async def test_a_token_does_not_turn_back_what_a_later_login_has_said(
    workers: list[IssuedTokens],
) -> None:
    old = await workers[0].current(ADA)
    changed = Account("ada", (), {"_id": "ada"}, "database")
    await workers[0].current(changed)
    assert (await workers[1].current(old.account)).account.roles == ()


async def test_the_end_of_one_login_leaves_what_is_remembered_of_others(
    monkeypatch: pytest.MonkeyPatch, workers: list[IssuedTokens]
) -> None:
    bob = Account("bob", (), {}, "file")
    adas, bobs = await workers[0].current(ADA), await workers[0].current(bob)
    for worker in workers:
        for issued, account in ((adas, ADA), (bobs, bob)):
            await worker.find(issued.id)
            await worker.current(account)
    reads: list[str] = []
    for name in ("find", "find_latest", "put"):
        method = getattr(TokenTable, name)
        monkeypatch.setattr(
            TokenTable,
            name,
            lambda *args, name=name, method=method, **more: (
                keep(reads, name) and method(*args, **more)
            ),
        )
    await workers[0].end(ADA)
    for worker in workers:
        assert present(await worker.find(bobs.id)).id == (await worker.current(bob)).id == bobs.id
    assert reads == []
    assert [await worker.find(adas.id) for worker in workers] == [None, None]


async def test_a_worker_that_is_far_behind_forgets_everything(
    monkeypatch: pytest.MonkeyPatch, world: World, workers: list[IssuedTokens]
) -> None:
    monkeypatch.setattr(table, "KEPT_CHANGES", 3)
    world.users["bob"] = Account("bob", (), {}, "file")
    issued = await workers[0].current(ADA)
    assert await workers[1].find(issued.id) is not None
    await workers[0].end(ADA)
    for _ in range(5):
        await workers[0].renew(Account("bob", (), {}, "file"))
    assert await workers[1].find(issued.id) is None


async def test_a_caller_who_leaves_while_a_token_is_taken_away_leaves_no_half(
    world: World, workers: list[IssuedTokens], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken away and made known, or neither."""
    issued = await workers[0].current(ADA)
    assert await workers[1].find(issued.id) is not None
    taken, may_go_on = threading.Event(), threading.Event()
    table = present(workers[0]._table)
    original = table.end

    def end_slowly(login: str, until: float) -> list[bytes]:
        ids = original(login, until)
        taken.set()
        may_go_on.wait(60)
        return ids

    monkeypatch.setattr(table, "end", end_slowly)
    caller = asyncio.create_task(workers[0].end(ADA))
    await asyncio.to_thread(taken.wait, 60)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    may_go_on.set()
    await workers[0].find(b"x" * 24)  # waits for its turn behind the work that goes on

    assert await workers[1].find(issued.id) is None


async def test_the_time_of_day_may_be_set_and_no_token_lives_longer_or_shorter(
    world: World,
) -> None:
    """Lifetimes are measured; what is told of them is the time of day."""
    day = Clock()
    day.now = 1_800_000_000.0
    worker = await world.open(wall=day)
    issued = await worker.current(ADA)
    assert worker.find_end(issued) == day.now + LIFE
    for jump in (3600.0, -7200.0):
        day.now += jump
        assert present(await worker.find(issued.id)).id == issued.id
        assert (await worker.current(ADA)).id == issued.id
        assert worker.find_end(issued) == day.now + LIFE
    world.clock.now += LIFE
    assert await worker.find(issued.id) is None


async def test_the_end_that_is_told_does_not_flicker(world: World) -> None:
    day = Clock()
    worker = await world.open(wall=day)
    issued = await worker.current(ADA)
    told = worker.find_end(issued)
    for late in (0.3, 0.9, -0.7):  # the two clocks are not read at the same moment
        day.now = 1_000_000.0 + late
        assert worker.find_end(issued) == told


async def test_stamps_are_compared_with_the_time_of_the_database(world: World) -> None:
    """A token that is made after a stamp is known is younger than it, whatever the clocks say."""
    worker = await world.open()
    old = await worker.current(ADA)
    world.ends.latest = world.clock.now + 5  # the clock of the database is ahead
    assert await worker.find(old.id) is None
    new = await worker.current(ADA)
    assert await worker.find(new.id) is not None
    assert (await worker.current(ADA)).id == new.id


async def test_who_comes_with_a_token_stays_in_its_session_where_sessions_have_an_age(
    world: World,
) -> None:
    workers = [await world.open(max_session_age=3000.0) for _ in range(2)]
    first = (await workers[0].current(ADA)).account
    assert (await workers[1].current(first)).account.token_id == first.token_id
    world.clock.now += 100
    second = (await workers[1].renew(ADA)).account
    assert second.session_since > first.session_since
    for worker in workers:
        assert (await worker.current(first)).account.session_since == first.session_since
        assert (await worker.current(second)).account.token_id == second.token_id
    assert not workers[0].is_too_old(first)
    world.clock.now += 2901
    assert workers[0].is_too_old(first)
    assert not workers[0].is_too_old(second)
    assert not workers[0].is_too_old(ADA)


async def test_a_password_gets_a_session_that_has_half_of_its_age_before_it(world: World) -> None:
    worker = await world.open(max_session_age=120.0)
    old = await worker.current(ADA)
    world.clock.now += 60
    assert (await worker.current(ADA)).id == old.id
    world.clock.now += 1
    new = await worker.current(ADA)
    assert new.id != old.id
    assert new.account.session_since == world.clock.now


def foreign(world: World, seconds: float, **parts: Any) -> Account:
    """The account of a login that ends by itself after so many seconds."""
    end = world.clock.now + seconds
    return Account("eve", ("user",), {"sub": "eve"}, login_ends_at=end, **parts)


@pytest.mark.parametrize("kind", ["jwt", "identity", "database", "plugin"])
async def test_no_token_outlives_a_login_that_has_an_end(
    world: World, workers: list[IssuedTokens], kind: str
) -> None:
    """Decision 57: neither the first token, nor a renewed one, nor the next one before its end."""
    eve = foreign(world, 1000.5, kind=kind)
    world.users["eve"] = Account("eve", ("user",), {"sub": "eve"}, kind)
    ends = present(eve.login_ends_at)
    issued = await workers[0].current(eve)
    for pause in (850, 50, 50, 40, 8):
        world.clock.now += pause
        renewed = await workers[0].renew(issued.account)
        issued = await workers[1].current(renewed.account)
        for one in (renewed, issued):
            assert one.account.login_ends_at == ends
            assert one.expires_at <= ends
            assert max(present(one.account.expires_at), one.valid_until) <= ends
    world.clock.now = ends
    assert await workers[1].find(issued.id) is None
    for account in (eve, issued.account):
        for request in (workers[0].current, workers[0].renew):
            with pytest.raises(LoginEnded):
                await request(account)


async def test_the_last_token_of_a_login_is_given_out_until_its_end(
    world: World, workers: list[IssuedTokens]
) -> None:
    """No request of the last minute makes another one, which could not be valid longer."""
    eve = foreign(world, 30.4, kind="jwt")
    ids = set()
    for _ in range(20):
        ids |= {(await worker.current(eve)).id for worker in workers}
        world.clock.now += 1.4
    assert len(ids) == 1


async def test_logins_of_different_ends_share_no_token(
    world: World, workers: list[IssuedTokens]
) -> None:
    """A signed token has few claims, by which two logins may look alike."""
    world.users["eve"] = Account("eve", (), {}, "jwt")
    ends = [present(foreign(world, seconds).login_ends_at) for seconds in (100, 500)]
    issued = [
        await workers[0].current(
            TokenAccount("eve", (), {}, "jwt", end, end, token_id=f"{end}", token_expires_at=end)
        )
        for end in ends
    ]
    assert [one.expires_at for one in issued] == ends


async def test_credentials_that_expire_are_a_login_with_an_end(
    world: World, workers: list[IssuedTokens]
) -> None:
    """An authenticator of a plugin may say only when they expire; a token of ours is no login."""
    end = world.clock.now + 100
    expiring = Account("eve", (), {}, "plugin", expires_at=end)
    assert (await workers[0].current(expiring)).expires_at == end
    token = await workers[0].current(ADA)
    world.clock.now += LIFE - 30
    assert (await workers[0].current(token.account)).expires_at == int(world.clock.now + LIFE)


async def test_a_login_ends_by_the_time_of_day_also_where_tokens_are_measured(
    world: World,
) -> None:
    day = Clock()
    worker = await world.open(wall=day)
    issued = await worker.current(foreign(world, 600, kind="jwt"))
    day.now -= 3600
    assert worker.find_end(issued) <= present(issued.account.login_ends_at)
    day.now += 3600 + 600
    assert await worker.find(issued.id) is None
