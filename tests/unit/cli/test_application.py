"""What a command says about the instances that run."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.cli.application import print_served
from docgraph.exchange.errors import StoreUnavailable
from docgraph.store.versions import Served, Spread

pytestmark = pytest.mark.anyio


class Told:
    """Versions of which it is known who serves them."""

    def __init__(self, live: int, late: int) -> None:
        self._spread = Spread(_build("web", live), _build("old", late))

    async def await_served(self) -> Spread:
        return self._spread


def _build(host: str, count: int) -> list[Served]:
    return [Served(f"{host}{number}", host, number, 1) for number in range(count)]


class Silent:
    """Versions that cannot be read."""

    async def await_served(self) -> Spread:
        raise StoreUnavailable("the database cannot be reached")


async def test_a_write_that_is_done_stays_done_when_nobody_can_say_who_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    monkeypatch.setattr("docgraph.cli.application.notice", said.append)
    versions: Any = Silent()
    await print_served("apps", versions)
    assert said == [
        "apps: it is not known which instances have the change: the database cannot be reached"
    ]


@pytest.mark.parametrize(
    ("live", "late", "expected"),
    [
        (0, 0, []),
        (1, 0, ["apps: live on 1 instance"]),
        (
            2,
            1,
            [
                "apps: live on 2 instances",
                "apps: not live on old (process 0), which has not applied the change within 5 s",
            ],
        ),
    ],
)
async def test_who_serves_a_change_is_counted_and_who_does_not_is_named(
    live: int, late: int, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr("docgraph.cli.application.notice", said.append)
    versions: Any = Told(live, late)
    await print_served("apps", versions)
    assert said == expected
