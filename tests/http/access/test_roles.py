"""`GET /roles/<userid>` through the whole application (A20)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.http.harness import Mongo
from tests.http.realms import hashed
from tests.http.tokens import RANDOM, Worker, open_workers, sharing_workers

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def shared_workers(mongo_client: Mongo, mongo_uri: str) -> Iterator[Sequence[Worker]]:
    # No rule admits anything but by these services' own code: /roles needs none.
    with sharing_workers(mongo_client, mongo_uri, RANDOM) as shared:
        mongo_client[shared[0].db]["users"].insert_many(
            [
                {"_id": "zoë/x", "password": hashed("secret"), "roles": []},
                {"_id": "root", "password": hashed("secret"), "roles": ["admin"]},
            ]
        )
        yield shared


@pytest.fixture
def worker(shared_workers: Sequence[Worker]) -> Worker:
    """Nothing that is asked here changes anything."""
    (worker,) = shared_workers
    return worker


async def test_own_roles_in_the_order_of_the_account(worker: Worker) -> None:
    reply = await worker.ask("/roles/ada", login="ada:secret")
    assert reply.status_code == 200
    assert reply.json() == {"authenticated": True, "roles": ["user", "editor"]}
    assert reply.headers["content-type"].startswith("application/json")
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["auth-token-location"] == "/tokens/ada"


async def test_a_user_id_that_has_to_be_encoded(worker: Worker) -> None:
    reply = await worker.ask("/roles/zo%C3%AB%2Fx", login="zoë/x:secret")
    assert (reply.status_code, reply.json()["roles"]) == (200, [])
    assert reply.headers["auth-token-location"] == "/tokens/zo%C3%AB%2Fx"


@pytest.mark.parametrize("login", ["ada:secret", "root:secret"])
async def test_other_ids_are_forbidden_for_everybody(worker: Worker, login: str) -> None:
    for path in ("/roles/bob", "/roles", "/roles/", "/roles/ada/x", "/roles/nobody"):
        reply = await worker.ask(path, login=login)
        assert (reply.status_code, reply.json()["message"]) == (403, "permission denied"), path


async def test_unknown_callers_get_401_with_the_challenge(worker: Worker) -> None:
    for path in ("/roles/ada", "/roles", "/roles/nobody"):
        for login in (None, "ada:wrong"):
            reply = await worker.ask(path, login=login)
            assert reply.status_code == 401
            assert reply.headers["www-authenticate"].startswith("Basic ")
    quiet = await worker.ask("/roles/ada?noauthchallenge")
    assert quiet.status_code == 401
    assert "www-authenticate" not in quiet.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_other_methods_are_405_on_the_own_path_only(worker: Worker, method: str) -> None:
    assert await worker.status("/roles/ada", method=method, login="ada:secret") == 405
    assert await worker.status("/roles/bob", method=method, login="ada:secret") == 403
    assert await worker.status("/roles/ada", method=method) == 401


async def test_options_needs_no_credentials(worker: Worker) -> None:
    assert await worker.status("/roles/ada", method="OPTIONS") == 200


async def test_a_path_that_merely_begins_alike_is_not_concerned(worker: Worker) -> None:
    assert await worker.status("/roles-history", login="ada:secret") == 404


async def test_the_service_moves_with_its_uri(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    moved = {"roles": {"uri": "/who/am/i"}}
    async with open_workers(mongo_client, mongo_uri, database, RANDOM, moved) as (worker,):
        assert await worker.status("/who/am/i/ada", login="ada:secret") == 200
        assert await worker.status("/who/am/i/bob", login="ada:secret") == 403
