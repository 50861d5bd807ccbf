"""`docgraph.asgi`: the lifespan, mounting below a path, and what it leaves to the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Mount

from docgraph.asgi import AsgiApplication, create_app
from docgraph.exchange import StartupError
from docgraph.observe import Event, subscribe, unsubscribe
from docgraph.observe.events import ConfigWarning
from docgraph.runtime import join_instance
from tests.http.harness import Mongo, merge

pytestmark = pytest.mark.anyio

QUIET = {"logging": {"level": "error"}}
OPEN = {"fullAuthorizer": {"enabled": True, "authentication-required": False}}
COOKIES = {
    "rndTokenManager": {"enabled": True},
    "authCookieSetter": {"enabled": True, "secure": False},
    "authCookieRemover": {"enabled": True},
    "authCookieHandler": {"enabled": True},
}


@pytest.fixture
def settings(mongo_uri: str, database: str) -> dict[str, Any]:
    return merge(
        QUIET,
        OPEN,
        {
            "mclient": {"connection-string": mongo_uri, "min-pool-size": 0},
            "graphql": {"db": database},
            "mongo": {"mongo-mounts": [{"what": f"/{database}", "where": "/db"}]},
            "dbRealmAuthenticator": {"users-db": database, "create-user": False},
            "dbAclAuthorizer": {"acl-db": database},
        },
    )


def make(settings: dict[str, Any], *others: dict[str, Any], **options: Any) -> AsgiApplication:
    return create_app(overrides=merge(settings, *others), **options)


@contextmanager
def hearing(kind: type[Event]) -> Iterator[list[Any]]:
    seen: list[Any] = []
    subscribe(seen.append, wants=lambda event: event is kind)
    try:
        yield seen
    finally:
        unsubscribe(seen.append)


@asynccontextmanager
async def asking(application: Any, base: str = "http://localhost") -> AsyncIterator[Any]:
    transport = httpx2.ASGITransport(app=application)
    async with httpx2.AsyncClient(transport=transport, base_url=base) as client:
        yield client


@asynccontextmanager
async def mounted(app: AsgiApplication) -> AsyncIterator[Any]:
    host = Starlette(routes=[Mount("/data", app)])
    async with app.lifespan(), asking(host) as client:
        yield client


async def live(app: AsgiApplication, *kinds: str) -> list[dict[str, Any]]:
    """What the application sends when the server sends these messages of the lifespan."""
    queue = [{"type": f"lifespan.{kind}"} for kind in kinds]
    sent: list[Any] = []

    async def receive() -> Any:
        return queue.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await app({"type": "lifespan"}, receive, send)
    return sent


async def test_an_application_serves_from_its_start_to_its_end(settings: dict[str, Any]) -> None:
    app = make(settings)
    async with asking(app) as client:
        for _ in range(2):
            refused = await client.get("/ping")
            assert refused.status_code == 503
            assert "app.lifespan()" in refused.json()["hint"]
            assert refused.json()["code"] == "not-started"
            async with app.lifespan():
                assert (await client.get("/ping")).status_code == 200
                assert (await client.get("/health/db")).json()["status"] == "ok"
                with pytest.raises(StartupError, match="has started already"):
                    await app.lifespan().__aenter__()
                assert (await client.get("/ping")).status_code == 200


async def test_the_lifespan_of_the_server_is_enough(settings: dict[str, Any]) -> None:
    sent = await live(make(settings), "startup", "shutdown")
    assert [one["type"] for one in sent] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]


async def test_the_lifespan_has_an_order(settings: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError, match=r"lifespan\.shutdown before lifespan\.startup"):
        await live(make(settings), "shutdown")


async def test_a_wrong_configuration_is_our_message(settings: dict[str, Any]) -> None:
    """No traceback: the server prints the message and exits (decision 74)."""
    wrong = {"graphql": {"max-limits": 3}, "core": {"workers": 0}}
    (failed,) = await live(make(settings, wrong), "startup", "shutdown")
    assert failed["type"] == "lifespan.startup.failed"
    assert "overrides: /graphql/max-limits: " in failed["message"]
    assert "/core/workers" in failed["message"]  # all of them together

    missing = create_app("/nonexistent/docgraph.yml")
    (failed,) = await live(missing, "startup")
    assert "/nonexistent/docgraph.yml" in failed["message"]


async def test_an_unreachable_database_does_not_end_the_start(settings: dict[str, Any]) -> None:
    """As with our own server (decision 45)."""
    away = {"mclient": {"connection-string": "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=300"}}
    app = make(settings, away)
    async with app.lifespan(), asking(app) as client:
        assert (await client.get("/ping")).status_code == 200
        assert (await client.get("/health/db")).status_code == 503


async def test_options_without_effect_are_named_once(settings: dict[str, Any]) -> None:
    """Processes, TLS and connections are the server's (decision 74)."""
    given = {"http-listener": {"port": 9}, "connection-options": {"max-connections": 100}}
    with hearing(ConfigWarning) as warnings:
        async with make(settings, given).lifespan():
            pass
    paths = [one.path for one in warnings if "ASGI" in one.message]
    assert paths == ["/http-listener", "/connection-options/max-connections"]


