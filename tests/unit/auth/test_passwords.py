"""How passwords are stored and checked (decision 34), and how strong they have to be."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import zxcvbn

from docgraph.auth import passwords as module
from docgraph.auth.authenticators.sections import MAX_COST
from docgraph.auth.password_queue import QUEUE, set_login
from docgraph.auth.passwords import (
    BcryptPasswords,
    Hashed,
    PlainPasswords,
    Strength,
    are_equal,
    build_ha1,
    hash_password,
    open_lane,
    rate,
)
from docgraph.exchange import Deadline, Exchange, Request
from docgraph.exchange.deadline import Patience
from docgraph.exchange.errors import Overloaded, RequestError
from docgraph.runtime import Blocking, Generations, Instance, count_cores, create_instance
from docgraph.runtime.shared_memory import create_generations
from docgraph.runtime.shared_results import ResultState, SharedResults, create_results
from tests.unit.auth.test_brute_force import HERE, Door, encode, make_exchange

pytestmark = pytest.mark.anyio

COST = 4
SECRET = b"s" * 32
TTL = 60.0
SHARED: list[Generations] = []


@pytest.fixture
async def blocking() -> AsyncIterator[Blocking]:
    pool = Blocking(parallelism=2)
    yield pool
    await pool.close()


@pytest.fixture(autouse=True)
def generations(tmp_path: Path) -> Iterator[Generations]:
    """What the workers of an instance share; each test is an instance."""
    create_generations(tmp_path / "generations")
    SHARED.append(Generations(tmp_path / "generations"))
    yield SHARED[-1]
    SHARED.pop().close()


@pytest.fixture
def instance() -> Iterator[Instance]:
    with create_instance() as made:
        yield made


def make_passwords(
    blocking: Blocking,
    cost: int = COST,
    *,
    size: int = 100,
    clock: Callable[[], float] = lambda: 0.0,
) -> BcryptPasswords:
    lane = open_lane(blocking)
    return BcryptPasswords(lane, SECRET, SHARED[-1], cost=cost, size=size, ttl=TTL, clock=clock)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hashes that bcrypt was asked about."""
    seen: list[str] = []
    original = module._matches

    def count(given: bytes, expected: str, cost: int) -> bool:
        seen.append(expected)
        return original(given, expected, cost)

    monkeypatch.setattr(module, "_matches", count)
    return seen


# --- hashes ---------------------------------------------------------------------------------------


async def test_a_new_password_is_hashed_with_the_configured_cost_and_its_own_salt(
    blocking: Blocking,
) -> None:
    """Decision 47: with the prefix that every implementation of bcrypt reads."""
    keeper = make_passwords(blocking, cost=5)
    first, second = await keeper.prepare("correct horse"), await keeper.prepare("correct horse")
    assert first.startswith("$2a$05$")
    assert first != second
    assert bcrypt.checkpw(b"correct horse", first.encode())


@pytest.mark.parametrize("prefix", ["$2a$", "$2b$", "$2y$"])
async def test_hashes_of_every_current_prefix_are_understood(
    blocking: Blocking, prefix: str
) -> None:
    """Decision 34."""
    stored = prefix + hash_password("secret", COST)[4:]
    keeper = make_passwords(blocking)
    assert await keeper.verify("ada", "secret", stored)
    assert not await keeper.verify("ada", "Secret", stored)


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "secret",
        "$2x$04$" + "." * 53,
        "$2b$04$" + "." * 52,
        "$2b$03$" + "." * 53,
        "$2b$31$" + "." * 53,
        "$2b$04$" + "!" * 53,
        "$2b$04$" + "a" * 53 + "\n",
        "$1$abc$def",
    ],
)
async def test_what_is_no_usable_hash_fits_no_password_and_takes_as_long_as_one(
    blocking: Blocking, checks: list[Any], stored: str
) -> None:
    keeper = make_passwords(blocking)
    assert not await keeper.verify("ada", "secret", stored)
    assert not await keeper.verify("ada", stored, stored)
    assert len(checks) == 2
    assert all(one.startswith("$2b$04$") for one in checks)


