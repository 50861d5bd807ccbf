"""Digest authentication over two real worker processes (decision 36)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.http.auth.test_digest import DIGEST, answer
from tests.http.harness import merge
from tests.http.login import QUIET, REALM
from tests.process.harness import Server, run_server


@pytest.fixture(scope="module")
def server(mongo_uri: str) -> Iterator[Server]:
    others = {"mongo": {"enabled": False}, "mclient": {"connection-string": mongo_uri}}
    with run_server(merge(QUIET, REALM, DIGEST, others), workers=2) as server:
        yield server


def ask(server: Server) -> dict[str, str]:
    """The parameters of a challenge, by whichever worker."""
    challenge = server.get("/ping", authorization="Digest")["www-authenticate"] or ""
    return dict(re.findall(r'(\w+)="?([^",]*)"?', challenge))


def test_nonce_is_good_at_every_worker(server: Server) -> None:
    """A06; each request is a connection of its own."""
    challenge = ask(server)
    replies = [
        server.get("/ping", authorization=answer(challenge, count, "/ping"))
        for count in range(1, 41)
    ]
    assert {one.status for one in replies} == {200}
    assert {one.json["worker"] for one in replies} == {1, 2}


def test_count_is_accepted_once_over_all_workers(server: Server) -> None:
    """A04, decision 36."""
    authorization = answer(ask(server), uri="/ping")
    statuses = Counter(server.get("/ping", authorization=authorization).status for _ in range(100))
    assert statuses == {200: 1, 401: 99}