async def test_an_option_may_be_a_path(settings: dict[str, Any]) -> None:
    app = create_app(overrides={**settings, "/core/name": "by path"})
    async with app.lifespan(), asking(app) as client:
        page = await client.get("/", headers={"sec-fetch-mode": "navigate"})
        assert "by path" in page.text


async def test_unknown_scopes_are_an_error(settings: dict[str, Any]) -> None:
    async def nothing(*_: Any) -> Any:
        raise AssertionError

    with pytest.raises(RuntimeError, match="not 'smtp'"):
        await make(settings)({"type": "smtp"}, nothing, nothing)


async def test_links_carry_the_path_of_the_mount(
    settings: dict[str, Any], database: str, mongo_client: Mongo
) -> None:
    """Rules and routes see the path below it (decision 74)."""
    mongo_client[database]["things"].insert_many([{"_id": n} for n in range(4)])
    async with mounted(make(settings)) as client:
        created = await client.post("/data/db/things", json={"a": 1})
        assert created.headers["location"].startswith("http://localhost/data/db/things/")
        assert (await client.get(created.headers["location"])).status_code == 200

        page = await client.get("/data/db/things?pagesize=2&sort=_id")
        link = page.headers["link"].split(";")[0].strip("<>")
        assert link.startswith("/data/db/things?")
        assert len((await client.get(link)).json()) == 2

        front = await client.get("/data/", headers={"sec-fetch-mode": "navigate"})
        assert 'href="/data/ping"' in front.text
        missing = await client.get("/data/nothing", headers={"sec-fetch-mode": "navigate"})
        assert 'href="/data/"' in missing.text
        described = (await client.get("/data/openapi.json")).json()
        assert described["servers"] == [{"url": "/data"}]
        assert "/ping" in described["paths"]
        assert (await client.get("/ping")).status_code == 404  # of the host


async def test_rules_see_the_path_below_the_mount(settings: dict[str, Any]) -> None:
    rules = [{"role": "$unauthenticated", "predicate": "path-prefix('/db')"}]
    closed = {
        "fullAuthorizer": {"enabled": False},
        "fileAclAuthorizer": {"enabled": True, "permissions": rules},
    }
    async with mounted(make(settings, closed)) as client:
        assert (await client.get("/data/db")).status_code == 200
        assert (await client.get("/data/db/../graphql/x")).status_code in (401, 403)
        assert (await client.get("/data/data/db")).status_code in (401, 403)


async def test_a_cookie_is_for_the_mount(
    settings: dict[str, Any], database: str, mongo_client: Mongo
) -> None:
    hashed = "$2b$04$BjoABcCIDpvkwPGGJZ1zFewJpgtlSFQKeF7yMvy.wxk1pXDZ85YXq"
    mongo_client[database]["users"].insert_one(
        {"_id": "ada", "password": hashed, "roles": ["reader"]}
    )
    async with mounted(make(settings, COOKIES)) as client:
        login = await client.get("/data/roles/ada?set-auth-cookie", auth=("ada", "ada-password"))
        assert "Path=/data/;" in login.headers["set-cookie"]
        out = await client.post("/data/logout")
        assert "Path=/data/;" in out.headers["set-cookie"]