async def test_a_damaged_hash_that_bcrypt_itself_refuses_is_a_wrong_password(
    blocking: Blocking,
) -> None:
    damaged = "$2b$04$" + "z" * 53  # the last character of the salt has bits that do not fit
    assert not await make_passwords(blocking).verify("ada", "secret", damaged)


# --- the 72-byte rule -----------------------------------------------------------------------------


@pytest.mark.parametrize("password", ["a" * 71, "a" * 72, "é" * 36, "🔒" * 18])
async def test_passwords_of_up_to_72_bytes_are_accepted_and_count_to_the_last_byte(
    blocking: Blocking, password: str
) -> None:
    keeper = make_passwords(blocking)
    stored = await keeper.prepare(password)
    assert await keeper.verify("ada", password, stored)
    assert not await keeper.verify("ada", password[:-1], stored)


@pytest.mark.parametrize("password", ["a" * 73, "a" * 100, "a" * 71 + "é", "🔒" * 19])
async def test_longer_ones_are_refused_when_set_and_never_match(
    blocking: Blocking, checks: list[str], password: str
) -> None:
    """Decision 34, also where a character stands across the border."""
    keeper = make_passwords(blocking)
    with pytest.raises(RequestError, match="longer than 72 bytes") as refused:
        await keeper.prepare(password)
    assert refused.value.status == 400
    prefix = password.encode()[:72].decode(errors="ignore")
    stored = bcrypt.hashpw(password.encode()[:72], bcrypt.gensalt(COST)).decode()
    assert not await keeper.verify("ada", password, stored)
    assert checks == []
    assert await keeper.verify("ada", prefix, stored) is (len(prefix.encode()) == 72)


@pytest.mark.parametrize(
    ("password", "message"),
    [
        ("", "empty"),
        ("a\0b", "control character"),
        ("a\nb", "control character"),
        ("\ud800", "not valid Unicode"),
    ],
)
async def test_passwords_that_nobody_could_send_are_refused_when_set(
    blocking: Blocking, password: str, message: str
) -> None:
    for keeper in (make_passwords(blocking), PlainPasswords()):
        with pytest.raises(RequestError, match=message):
            await keeper.prepare(password)


@pytest.mark.parametrize("password", ["", "a\0b", "\ud800", "x" * 10_000])
async def test_no_password_however_strange_is_an_error_when_checked(
    blocking: Blocking, password: str
) -> None:
    stored = hash_password("secret", COST)
    assert not await make_passwords(blocking).verify("ada", password, stored)
    assert not await PlainPasswords().verify("ada", password, "secret")


# --- unknown users --------------------------------------------------------------------------------


async def test_an_unknown_user_is_checked_against_a_hash_of_the_same_cost(
    blocking: Blocking, checks: list[Any]
) -> None:
    keeper = make_passwords(blocking, cost=5)
    assert not await keeper.verify("nobody", "secret", None)
    assert [one[:7] for one in checks] == ["$2b$05$"]


@pytest.mark.parametrize("stored", ["hash", None, "", "plain", "$2b$99$" + "x" * 53])
async def test_nobody_takes_less_work_than_a_wrong_password(
    blocking: Blocking, monkeypatch: pytest.MonkeyPatch, stored: str | None
) -> None:
    """Decision 34, drill A08: counted in bcrypt's own work, two to the power of the cost."""
    costs = count_costs(monkeypatch)
    keeper = make_passwords(blocking, cost=6)
    stored = hash_password("secret", 6) if stored == "hash" else stored
    for number in range(3):
        assert not await keeper.verify("ada", f"wrong{number}", stored)
    assert costs == [6, 6, 6]


