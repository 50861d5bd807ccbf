"""Plugins that give back something else than they should, and plain functions of plugins."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from docgraph import (
    ABSENT,
    Answer,
    AuthMechanism,
    Authorizer,
    AuthorizerRole,
    Body,
    DataInterceptor,
    Decision,
    Exchange,
    Initializer,
    Interceptor,
    Outcome,
    Point,
    Read,
    Resource,
    StartupError,
    Stream,
    VariableResolver,
)
from docgraph import Service as PluginService
from docgraph.observe.events import InterceptorFailed, PluginFailed, RequestFailed
from docgraph.server.builtin import BUILTIN
from tests.http.harness import Document, Mongo, Service, eventually, listening, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio


class Sloppy(PluginService):
    """`GET /sloppy?gives=…` gives back something that cannot be sent."""

    name: ClassVar[str] = "sloppy"
    uri: ClassVar[str] = "/sloppy"

    async def handle(self, exchange: Exchange) -> Answer:
        gifts: dict[str | None, Any] = {
            "none": None,
            "dict": {"a": 1},
            "text": Body(content="text"),  # type: ignore[arg-type]
            "object": Body(content={"a": 1}),  # type: ignore[arg-type]
            "status": Body(status="200"),  # type: ignore[arg-type]
            "type": Body(content=b"{}", media_type=b"application/json"),  # type: ignore[arg-type]
            "headers": Body(headers=[("X-Number", 5)]),  # type: ignore[list-item]
            "header": Body(headers=["X-Number: 5"]),  # type: ignore[list-item]
            "list": Stream([b"chunk"]),  # type: ignore[arg-type]
            "buffer": Body(content=bytearray(b"fine")),  # type: ignore[arg-type]
        }
        if exchange.request.query.get("gives") == "exit":
            sys.exit("as a script would")
        answer: Answer = gifts[exchange.request.query.get("gives")]
        return answer

    def parse(self, exchange: Exchange) -> Any:
        return "parsed" if "parse" in exchange.request.query else None

    def render_error(self, error: Exception) -> Any:
        return None


def ask(exchange: Exchange) -> str | None:
    return exchange.request.headers.get("x-sloppy")


class SloppyDoor(Interceptor):
    name: ClassVar[str] = "sloppyDoor"

    async def handle(self, exchange: Exchange) -> Any:
        return {"a": 1} if ask(exchange) == "door" else None


class SloppyExit(Interceptor):
    name: ClassVar[str] = "sloppyExit"
    point: ClassVar[Point] = Point.RESPONSE

    async def handle(self, exchange: Exchange) -> None:
        if ask(exchange) == "exit" and isinstance(exchange.answer, Body):
            exchange.answer.content = "text"  # type: ignore[assignment]
        if ask(exchange) == "sys.exit":
            sys.exit("as a script would")


class SloppyMechanism(AuthMechanism):
    name: ClassVar[str] = "sloppyMechanism"

    async def authenticate(self, exchange: Exchange) -> Any:
        return None if ask(exchange) == "mechanism" else ABSENT


class SloppyVetoer(Authorizer):
    name: ClassVar[str] = "sloppyVetoer"
    role: ClassVar[AuthorizerRole] = AuthorizerRole.VETOER

    async def decide(self, exchange: Exchange) -> Any:
        return True if ask(exchange) == "vetoer" else Decision(True, "no veto")


class SloppyReads(DataInterceptor):
    name: ClassVar[str] = "sloppyReads"

    def resolve(self, resource: Resource) -> bool:
        return resource.collection in ("unread", "unwritten")

    async def before_read(self, exchange: Any, resource: Resource, read: Read) -> Any:
        return None

    async def after_write(self, exchange: Any, resource: Any, write: Any, result: Any) -> Any:
        return None


# --- plain functions ------------------------------------------------------------------------------


def here() -> str:
    return threading.current_thread().name


class Plain(PluginService):
    name: ClassVar[str] = "plain"
    uri: ClassVar[str] = "/plain"

    def handle(self, exchange: Exchange) -> Answer:  # type: ignore[override]
        if "raise" in exchange.request.query:
            raise ValueError("plainly")
        if "exit" in exchange.request.query:
            sys.exit("as a script would")
        return Body(content=here().encode(), media_type="text/plain")


class PlainReturnsCoroutine(PluginService):
    name: ClassVar[str] = "coroutine"
    uri: ClassVar[str] = "/coroutine"

    def handle(self, exchange: Exchange) -> Awaitable[Answer]:  # type: ignore[override]
        return self.answer()

    async def answer(self) -> Answer:
        return Body(content=here().encode(), media_type="text/plain")


class PlainStamp(Interceptor):
    name: ClassVar[str] = "plainStamp"
    point: ClassVar[Point] = Point.RESPONSE

    def handle(self, exchange: Exchange) -> None:  # type: ignore[override]
        exchange.headers.append(("X-Thread", here()))


class PlainMechanism(AuthMechanism):
    name: ClassVar[str] = "plainMechanism"

    def authenticate(self, exchange: Exchange) -> Outcome:  # type: ignore[override]
        exchange.attributes["asked"] = here()
        return ABSENT


class PlainVariable(VariableResolver):
    name: ClassVar[str] = "plainVariable"
    variable: ClassVar[str] = "thread"

    def resolve_variable(  # type: ignore[override]
        self, exchange: Exchange, expression: str
    ) -> str:
        return here()


class PlainInitializer(Initializer):
    name: ClassVar[str] = "plainInitializer"
    life: ClassVar[list[str]] = []

    def provision(self) -> None:  # type: ignore[override]
        self.life.append(here())

    def initialize(self) -> None:  # type: ignore[override]
        self.life.append(here())


SLOPPY = (Sloppy, SloppyDoor, SloppyExit, SloppyMechanism, SloppyVetoer, SloppyReads)
PLAIN = (
    Plain,
    PlainReturnsCoroutine,
    PlainStamp,
    PlainMechanism,
    PlainVariable,
    PlainInitializer,
)


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    PlainInitializer.life.clear()
    async with running(
        mongo_client,
        mongo_uri,
        {"mongo": {"mongo-mounts": [{"what": "*", "where": "/"}]}},
        plugins=(*BUILTIN, *SLOPPY, *PLAIN),
    ) as one:
        yield one


async def fail(service: Service, path: str, headers: Document | None = None) -> str:
    """Ask for a path that fails; the message in the log."""
    with listening(RequestFailed) as failed:
        reply = await service.request("GET", path, headers=headers or {})
    assert reply.status == 500, reply.text
    assert reply.json["details"] == {"id": failed[0].id}
    return str(failed[0].error)


@pytest.mark.parametrize(
    ("gift", "told"),
    [
        ("none", "returned None, which is no Body, Stream, Upgrade or Takeover"),
        ("dict", "returned a dict, which is no Body, Stream, Upgrade or Takeover"),
        ("text", "returned a Body whose content is a str, not bytes: encode it"),
        ("object", "returned a Body whose content is a dict, not bytes: encode it"),
        ("status", "returned a Body with the status '200'"),
        ("type", "returned a Body whose media_type is a bytes, not text"),
        ("headers", "returned a Body with the header ('X-Number', 5), which is not a pair of text"),
        ("header", "returned a Body with the header 'X-Number: 5', which is not a pair of texts"),
        ("list", "returned a Stream whose chunks are a list, not an asynchronous iterator"),
    ],
)
async def test_what_cannot_be_sent_is_a_500_and_the_log_names_the_service(
    service: Service, gift: str, told: str
) -> None:
    message = await fail(service, f"/sloppy?gives={gift}")
    assert message.startswith(f"the service 'sloppy' {told}")


@pytest.mark.parametrize(
    ("path", "asked"),
    [("/sloppy?gives=exit", ""), ("/plain?exit", ""), ("/ping", "sys.exit")],
)
async def test_the_exit_of_a_plugin_is_not_that_of_the_server(
    service: Service, path: str, asked: str
) -> None:
    assert await fail(service, path, {"x-sloppy": asked}) == "as a script would"
    assert (await service.request("GET", "/ping")).status == 200


async def test_other_forms_of_bytes_can_be_sent(service: Service) -> None:
    assert (await service.request("GET", "/sloppy?gives=buffer")).text == "fine"


async def test_what_parse_returns_is_checked(service: Service) -> None:
    message = await fail(service, "/sloppy?parse")
    assert message.startswith("`parse` of the service 'sloppy' returned a str")


async def test_what_an_interceptor_returns_is_checked(service: Service) -> None:
    message = await fail(service, "/ping", {"x-sloppy": "door"})
    assert message.startswith("the interceptor 'sloppyDoor' returned a dict")


async def test_what_an_interceptor_makes_of_the_answer_is_checked(service: Service) -> None:
    message = await fail(service, "/ping", {"x-sloppy": "exit"})
    assert message.startswith("the interceptor 'sloppyExit' returned a Body whose content is a str")


async def test_what_a_mechanism_returns_is_checked(service: Service) -> None:
    message = await fail(service, "/ping", {"x-sloppy": "mechanism"})
    assert message.startswith("the auth-mechanism 'sloppyMechanism' returned None")


async def test_an_authorizer_without_a_decision_denies(service: Service) -> None:
    with listening(PluginFailed) as failed:
        reply = await service.request("GET", "/ping", headers={"x-sloppy": "vetoer"})
    assert reply.status == 403
    assert (failed[0].plugin, str(failed[0].error)) == (
        "sloppyVetoer",
        "`decide` returned True, which is no Decision",
    )


async def test_what_a_data_interceptor_returns_is_checked(service: Service) -> None:
    base = f"/{service.db}/unread"
    with listening(InterceptorFailed) as failed:
        assert (await service.request("PUT", f"/{service.db}")).status in (200, 201)
        assert (await service.request("PUT", base)).status == 500
        assert (await service.request("GET", base)).status == 500
    assert {(one.plugin, one.point) for one in failed} == {
        ("sloppyReads", "after-write"),
        ("sloppyReads", "before-read"),
    }
    assert all(": it returns what it was given" in str(one.error) for one in failed)


# --- plain functions ------------------------------------------------------------------------------


async def test_a_plain_handle_runs_in_a_thread(service: Service) -> None:
    reply = await service.request("GET", "/plain")
    assert reply.status == 200
    assert reply.text.startswith("docgraph-blocking")


async def test_what_a_plain_handle_raises_is_told_like_anything_else(service: Service) -> None:
    assert await fail(service, "/plain?raise") == "plainly"


async def test_a_plain_handle_may_return_a_coroutine_which_runs_in_the_event_loop(
    service: Service,
) -> None:
    assert (await service.request("GET", "/coroutine")).text == "application"


async def test_plain_methods_of_every_kind_run_in_threads(service: Service) -> None:
    reply = await service.request("GET", "/plain")
    assert reply.headers["x-thread"].startswith("docgraph-blocking")
    life = PlainInitializer.life
    await eventually(lambda: len(life) == 2)
    assert all(name.startswith("docgraph-blocking") for name in life)


async def test_a_plain_method_of_a_class_with_slots_is_refused_at_the_start(
    mongo_client: Mongo, mongo_uri: str, tmp_path: Path
) -> None:
    class Rigid:
        __slots__ = ()
        kind, name, enabled_by_default, security = Plain.kind, "rigid", True, False
        uri, exact, methods, secured = "/rigid", False, ("GET",), True
        description, max_body_size = "", 1
        Config = Plain.Config
        provision, validate, close = Plain.provision, Plain.validate, Plain.close
        parse, render_error = Plain.parse, Plain.render_error
        allowed_methods = Plain.allowed_methods

        def __init__(self, config: Any) -> None:
            pass

        def handle(self, exchange: Exchange) -> Answer:
            return Body()

    with pytest.raises(StartupError, match="'rigid' has a plain `def handle`"):
        async with running(mongo_client, mongo_uri, plugins=(*BUILTIN, Rigid)):  # type: ignore[arg-type]
            pass
