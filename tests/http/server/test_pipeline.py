"""The way of a request: route, authenticate, authorize, intercept, serve; and what all share."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from docgraph.exchange import Exchange, Request
from docgraph.observe.events import ConfigWarning
from tests.http.harness import MEDIA_TYPE, Document, Mongo, Service, identity, listening, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

EXAMPLES = Path(__file__).parents[3] / "examples" / "plugins"
CLOSED: Document = {"fullAuthorizer": {"enabled": True, "authentication-required": True}}
BARE: Document = {"mongo": {"enabled": False}}  # the REST API would serve every path
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
PLUGINS = '''
"""Plugins that leave a trace, one at each point, and answer when they are asked to."""
from typing import ClassVar
from docgraph import (
    Answer, Authorizer, AuthorizerRole, Body, Decision, DocgraphError, Exchange, Interceptor,
    PluginConfig, Point, Service,
)

class Teapot(DocgraphError):
    status, code = 418, "teapot"

def trace(name_: str, point_: Point, priority_: int = 10):
    class Trace(Interceptor):
        name: ClassVar[str] = name_
        point: ClassVar[Point] = point_
        priority: ClassVar[int] = priority_

        async def handle(self, exchange: Exchange):
            exchange.headers.append(("X-Trace", name_))
            wish = exchange.request.headers.get(f"x-{point_}")
            if wish == "answer":
                return Body(299, b"from " + name_.encode(), "text/plain")
            if wish == "raise":
                raise Teapot("short and stout", hint="tip me over")
            if wish == "break":
                raise RuntimeError("a fault")
            return None
    return Trace

Before = trace("before", Point.BEFORE_AUTH)
Earlier = trace("earlier", Point.BEFORE_AUTH, 5)
After = trace("after", Point.AFTER_AUTH)
Failed = trace("failed", Point.AFTER_FAILED_AUTH)
Response = trace("response", Point.RESPONSE)

class Choosy(Interceptor):
    name: ClassVar[str] = "choosy"
    point: ClassVar[Point] = Point.RESPONSE

    def resolve(self, exchange: Exchange) -> bool:
        return exchange.service == "echo"

    async def handle(self, exchange: Exchange):
        exchange.headers.append(("X-Chosen", "yes"))
        return None

class Veto(Authorizer):
    name: ClassVar[str] = "veto"
    role: ClassVar[AuthorizerRole] = AuthorizerRole.VETOER

    async def decide(self, exchange: Exchange) -> Decision:
        return Decision("x-veto" not in exchange.request.headers, "vetoed by header")

class Echo(Service):
    name: ClassVar[str] = "echo"
    uri: ClassVar[str] = "/echo"
    methods: ClassVar[tuple[str, ...]] = ("GET", "POST")
    max_body_size = 100

    async def handle(self, exchange: Exchange) -> Answer:
        request = exchange.request
        if request.method in ("GET", "HEAD"):
            return Body(200, request.path.encode(), "text/plain")
        first = await request.get_content()
        again = await request.getContent()
        parsed = await request.parse_content()
        text = repr((first, first is again, parsed == first)).encode()
        return Body(200, text, "text/plain")
'''


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Document:
    directory = tmp_path_factory.mktemp("plugins")
    (directory / "traces.py").write_text(PLUGINS)
    return {"core": {"plugins-directory": str(directory)}, **BARE}


async def prepare_app(service: Service) -> None:
    await service.define("app", "type Query { a: Int }")


@module_application
async def closed(mongo_client: Mongo, mongo_uri: str, plugins: Document) -> AsyncIterator[Service]:
    """Nobody is known, and only authenticated callers may enter."""
    async with running(mongo_client, mongo_uri, CLOSED, plugins) as service:
        await prepare_app(service)
        yield service


@module_application
async def known(mongo_client: Mongo, mongo_uri: str, plugins: Document) -> AsyncIterator[Service]:
    """Everybody is Ada, and may enter."""
    async with running(mongo_client, mongo_uri, CLOSED, plugins, identity("reader")) as service:
        await prepare_app(service)
        yield service


def traces(reply: Any) -> list[str]:
    return [value for name, value in reply.headers.multi_items() if name == "x-trace"]


@pytest.mark.parametrize(
    ("path", "is_probe"), [("/ping", True), ("/health/db", True), ("/metrics", False), ("/", False)]
)
async def test_probes_are_answered_however_many_wait(
    known: Service, path: str, is_probe: bool
) -> None:
    assert known.app.is_probe(Exchange(Request("GET", path.encode()), "1")) is is_probe


# --- who may learn what ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "path", ["/graphql/app", "/graphql/none", "/graphql", "/none", "/", "/echo"]
)
async def test_an_unknown_caller_gets_401_whatever_is_there(
    closed: Service, method: str, path: str
) -> None:
    """Decision 21: 401, never 404 or 405."""
    reply = await closed.request(method, path)

    assert reply.status == 401
    assert ("authentication required" in reply.text) is (method != "HEAD")


async def test_all_refusals_of_an_unknown_caller_are_alike(closed: Service) -> None:
    """Decision 21: nothing tells a path that is there from one that is not."""
    for paths in (("/graphql/app", "/graphql/none"), ("/none", "/echo")):
        answers = {
            tuple(
                (name, value)
                for name, value in (await closed.request(method, path)).headers.multi_items()
                if name != "x-request-id"
            )
            for method in ("GET", "POST")
            for path in paths
        }
        assert len(answers) == 1


@pytest.mark.parametrize("path", ["/graphql/app", "/graphql/none", "/graphql", "/graphql/a/b/c"])
async def test_options_needs_no_credentials_below_the_base(closed: Service, path: str) -> None:
    """Decision 21."""
    reply = await closed.request("OPTIONS", path, headers={"origin": "https://page.example"})

    assert reply.status == 200
    assert reply.headers["access-control-allow-methods"] == "POST, OPTIONS"
    assert reply.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/graphql/none", 404),
        ("GET", "/graphql/none", 405),
        ("GET", "/graphql/app", 405),
        ("GET", "/none", 404),
        ("DELETE", "/none", 404),
        ("GET", "/", 404),
        ("PUT", "/echo", 405),
        ("GET", "/echo", 200),
        ("HEAD", "/echo", 200),
        ("GET", "/echo/below", 200),
        ("GET", "/echoes", 404),
    ],
)
async def test_a_known_caller_learns_what_is_there(
    known: Service, method: str, path: str, status: int
) -> None:
    """Decision 21: 405 comes before 404."""
    reply = await known.request(method, path)

    assert reply.status == status
    if status == 405:
        assert "OPTIONS" in reply.headers["allow"]


async def test_credentials_that_nobody_knows_are_401(known: Service, closed: Service) -> None:
    """Decision 27: a header for a scheme that no mechanism knows. Identity accepts everybody."""
    header = {"authorization": "Bearer nonsense"}

    assert (await closed.request("POST", "/graphql/app", headers=header)).status == 401
    assert (await known.request("GET", "/echo", headers=header)).status == 200


async def test_a_veto_is_403_without_its_reason(known: Service) -> None:
    """Decisions 28 and 68; vetoers see OPTIONS, too (38)."""
    for method, path in (("POST", "/graphql/app"), ("GET", "/none"), ("OPTIONS", "/graphql/app")):
        reply = await known.request(method, path, headers={"x-veto": "1"})
        assert reply.status == 403
        assert "permission denied" in reply.text
        assert "veto" not in reply.text


async def test_what_is_not_secured_needs_nobody(closed: Service) -> None:
    """Decision 38."""
    assert (await closed.request("GET", "/ping")).status == 200
    assert (await closed.request("GET", "/ping", headers={"x-veto": "1"})).status == 403


# --- what every answer has ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/graphql/app"),
        ("POST", "/graphql/none"),
        ("GET", "/graphql/app"),
        ("HEAD", "/graphql/app"),
        ("GET", "/none"),
        ("GET", "/echo"),
        ("GET", "/ping"),
        ("OPTIONS", "/graphql/app"),
    ],
)
async def test_every_answer_has_cors_and_security_headers(
    known: Service, closed: Service, method: str, path: str
) -> None:
    """Decision 21, drill H08: errors included."""
    for service in (known, closed):
        reply = await service.request(method, path, headers={"origin": "https://page.example"})
        assert reply.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in reply.headers
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cross-origin-resource-policy"] == "same-origin"
        assert reply.headers["x-request-id"]
        assert "server" not in reply.headers


async def test_a_listed_origin_is_echoed_with_credentials(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    """`cors.allow-origins`, drill H06."""
    listed: Document = {"cors": {"allow-origins": ["https://good.example"]}}
    async with running(mongo_client, mongo_uri, listed) as service:
        good = await service.request(
            "POST", "/graphql/x", headers={"origin": "https://good.example"}
        )
        assert good.headers["access-control-allow-origin"] == "https://good.example"
        assert good.headers["access-control-allow-credentials"] == "true"
        for origin in ("https://good.example.evil", "https://evil.example", "null"):
            bad = await service.request("POST", "/graphql/x", headers={"origin": origin})
            assert "access-control-allow-origin" not in bad.headers
            assert bad.headers["vary"] == "Origin"


async def test_answers_to_known_callers_are_not_stored(known: Service) -> None:
    """Drill H08."""
    reply = await known.query("app", "{ a }")

    assert reply.headers["cache-control"] == "no-store"


async def test_head_has_the_headers_of_get_and_no_body(known: Service) -> None:
    get, head = await known.request("GET", "/echo"), await known.request("HEAD", "/echo")

    assert head.response.content == b""
    assert head.headers["content-length"] == get.headers["content-length"] == "5"


async def test_errors_outside_of_graphql_have_the_general_shape(known: Service) -> None:
    reply = await known.request("GET", "/none")

    assert reply.headers["content-type"] == "application/json; charset=utf-8"
    assert reply.json == {
        "http status code": 404,
        "http status description": "Not Found",
        "message": "nothing is served at this path",
        "code": "not-found",
    }


# --- interceptors ---------------------------------------------------------------------------------


async def test_interceptors_see_a_request_at_their_points_in_their_order(known: Service) -> None:
    reply = await known.request("GET", "/echo")

    assert traces(reply) == ["earlier", "before", "after", "response"]
    assert reply.headers["x-chosen"] == "yes"


async def test_an_interceptor_sees_only_what_concerns_it(known: Service) -> None:
    assert "x-chosen" not in (await known.query("app", "{ a }")).headers


async def test_a_refused_caller_passes_the_point_after_failed_auth(closed: Service) -> None:
    reply = await closed.request("GET", "/echo")

    assert (reply.status, traces(reply)) == (401, ["earlier", "before", "failed"])


@pytest.mark.parametrize(
    ("point", "trace", "text"),
    [
        ("before-auth", ["earlier"], "from earlier"),
        ("after-auth", ["earlier", "before", "after"], "from after"),
        ("response", ["earlier", "before", "after", "response"], "from response"),
    ],
)
async def test_an_interceptor_can_answer(
    known: Service, point: str, trace: list[str], text: str
) -> None:
    reply = await known.request("GET", "/echo", headers={f"x-{point}": "answer"})

    assert (reply.status, reply.text, traces(reply)) == (299, text, trace)


async def test_an_answer_before_auth_needs_nobody(closed: Service) -> None:
    reply = await closed.request("GET", "/echo", headers={"x-before-auth": "answer"})

    assert reply.status == 299


@pytest.mark.parametrize("point", ["before-auth", "after-auth", "response"])
async def test_an_error_of_an_interceptor_has_the_shape_of_the_service(
    known: Service, point: str
) -> None:
    """Decision 22: every body of the GraphQL endpoint is GraphQL-shaped."""
    headers = {f"x-{point}": "raise"}

    general = await known.request("GET", "/echo", headers=headers)
    graphql = await known.request("POST", "/graphql/app", headers=headers)

    assert (general.status, general.json["code"]) == (418, "teapot")
    assert (graphql.status, graphql.code) == (418, "teapot")
    assert graphql.headers["content-type"] == MEDIA_TYPE


@pytest.mark.parametrize("point", ["before-auth", "after-auth", "response"])
async def test_a_fault_of_an_interceptor_is_500_and_says_nothing(
    known: Service, point: str
) -> None:
    """Decision 22."""
    reply = await known.request("POST", "/graphql/app", headers={f"x-{point}": "break"})

    assert (reply.status, reply.code) == (500, "internal-error")
    assert "a fault" not in reply.text
    assert "RuntimeError" not in reply.text


# --- services of plugins --------------------------------------------------------------------------


async def test_content_is_read_once_and_parsed_on_demand(known: Service) -> None:
    """`service.md` on versions: read lazily via `parseContent()`, kept after `getContent()`."""
    reply = await known.request("POST", "/echo", json={"a": [1, {"$oid": "0" * 24}]})

    assert reply.text == "({'a': [1, ObjectId('000000000000000000000000')]}, True, True)"


async def test_the_body_of_a_service_has_its_own_limit(known: Service) -> None:
    assert (await known.request("POST", "/echo", json="x" * 90)).status == 200
    reply = await known.request("POST", "/echo", json="x" * 100)
    assert (reply.status, reply.json["code"]) == (413, "body-too-large")


async def test_the_example_plugins_work_from_a_directory(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    """`examples/plugins/greeter.py`."""
    settings: Document = {
        **BARE,
        "core": {"plugins-directory": str(EXAMPLES)},
        "greeter": {"greeting": "Ciao"},
    }
    async with running(mongo_client, mongo_uri, settings) as service:
        get = await service.request("GET", "/greeter?name=Ada")
        post = await service.request("POST", "/greeter", content=json.dumps(["Ada", "Bob"]))
        other = await service.request("GET", "/none")

        assert get.json == {"message": "Ciao, Ada!"}
        assert post.json == {"message": "Ciao, Ada and Bob!"}
        assert get.headers["x-answered-by"] == "greeter"
        assert other.headers["x-answered-by"] == "nobody"


async def test_a_service_can_be_moved_and_opened_by_its_section(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    settings: Document = {
        **BARE,
        "core": {"plugins-directory": str(EXAMPLES)},
        "greeter": {"uri": "/hello", "secured": False},
    }
    async with running(mongo_client, mongo_uri, settings, CLOSED) as service:
        assert (await service.request("GET", "/hello")).status == 200
        assert (await service.request("GET", "/greeter")).status == 401


async def test_the_start_log_has_the_hints_of_configuration_warnings(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    with listening(ConfigWarning) as heard:
        async with running(mongo_client, mongo_uri, {"graphql": {"app-def-cache-ttl": 1000}}):
            pass

    (warning,) = [one for one in heard if one.path == "/graphql/app-def-cache-ttl"]
    assert "'app-cache-enabled' and 'app-cache-ttr'" in warning.hint