def count_costs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The cost of every check that bcrypt has done work for."""
    costs: list[int] = []
    check = bcrypt.checkpw

    def count(given: bytes, expected: bytes) -> bool:
        result = check(given, expected)  # a damaged hash raises, and costs nothing
        costs.append(int(expected[4:6]))
        return result

    monkeypatch.setattr(bcrypt, "checkpw", count)
    return costs


DAMAGED = "$2b$05$" + "z" * 53
ABOVE = "$2b$15$" + "." * 53


@pytest.mark.parametrize("highest", [4, 5, 7])
@pytest.mark.parametrize("seen_by", ["read", "verified", "another worker"])
@pytest.mark.parametrize("stored", [4, 5, 7, None, "", "plain", DAMAGED, ABOVE], ids=str)
async def test_every_failed_check_does_the_work_of_the_most_expensive_hash(
    blocking: Blocking,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    stored: int | str | None,
    highest: int,
    seen_by: str,
) -> None:
    """Decision 53: two to the power of the cost, to the round, whichever hash was checked."""
    keeper = make_passwords(blocking, cost=4)
    known = hash_password("other", highest)
    if seen_by == "verified":
        assert not await keeper.verify("bob", "wrong", known)
    elif seen_by == "read":
        keeper.record(known)
    else:
        theirs = Generations(tmp_path / "generations")
        other = BcryptPasswords(open_lane(blocking), SECRET, theirs, cost=4, size=1, ttl=TTL)
        other.record(known)
        theirs.close()
    costs = count_costs(monkeypatch)
    hashed = hash_password("secret", stored) if isinstance(stored, int) else stored
    assert not await keeper.verify("ada", "wrong", hashed)
    own = 5 if stored == DAMAGED else stored if isinstance(stored, int) else 0
    most = max(highest, own)
    assert sum(2**cost for cost in costs) == 2**most


async def test_a_cheaper_hash_is_topped_up_to_the_round(
    blocking: Blocking, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = make_passwords(blocking, cost=9)
    costs = count_costs(monkeypatch)
    assert not await keeper.verify("ada", "wrong", hash_password("secret", 6))
    assert costs == [6, 6, 7, 8]
    costs.clear()
    assert await keeper.verify("ada", "secret", hash_password("secret", 6))
    assert costs == [6]


async def test_a_hash_above_the_maximum_lets_nobody_in_and_slows_nobody_down(
    blocking: Blocking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision 53: a check of cost 15 would make every failed login take two seconds."""
    monkeypatch.setattr(module, "MAX_COST", 6)
    keeper, costs = make_passwords(blocking, cost=4), []
    above, highest = hash_password("secret", 7), hash_password("secret", 6)
    costs = count_costs(monkeypatch)
    assert not await keeper.verify("ada", "secret", above)
    assert costs == [4]
    assert await keeper.verify("bob", "secret", highest)
    assert not await keeper.verify("ada", "secret", above)
    assert costs == [4, 6, 6]


def test_the_maximum_is_that_of_the_specification() -> None:
    assert MAX_COST == 14


# --- hashes that are replaced ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "is_outdated"),
    [("$2a$05$", True), ("$2b$06$", False), ("$2y$06$", False), ("$2b$07$", False)],
)
async def test_only_a_cheaper_hash_is_outdated(
    blocking: Blocking, stored: str, is_outdated: bool
) -> None:
    """Decision 53: never a downgrade, and the prefix alone is no reason."""
    keeper = make_passwords(blocking, cost=6)
    assert keeper.is_outdated(stored + "." * 53) is is_outdated


async def test_a_pair_is_remembered_with_its_new_hash(
    blocking: Blocking, checks: list[str]
) -> None:
    keeper = make_passwords(blocking, cost=5)
    assert await keeper.verify("ada", "se\tcret", bcrypt_of("se\tcret"))
    fresh = await keeper.rehash("ada", "se\tcret")
    assert fresh.startswith("$2a$05$")
    assert bcrypt.checkpw(b"se\tcret", fresh.encode())
    assert await keeper.verify("ada", "se\tcret", fresh)
    assert len(checks) == 1
    assert not await keeper.verify("ada", "other", fresh)
    assert not await keeper.verify("bob", "other", fresh)


