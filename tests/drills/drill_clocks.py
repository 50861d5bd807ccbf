"""F18: clocks that differ, and one that jumps under a running server.

    make drill-clocks

Needs `faketime` (Debian: faketime). Two instances share users, keys and the database, and the clock
of one is ten minutes off: a token of one is good at the other within its life and a few seconds by
the clock of the one that looks at it; nothing falls over, and the difference is logged.

Then the clock of a server jumps by an hour, and back: what it measures itself (random tokens, and
every wait) goes on as if nothing had been, what others read by the date (JWT) goes by the date.
"""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.drills.server import DrillServer, serving, wait_until
from tests.logs import read_events

pytestmark = pytest.mark.timeout(120)

USERS = [{"userid": "ada", "password": "secret", "roles": ["user"]}]
MINUTES_OFF = 10
OFFSET = "offset"  # the name of the file
JUMPS = ("+3600s", "-3600s", "+0s")
KNOWN = {
    "fullAuthorizer__authentication_required": "true",
    "fileRealmAuthenticator__enabled": "true",
    "fileRealmAuthenticator__users": json.dumps(USERS),
    "basicAuthMechanism__enabled": "true",
    "basicAuthMechanism__authenticator": "fileRealmAuthenticator",
    "logging__format": "json",
}
SIGNED = {
    "rndTokenManager__enabled": "false",
    "jwtTokenManager__enabled": "true",
    "jwtTokenManager__key": "a key that both of the instances have",
}


def log_in(server: DrillServer, password: str, path: str = "/roles/ada") -> tuple[int, str]:
    """The status, and the token that comes with it."""
    credentials = b64encode(f"ada:{password}".encode()).decode()
    headers = {"Authorization": f"Basic {credentials}"}
    status, answer, _ = server.ask("GET", path, headers=headers)
    token = answer.get("auth_token", "") if isinstance(answer, dict) else ""
    return status, token


def set_clock(directory: Path, by: str) -> tuple[str, ...]:
    """What makes a command read its offset from a file, at every look at the time of day.

    The command `faketime` would stay as its parent, and a signal would end that alone.
    """
    libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not libraries:
        pytest.skip("needs a library that is not installed: libfaketime (Debian: faketime)")
    (directory / OFFSET).write_text(f"{by}\n")
    return (
        *("env", "FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_NO_CACHE=1"),
        *(f"FAKETIME_TIMESTAMP_FILE={directory / OFFSET}", f"LD_PRELOAD={libraries[0]}"),
    )


def find_differences(server: DrillServer) -> list[float]:
    """What its log says of the clocks."""
    events = read_events(server.log)
    return [event["seconds"] for event in events if event["event"] == "clocks-differ"]


@pytest.mark.parametrize(
    ("minutes", "ttl", "status"),
    [
        (MINUTES_OFF, MINUTES_OFF + 5, 200),  # it has five minutes left there
        (MINUTES_OFF, MINUTES_OFF - 5, 401),  # it has ended there
        (-MINUTES_OFF, MINUTES_OFF + 5, 401),  # it is from the future there
    ],
)
def test_f18_clocks_that_differ(
    mongo_uri: str, tmp_path: Path, minutes: int, ttl: int, status: int
) -> None:
    options = {
        "mclient__connection_string": mongo_uri,
        **KNOWN,
        **SIGNED,
        "jwtTokenManager__ttl": str(ttl),
    }
    places = [tmp_path / name for name in ("right", "wrong")]
    for place in places:
        place.mkdir()
    with (
        serving(places[0], **options) as right,
        serving(places[1], before=set_clock(tmp_path, f"{60 * minutes:+}s"), **options) as wrong,
    ):
        _, token = log_in(right, "secret", "/tokens/ada")
        assert token
        assert log_in(right, token)[0] == 200
        assert log_in(wrong, token)[0] == status
        assert log_in(wrong, "secret")[0] == 200
        wait_until(lambda: len(find_differences(wrong)) == 1)
        (seconds,) = find_differences(wrong)
        assert abs(seconds - 60 * minutes) < 5
        assert find_differences(right) == []
    print(
        f"\nf18, {minutes:+} minutes, a life of {ttl}: {status}; the log says {seconds} s", end=""
    )


@dataclass
class Jumping:
    """A server whose time of day can be set while it runs."""

    server: DrillServer
    offset: Path

    def jump(self, by: str) -> None:
        """Set the time of day, by seconds from now."""
        self.offset.write_text(f"{by}\n")


@contextmanager
def jumping(mongo_uri: str, directory: Path, **options: str) -> Iterator[Jumping]:
    """One whose clock is right at first."""
    known = {"mclient__connection_string": mongo_uri, **KNOWN, **options}
    with serving(directory, before=set_clock(directory, "+0s"), **known) as server:
        yield Jumping(server, directory / OFFSET)


def test_f18_a_random_token_lives_as_long_as_it_should_while_the_clock_jumps(
    mongo_uri: str, tmp_path: Path
) -> None:
    with jumping(mongo_uri, tmp_path, rndTokenManager__ttl="1") as jumper:
        _, token = log_in(jumper.server, "secret", "/tokens/ada")
        begun = time.monotonic()
        assert token
        slowest = 0.0
        for jump in JUMPS:
            jumper.jump(jump)
            for _ in range(20):
                asked = time.monotonic()
                assert log_in(jumper.server, token)[0] == 200, jump
                assert log_in(jumper.server, "secret")[0] == 200, jump
                slowest = max(slowest, time.monotonic() - asked)
        jumper.jump("-3600s")  # the token would have another hour by the time of day
        time.sleep(max(61 - (time.monotonic() - begun), 0))
        assert log_in(jumper.server, token)[0] == 401
    print(f"\nf18, jumps of an hour: the slowest two answers took {slowest:.2f} s", end="")


def test_f18_a_signed_token_goes_by_the_date(mongo_uri: str, tmp_path: Path) -> None:
    with jumping(mongo_uri, tmp_path, **SIGNED, jwtTokenManager__ttl="15") as jumper:
        _, token = log_in(jumper.server, "secret", "/tokens/ada")
        assert token
        seen = []
        for jump in JUMPS:
            jumper.jump(jump)
            seen.append(log_in(jumper.server, token)[0])
            assert log_in(jumper.server, "secret")[0] == 200, jump
        # An hour later it has ended, an hour earlier it is from the future.
        assert seen == [401, 401, 200]