async def test_the_metadata_of_agents_are_below_the_mount(settings: dict[str, Any]) -> None:
    agents = {
        "mcp": {"enabled": True, "authorization-servers": ["https://id.example.org"]},
        "fullAuthorizer": {"authentication-required": True},
        "jwtAuthenticationMechanism": {"enabled": True, "key": "k" * 32},
    }
    async with mounted(make(settings, agents)) as client:
        refused = await client.post("/data/mcp", json={})
        assert refused.status_code == 401
        url = "http://localhost/data/.well-known/oauth-protected-resource/mcp"
        assert f'resource_metadata="{url}"' in refused.headers["www-authenticate"]
        assert (await client.get(url)).json()["resource"] == "http://localhost/data/mcp"


class Stamp(BaseHTTPMiddleware):
    """Runs what follows in a task of its own, and receives in its place."""

    async def dispatch(self, request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers["x-stamp"] = request.url.path
        return response


async def test_middleware_of_the_host_sees_requests_and_answers(
    settings: dict[str, Any], database: str, mongo_client: Mongo
) -> None:
    mongo_client[database].create_collection("things")
    app = make(settings)
    middleware = [Middleware(Stamp), Middleware(GZipMiddleware, minimum_size=10)]
    host = Starlette(routes=[Mount("/data", app)], middleware=middleware)
    async with app.lifespan(), asking(host) as client:
        created = await client.post("/data/db/things", json={"a": "x" * 100_000})
        assert (created.status_code, created.headers["x-stamp"]) == (201, "/data/db/things")
        listed = await client.get("/data/db/things", headers={"accept-encoding": "gzip"})
        assert len(listed.json()[0]["a"]) == 100_000
        assert listed.headers["content-encoding"] == "gzip"


async def test_another_event_loop_is_refused(settings: dict[str, Any]) -> None:
    app = make(settings)

    async def ask() -> int:
        async with asking(app) as client:
            return int((await client.get("/ping")).status_code)

    async with app.lifespan():
        assert await asyncio.to_thread(asyncio.run, ask()) == 503


async def test_applications_of_one_instance_share_secrets_and_numbers(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    """Those that name the same directory are one instance (decision 74)."""
    directory = tmp_path / "instance"
    two = {"core": {"workers": 2}}
    first = make(settings, two, instance=directory)
    second = make(settings, two, instance=directory)
    async with first.lifespan(), second.lifespan():
        instances = [one.docgraph._instance for one in (first, second) if one.docgraph]
        assert [one.worker for one in instances] == [1, 2]
        assert len({one.secret("tokens") for one in instances}) == 1
        with pytest.raises(StartupError, match="more than 2 processes share"):
            async with make(settings, two, instance=directory).lifespan():
                pass
    assert not list(directory.glob("docgraph-instance-*"))  # the secret is gone


def test_an_instance_directory_is_private(tmp_path: Path) -> None:
    directory = tmp_path / "open"
    directory.mkdir(mode=0o755)
    with pytest.raises(StartupError, match="is not private"), join_instance(directory, 1):
        pass
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    with pytest.raises(StartupError, match="is not private"), join_instance(link, 1):
        pass


def test_an_instance_directory_keeps_what_is_not_ours(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "mine").write_text("x")
    with join_instance(tmp_path, 2) as first:
        with join_instance(tmp_path, 2) as second:
            assert (first.worker, second.worker) == (1, 2)
            assert first.master == second.master
        with join_instance(tmp_path, 2) as again:
            assert again.worker == 2  # the number is free again
        old = first.master
    assert (tmp_path / "mine").read_text() == "x"
    with join_instance(tmp_path, 2) as next_one:
        assert next_one.master != old