def bcrypt_of(password: str) -> str:
    """As another program would hash it."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(COST)).decode()


# --- what is remembered ---------------------------------------------------------------------------


async def test_a_pair_that_was_right_is_not_hashed_again(
    blocking: Blocking, checks: list[str]
) -> None:
    keeper, stored = make_passwords(blocking), hash_password("secret", COST)
    assert await keeper.verify("ada", "secret", stored)
    assert await keeper.verify("ada", "secret", stored)
    assert len(checks) == 1


async def test_a_pair_that_was_wrong_is_hashed_each_time(
    blocking: Blocking, checks: list[Any]
) -> None:
    keeper, stored = make_passwords(blocking), hash_password("secret", COST)
    for _ in range(3):
        assert not await keeper.verify("ada", "wrong", stored)
    assert len(checks) == 3


async def test_what_is_remembered_is_worth_nothing_with_another_hash_or_user(
    blocking: Blocking, checks: list[str]
) -> None:
    keeper = make_passwords(blocking)
    old, new = hash_password("secret", COST), hash_password("other", COST)
    assert await keeper.verify("ada", "secret", old)
    assert not await keeper.verify("ada", "secret", new)
    assert not await keeper.verify("ada", "secret", None)
    assert await keeper.verify("bob", "secret", old)
    assert len(checks) == 4


async def test_the_same_check_at_the_same_time_is_done_once(
    blocking: Blocking, checks: list[str]
) -> None:
    keeper, stored = make_passwords(blocking), hash_password("secret", COST)
    right = await asyncio.gather(*(keeper.verify("ada", "secret", stored) for _ in range(50)))
    wrong = await asyncio.gather(*(keeper.verify("ada", "wrong", stored) for _ in range(50)))
    assert all(right)
    assert not any(wrong)
    assert len(checks) == 2


async def test_what_is_remembered_is_bounded_in_number_and_in_time(
    blocking: Blocking, checks: list[str]
) -> None:
    now = 0.0
    keeper = make_passwords(blocking, size=1, clock=lambda: now)
    stored = hash_password("secret", COST)
    for user in ("ada", "bob", "ada"):
        await keeper.verify(user, "secret", stored)
    assert len(checks) == 3
    for _ in range(2):  # used at least every `ttl` seconds
        now += TTL - 1
        await keeper.verify("ada", "secret", stored)
    assert len(checks) == 3
    now += TTL
    await keeper.verify("ada", "secret", stored)
    assert len(checks) == 4


async def test_no_password_is_kept_in_the_object_or_shown(blocking: Blocking) -> None:
    keeper, stored = make_passwords(blocking), hash_password("hunter2hunter2", COST)
    await keeper.verify("ada", "hunter2hunter2", stored)
    shown = repr(vars(keeper)) + repr(vars(keeper._verified))
    assert "hunter2" not in shown


# --- floods ---------------------------------------------------------------------------------------


async def test_a_flood_of_logins_is_refused_at_once_beyond_the_queue(
    blocking: Blocking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limit `bcrypt`: pool = cores, queue 256, 503."""
    may_end = threading.Event()  # no check ends before all have come
    monkeypatch.setattr(module, "_matches", lambda *_: not may_end.wait(60))
    keeper = make_passwords(blocking, cost=4)
    running = min(count_cores(), 2) + QUEUE
    tries = [
        asyncio.create_task(keeper.verify("ada", f"wrong{number}", None))
        for number in range(running + 60)
    ]
    accepted, beyond = tries[:running], tries[running:]
    refused = await asyncio.gather(*beyond, return_exceptions=True)
    assert {type(one) for one in refused} == {Overloaded}
    assert not any(one.done() for one in accepted)
    may_end.set()
    assert await asyncio.gather(*accepted) == [False] * running


