"""F18: two instances share users, keys and the database, and the clock of one is ten minutes off.

    make drill-clocks

Needs `faketime` (Debian: faketime). A token of one is good at the other within its life and a few
seconds by the clock of the one that looks at it; nothing falls over, and the difference is logged.
"""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pytest

from tests.drills.server import DrillServer, serving, wait_until
from tests.programs import require

pytestmark = pytest.mark.timeout(120)

USERS = [{"userid": "ada", "password": "secret", "roles": ["user"]}]
MINUTES_OFF = 10


def log_in(server: DrillServer, password: str, path: str = "/roles/ada") -> tuple[int, str]:
    """The status, and the token that comes with it."""
    credentials = b64encode(f"ada:{password}".encode()).decode()
    headers = {"Authorization": f"Basic {credentials}"}
    status, answer, _ = server.ask("GET", path, headers=headers)
    token = answer.get("auth_token", "") if isinstance(answer, dict) else ""
    return status, token


def find_differences(server: DrillServer) -> list[float]:
    """What its log says of the clocks."""
    lines = server.log.read_text().splitlines()
    told = [json.loads(line) for line in lines if "clocks-differ" in line]
    return [one["seconds"] for one in told]


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
    require("faketime")
    options = {
        "mclient__connection_string": mongo_uri,
        "fullAuthorizer__authentication_required": "true",
        "fileRealmAuthenticator__enabled": "true",
        "fileRealmAuthenticator__users": json.dumps(USERS),
        "basicAuthMechanism__enabled": "true",
        "basicAuthMechanism__authenticator": "fileRealmAuthenticator",
        "rndTokenManager__enabled": "false",
        "jwtTokenManager__enabled": "true",
        "jwtTokenManager__key": "a key that both of the instances have",
        "jwtTokenManager__ttl": str(ttl),
        "logging__format": "json",
    }
    off = ("env", "FAKETIME_DONT_FAKE_MONOTONIC=1", "faketime", "-f", f"{minutes:+}m")
    places = [tmp_path / name for name in ("right", "wrong")]
    for place in places:
        place.mkdir()
    with (
        serving(places[0], **options) as right,
        serving(places[1], before=off, **options) as wrong,
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
