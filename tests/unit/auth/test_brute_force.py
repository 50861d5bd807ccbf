"""The brute force guard (decision 37): who is counted, who is refused, who is not."""

import asyncio
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Self

import pytest

from docgraph.auth.brute_force import FailedLogins, LoginGuard, SuccessfulLogins
from docgraph.auth.sections import BruteForceAttackGuard
from docgraph.config.section import PluginConfig
from docgraph.exchange import Account, Connection, Exchange, Headers, Request, StartupError
from docgraph.exchange.errors import StoreUnavailable, TooManyRequests
from docgraph.observe import Event, subscribe, unsubscribe
from docgraph.observe.events import LoginsBlocked
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Instance, create_instance

pytestmark = pytest.mark.anyio

HERE, THERE = "192.0.2.1", "192.0.2.2"


@pytest.fixture
def instance() -> Iterator[Instance]:
    with create_instance() as made:
        yield made


@pytest.fixture
def blocked() -> Iterator[list[LoginsBlocked]]:
    seen: list[LoginsBlocked] = []

    def hear(event: Event) -> None:
        if isinstance(event, LoginsBlocked):
            seen.append(event)

    subscribe(hear)
    yield seen
    unsubscribe(hear)


class Door:
    """The guard with its companions, as the pipeline walks them."""

    def __init__(self, instance: Instance, **options: Any) -> None:
        section = BruteForceAttackGuard(**{"window_ms": 60_000, **options})
        self.now = 0.0
        self.registry = PluginRegistry()
        self.guard = LoginGuard(section, instance, self.registry)
        self.failed = FailedLogins(PluginConfig(), self.registry)
        self.succeeded = SuccessfulLogins(PluginConfig(), self.registry)

    async def __aenter__(self) -> Self:
        plugins = [self.guard, self.failed, self.succeeded]
        self.registry.fill(plugins)
        for plugin in plugins:
            await plugin.provision()
            plugin.validate()
        for window in self.guard._attempts._windows:
            window._clock = lambda: self.now
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.guard.close()

    async def walk(self, exchange: Exchange, password: str = "right") -> TooManyRequests | int:
        """200, 401, 403 or 429, and 500 when the database is away."""
        try:
            if self.guard.resolve(exchange):
                await self.guard.handle(exchange)
            status = await self.check(exchange, password)
        except TooManyRequests as error:
            return error.status if dict(error.headers)["Retry-After"] == "60" else error
        except StoreUnavailable as error:
            return error.status
        after = self.succeeded if status == 200 else self.failed
        if after.resolve(exchange):
            await after.handle(exchange)
        return status

    async def check(self, exchange: Exchange, password: str) -> int:
        given = exchange.request.headers.get("authorization") or ""
        await asyncio.sleep(0)  # as long as others need to come in
        if given.endswith(encode("ada", "away")):
            raise StoreUnavailable("away")
        for user in ("ada", "bob"):
            if given.endswith((encode(user, password), encode(user, "forbidden"))):
                exchange.account = Account(user)
                return 403 if given.endswith(encode(user, "forbidden")) else 200
        return 401

    async def login(self, user: str, password: str, client: str = HERE) -> TooManyRequests | int:
        return await self.walk(make_exchange(f"Basic {encode(user, password)}", client))


def encode(user: str, password: str) -> str:
    return b64encode(f"{user}:{password}".encode()).decode()


def make_exchange(
    authorization: str | None = None, client: str = HERE, method: str = "GET"
) -> Exchange:
    headers = Headers.of(authorization=authorization) if authorization else Headers()
    connection = Connection(client=(client, 1) if client else None)
    return Exchange(Request(method, b"/", headers=headers, connection=connection), "1")


async def test_the_eleventh_guess_at_a_user_is_refused_before_the_password_is_checked(
    instance: Instance,
) -> None:
    async with Door(instance) as door:
        assert [await door.login("ada", f"wrong{n}") for n in range(10)] == [401] * 10
        assert await door.login("ada", "wrong") == 429
        assert await door.login("ada", "right") == 429


async def test_many_guesses_at_once_are_no_way_around(instance: Instance) -> None:
    """Drill A11, all at the same moment."""
    async with Door(instance) as door:
        outcomes = await asyncio.gather(*(door.login("ada", f"wrong{n}") for n in range(30)))
    assert outcomes.count(401) == 10
    assert outcomes.count(429) == 20


async def test_nobody_can_lock_somebody_else_out(instance: Instance) -> None:
    async with Door(instance) as door:
        for number in range(30):
            await door.login("ada", f"wrong{number}", HERE)
        assert await door.login("ada", "right", THERE) == 200
        assert await door.login("bob", "right", HERE) == 200