async def test_a_login_that_waits_too_long_has_its_result_later(
    blocking: Blocking, checks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()
    monkeypatch.setattr(module, "_matches", lambda *_: may_end.wait(60))
    keeper, stored = make_passwords(blocking), bcrypt_of("right")
    login = Exchange(Request("GET", b"/"), "1", deadline=Deadline(patience=Patience(0.02)))
    set_login(login)
    with pytest.raises(Overloaded) as refused:
        await keeper.verify("ada", "right", stored)
    assert dict(refused.value.headers)["Retry-After"] == "1"
    may_end.set()
    set_login(later := Exchange(Request("GET", b"/"), "2"))
    assert later.deadline.patience is None
    assert await keeper.verify("ada", "right", stored)
    assert checks == []


@pytest.mark.parametrize(("is_right", "following"), [(False, 429), (True, 200)])
async def test_a_guess_whose_caller_leaves_is_counted(
    blocking: Blocking,
    instance: Instance,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_right: bool,
    following: int,
) -> None:
    """A check goes on without its caller, and the time of the next answer tells its result."""
    has_begun, may_end = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def match(*_: object) -> bool:
        loop.call_soon_threadsafe(has_begun.set)
        return may_end.wait(60) and is_right

    monkeypatch.setattr(module, "_matches", match)
    keeper, stored = make_passwords(blocking), bcrypt_of("right")
    async with Door(instance, max_failed_attempts=1) as door:

        async def try_once() -> None:
            exchange = make_exchange(f"Basic {encode('ada', 'guess')}")
            await door.guard.handle(exchange)
            set_login(exchange)
            await keeper.verify("ada", "guess", stored)

        caller = asyncio.create_task(try_once())
        await has_begun.wait()
        caller.cancel()
        await asyncio.wait((caller,))
        del caller
        may_end.set()
        await asyncio.wait(keeper._verified._running)
        gc.collect()
        assert await door.login("ada", "right") == following
        assert door.guard._attempts.count_failures(HERE) == (not is_right)


async def test_a_login_waits_for_its_result_whatever_the_forecast_is(
    blocking: Blocking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SECONDS", 1e9)
    keeper, stored = make_passwords(blocking), bcrypt_of("right")
    login = Exchange(Request("GET", b"/"), "1", deadline=Deadline(patience=Patience(120)))
    set_login(login)
    tries = [keeper.verify("ada", "right", stored) for _ in range(20)]
    assert await asyncio.gather(*tries) == [True] * 20


async def test_workers_check_a_pair_once(
    blocking: Blocking, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Right and wrong passwords, of known and unknown users."""
    create_results(tmp_path / "results")
    seen: list[bytes] = []
    may_end = threading.Event()

    def match(given: bytes, *_: object) -> bool:
        seen.append(given)
        may_end.wait(60)
        return given == b"right"

    monkeypatch.setattr(module, "_matches", match)
    claims: list[ResultState] = []

    class Claims(SharedResults):
        def claim(self, key: bytes, seconds: float) -> ResultState:
            claims.append(super().claim(key, seconds))
            return claims[-1]

    workers = [
        BcryptPasswords(
            blocking.lane(name, 1),
            SECRET,
            SHARED[-1],
            cost=COST,
            size=10,
            ttl=TTL,
            results=Claims(tmp_path / "results"),
        )
        for name in ("first", "second")
    ]
    stored = bcrypt_of("right")
    for password, expected, is_right in (
        ("right", stored, True),
        ("wrong", stored, False),
        ("wrong", None, False),
    ):
        seen.clear()
        claims.clear()
        may_end.clear()
        logins = [
            asyncio.create_task(worker.verify("ada", password, expected))
            for worker in workers
            for _ in range(3)
        ]
        while len(claims) < 2:  # noqa: ASYNC110 - in another thread
            await asyncio.sleep(0)
        may_end.set()
        assert await asyncio.gather(*logins) == [is_right] * 6
        assert len(seen) == 1
    assert await workers[1].verify("ada", "right", stored)
    assert len(seen) == 1, "the other worker knows it, too"
    for worker in workers:
        await worker.close()


async def test_a_login_that_waited_too_long_enters_if_another_worker_knows_the_password(
    blocking: Blocking, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    create_results(tmp_path / "results")
    may_end = threading.Event()
    monkeypatch.setattr(module, "_matches", lambda *_: may_end.wait(60))
    results = SharedResults(tmp_path / "results")
    keeper = BcryptPasswords(
        blocking.lane("bcrypt", 1), SECRET, SHARED[-1], cost=COST, size=10, ttl=TTL, results=results
    )
    before = asyncio.create_task(keeper.verify("bob", "other", bcrypt_of("other")))
    await asyncio.sleep(0)
    login = Exchange(Request("GET", b"/"), "1", deadline=Deadline(patience=Patience(0.02)))
    set_login(login)
    waiting = asyncio.create_task(keeper.verify("ada", "right", stored := bcrypt_of("right")))
    await asyncio.sleep(0)
    key = module._bind(SECRET, stored, "ada", b"right")
    results.finish(key, ResultState.SUCCEEDED, TTL)
    assert await waiting
    may_end.set()
    assert await before
    await keeper.close()


async def test_the_event_loop_goes_on_while_passwords_are_checked(
    blocking: Blocking, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()
    monkeypatch.setattr(module, "_matches", lambda *_: not may_end.wait(30))
    login = asyncio.create_task(make_passwords(blocking).verify("ada", "wrong", None))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not login.done()
    may_end.set()
    assert not await login


# --- texts ----------------------------------------------------------------------------------------


async def test_plain_passwords_are_stored_as_they_are() -> None:
    keeper = PlainPasswords()
    assert await keeper.prepare("secret") == "secret"
    assert await keeper.verify("ada", "secret", "secret")
    assert not await keeper.verify("ada", "secret", None)
    assert not await keeper.verify("ada", "secre", "secret")


@pytest.mark.parametrize(
    ("given", "stored", "equal"),
    [
        ("a", "a", True),
        ("ü", "ü", True),
        ("a", "b", False),
        ("a", None, False),
        ("", "", False),
        ("", None, False),
        ("\ud800", "\ud800", False),
    ],
)
def test_texts_are_compared_and_nothing_equals_nothing(
    given: str, stored: str | None, equal: bool
) -> None:
    assert are_equal(given, stored) is equal


def test_ha1_is_that_of_the_rfc() -> None:
    """RFC 7616 3.9.1."""
    args = ("Mufasa", "http-auth@example.org", "Circle of Life")
    assert build_ha1("MD5", *args) == "3d78807defe7de2157e2b0b6573a855f"
    assert build_ha1("SHA-256", *args) == (
        "7987c64c30e25f1b74be53f966b49b90f2808aa92faf9a00262392d7b4794232"
    )
    with pytest.raises(ValueError, match="SHA-1"):
        build_ha1("SHA-1", *args)


def test_a_hash_of_ours_is_a_text_like_any_other() -> None:
    assert Hashed("$2b$") == "$2b$"


# --- strength -------------------------------------------------------------------------------------


async def test_a_weak_password_is_refused_with_the_way_to_do_better(blocking: Blocking) -> None:
    with pytest.raises(RequestError, match=r"^Password is too weak$") as refused:
        await Strength(blocking, 3).check("password")
    assert refused.value.status == 400
    assert refused.value.fields["warning"]
    assert refused.value.fields["suggestions"]


@pytest.mark.parametrize(
    ("password", "score"),
    [
        ("password", 0),
        ("monkey123", 1),
        ("Tr0ub4dour&3", 2),
        ("correct horse", 3),
        ("kJ8#vQ2$wX9!zL4%", 4),
    ],
)
async def test_the_score_has_to_reach_the_minimum(
    blocking: Blocking, password: str, score: int
) -> None:
    for minimum in range(score + 1):
        await Strength(blocking, minimum).check(password)
    for minimum in range(score + 1, 5):
        with pytest.raises(RequestError, match="too weak"):
            await Strength(blocking, minimum).check(password)


async def test_of_a_very_long_password_only_the_beginning_is_rated(
    blocking: Blocking, monkeypatch: pytest.MonkeyPatch
) -> None:
    rated = []
    estimate = zxcvbn.zxcvbn

    def count(password: str, **options: Any) -> object:
        rated.append(len(password))
        return estimate(password, **options)

    monkeypatch.setattr(zxcvbn, "zxcvbn", count)
    await Strength(blocking, 0).check("a1b2" * 5000)
    assert rated == [72]


def test_the_name_of_the_user_makes_a_weak_password() -> None:
    name = "zygomorphic.quokka"
    assert rate(name, [name]).score < rate(name).score
    assert rate(name).score == rate(name, []).score