async def test_credentials_that_were_right_before_pass_even_from_a_blocked_address(
    instance: Instance,
) -> None:
    async with Door(instance) as door:
        assert await door.login("ada", "right") == 200
        for number in range(30):
            await door.login("ada", f"wrong{number}")
        assert await door.login("ada", "right") == 200
        assert await door.login("ada", "other") == 429


async def test_a_blocked_address_does_not_learn_which_credentials_were_right_elsewhere(
    instance: Instance,
) -> None:
    """Else 429 for wrong ones and 200 for the right one would answer guesses without end."""
    async with Door(instance) as door:
        assert await door.login("ada", "right", THERE) == 200
        for number in range(30):
            await door.login("ada", f"wrong{number}", HERE)
        assert await door.login("ada", "right", HERE) == 429
        assert await door.login("ada", "right", THERE) == 200


async def test_a_login_forgets_the_failures_before_it(instance: Instance) -> None:
    async with Door(instance) as door:
        for _ in range(3):
            assert [await door.login("ada", f"wrong{n}") for n in range(9)] == [401] * 9
            door.guard._known.clear()
            assert await door.login("ada", "right") == 200


async def test_a_known_caller_who_may_not_do_something_has_not_failed_to_log_in(
    instance: Instance,
) -> None:
    async with Door(instance) as door:
        outcomes = [await door.login("ada", "forbidden") for _ in range(30)]
        assert outcomes == [403] * 30
        assert await door.login("ada", "right") == 200


async def test_a_right_password_in_many_requests_at_once_is_no_attack(instance: Instance) -> None:
    async with Door(instance) as door:
        assert set(await asyncio.gather(*(door.login("ada", "right") for _ in range(50)))) == {200}


async def test_each_request_with_the_same_wrong_password_is_a_guess(instance: Instance) -> None:
    """They wait for one check, and each of them has failed (decision 37)."""
    async with Door(instance) as door:
        assert set(await asyncio.gather(*(door.login("ada", "wrong") for _ in range(10)))) == {401}
        assert await door.login("ada", "another") == 429


async def test_a_password_that_is_not_right_any_more_counts_again(instance: Instance) -> None:
    async with Door(instance, max_failed_attempts=3) as door:
        assert await door.login("ada", "right") == 200
        stale = [make_exchange(f"Basic {encode('ada', 'right')}") for _ in range(6)]
        outcomes = [await door.walk(one, password="changed") for one in stale]
        assert outcomes == [401, 401, 401, 429, 429, 429]


async def test_a_password_that_nobody_could_check_was_no_guess(instance: Instance) -> None:
    """A database that is down is 500, as often as one asks; never 429."""
    async with Door(instance) as door:
        assert [await door.login("ada", "away") for _ in range(30)] == [500] * 30
        assert await door.login("ada", "right") == 200


async def test_failures_of_an_address_over_many_users_are_bounded_too(
    instance: Instance, blocked: list[LoginsBlocked]
) -> None:
    async with Door(instance, max_failed_attempts_per_address=20) as door:
        outcomes = [await door.login(f"user{n}", "x") for n in range(30)]
        assert outcomes == [401] * 20 + [429] * 10
        assert await door.login("ada", "right", HERE) == 429
        assert await door.login("ada", "right", THERE) == 200
    assert [(one.scope, one.client, one.user) for one in blocked] == [("address", HERE, "")]


async def test_being_refused_is_told_once_and_not_for_every_attempt(
    instance: Instance, blocked: list[Any]
) -> None:
    async with Door(instance) as door:
        for number in range(40):
            await door.login("ada", f"wrong{number}")
    (event,) = blocked
    assert (event.scope, event.client, event.user) == ("address-and-user", HERE, "ada")
    assert event.seconds == 60


@pytest.mark.parametrize(
    ("authorization", "method"),
    [
        (None, "GET"),
        (f"Basic {encode('ada', 'wrong')}", "OPTIONS"),
        ("Bearer abc.def.ghi", "GET"),
        ("Basic !!!", "GET"),
        ("Unknown x", "GET"),
    ],
)
async def test_requests_without_a_password_are_neither_counted_nor_refused(
    instance: Instance, authorization: str | None, method: str
) -> None:
    async with Door(instance, max_failed_attempts=1, max_failed_attempts_per_address=1) as door:
        for _ in range(20):
            assert await door.walk(make_exchange(authorization, method=method)) == 401


DIGEST = (
    'Digest username="{}", realm="docgraph", nonce="n{}", uri="/", response="0", cnonce="c", '
    'opaque="o", qop=auth, nc=00000001'
)


async def test_digest_is_counted_when_it_fails_by_the_same_count(instance: Instance) -> None:
    async with Door(instance) as door:
        exchanges = [make_exchange(DIGEST.format("ada", n)) for n in range(12)]
        outcomes = [await door.walk(one) for one in exchanges]
        assert outcomes == [401] * 10 + [429] * 2
        assert await door.login("ada", "right") == 429


async def test_the_count_is_that_of_all_workers(instance: Instance) -> None:
    async with (
        Door(instance.for_worker(1)) as first,
        Door(instance.for_worker(2)) as second,
    ):
        doors = [first, second] * 10
        outcomes = [await door.login("ada", f"wrong{n}") for n, door in enumerate(doors)]
    assert outcomes == [401] * 10 + [429] * 10


async def test_the_window_slides(instance: Instance) -> None:
    async with Door(instance) as door:
        for number in range(12):
            last = await door.login("ada", f"wrong{number}")
        assert last == 429
        outcomes = []
        for door.now in (30, 60, 120):  # seconds
            outcomes.append(await door.login("ada", "right"))
    assert outcomes == [429, 429, 200]


async def test_the_guard_does_not_start_without_those_who_tell_it_how_logins_went(
    instance: Instance,
) -> None:
    door = Door(instance)
    door.registry.fill([door.guard, door.failed])
    with pytest.raises(StartupError, match="successfulLoginCounter"):
        door.guard.validate()


async def test_the_companions_rest_when_the_guard_is_off(instance: Instance) -> None:
    registry = PluginRegistry()
    registry.fill([])
    companion = FailedLogins(PluginConfig(), registry)
    await companion.provision()
    assert await companion.handle(make_exchange()) is None


# --- the long window ------------------------------------------------------------------------------


async def guess_slowly(
    door: Door, count: int, client: str = HERE, scheme: str = "basic"
) -> list[Any]:
    """One guess a minute, which the short window never sees together; the statuses."""
    outcomes = []
    for number in range(count):
        door.now += 61
        if scheme == "basic":
            outcomes.append(await door.login("ada", f"wrong{number}", client))
        else:
            outcomes.append(await door.walk(make_exchange(DIGEST.format("ada", number), client)))
    return outcomes


@pytest.mark.parametrize("scheme", ["basic", "digest"])
async def test_slow_guesses_are_refused_by_the_long_window(
    instance: Instance, blocked: list[LoginsBlocked], scheme: str
) -> None:
    """Decision 37: the first window alone would let 86 400 of them pass in a day."""
    options = {"max_failed_attempts_long_window": 20, "window_ms": 30_000}
    async with Door(instance, **options) as door:
        assert await guess_slowly(door, 20, scheme=scheme) == [401] * 20
        (refused,) = await guess_slowly(door, 1, scheme=scheme)
        assert dict(refused.headers)["Retry-After"] == "3600"
        assert [(one.user, one.seconds) for one in blocked] == [("ada", 3600.0)]
        assert isinstance(await door.login("ada", "right"), TooManyRequests)
        door.now += 2 * 3600
        assert await guess_slowly(door, 20, scheme=scheme) == [401] * 20


async def test_the_long_window_locks_nobody_else_out(instance: Instance) -> None:
    async with Door(instance, max_failed_attempts_long_window=20) as door:
        await guess_slowly(door, 30)
        assert isinstance(await door.login("ada", "right"), TooManyRequests)
        assert await door.login("ada", "right", THERE) == 200
        assert await door.login("bob", "right", HERE) == 200


async def test_credentials_that_were_right_pass_the_long_window_and_a_login_empties_it(
    instance: Instance,
) -> None:
    async with Door(instance, max_failed_attempts_long_window=20) as door:
        assert await guess_slowly(door, 15) == [401] * 15
        assert await door.login("ada", "right") == 200
        assert await guess_slowly(door, 20) == [401] * 20
        assert (await guess_slowly(door, 1))[0].status == 429
        assert await door.login("ada", "right") == 200
        assert await door.login("ada", "away") != 500


async def test_what_could_not_be_checked_is_not_counted_in_the_long_window(
    instance: Instance,
) -> None:
    async with Door(instance, max_failed_attempts_long_window=20) as door:
        for _ in range(30):
            assert await door.login("ada", "away") == 500
        assert await guess_slowly(door, 20) == [401] * 20


def test_the_long_window_is_a_hundred_failures_an_hour() -> None:
    section = BruteForceAttackGuard()
    assert (section.max_failed_attempts_long_window, section.long_window_ms) == (100, 3_600_000)
