"""What a browser gets: the front page, and a page as the body of every error (decisions 22, 46)."""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

import pytest

from docgraph.exchange import Answer, Body, DocgraphError, Exchange
from docgraph.exchange.errors import NotFound, StoreUnavailable
from docgraph.observe.events import RequestFinished
from docgraph.plugins.kinds import Service as PluginService
from docgraph.runtime import AdmissionQueue
from docgraph.server.builtin import BUILTIN
from tests.http.access_harness import ADMIN, NOBODY, allow, caller, guarded
from tests.http.harness import Document, Mongo, Reply, Service, listening, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

ACCEPT = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
BROWSER = {**ACCEPT, "Upgrade-Insecure-Requests": "1", "Sec-Fetch-Mode": "navigate"}
BROWSER_OVER_HTTP = {**ACCEPT, "Upgrade-Insecure-Requests": "1"}  # to another host
JAVA = {"Accept": "text/html, image/gif, image/jpeg, */*; q=0.2"}  # HttpURLConnection, by default
FETCH = {"Accept": "text/html", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}
PROGRAMS: tuple[dict[str, str], ...] = ({}, {"Accept": "*/*"}, ACCEPT, JAVA, FETCH)
READER = caller("rita", "reader")
HOSTILE = "\"'><script>alert(1)</script>"
SCHEMA = "type Query { things: [Thing] } type Thing { _id: String }"
PASSWORDS: Document = {"basicAuthMechanism": {"enabled": True}}


class OwnErrors(PluginService):
    """Has pages of its own."""

    name: ClassVar[str] = "ownErrors"
    uri: ClassVar[str] = "/own"

    async def handle(self, exchange: Exchange) -> Answer:
        raise NotFound("nothing")

    def render_error(self, error: DocgraphError) -> Body | None:
        return Body(error.status, b"<p>mine</p>", "text/html")


class OwnFront(PluginService):
    """Has a front page of its own."""

    name: ClassVar[str] = "ownFront"
    uri: ClassVar[str] = "/"

    async def handle(self, exchange: Exchange) -> Answer:
        return Body(200, b"<p>welcome</p>", "text/html")


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri, PASSWORDS, plugins=(OwnErrors,)) as one:
        mapping = {"Query": {"things": one.find("things")}}
        await one.define("open", SCHEMA, mapping, description=f"For {HOSTILE} all")
        await one.define("readers", SCHEMA, mapping, uri="v1/readers")
        await one.define("vault", SCHEMA, mapping)
        await one.define(HOSTILE.replace("/", ""), SCHEMA, mapping)
        await one.define("off", SCHEMA, mapping, enabled=False)
        await allow(one, "path-prefix('/graphql/open')", "$unauthenticated")
        await allow(one, "path-prefix('/graphql/v1/readers')", "reader")
        await allow(one, "path-prefix('/own')", "$unauthenticated")
        yield one


async def browse(
    service: Service, path: str, who: dict[str, str] = NOBODY, method: str = "GET"
) -> Reply:
    return await service.request(method, path, headers={**BROWSER, **who})


def find_apps(reply: Reply) -> list[str]:
    return re.findall(r'POST <a href="/graphql/([^"]*)"', reply.text)


def check_is_page(reply: Reply) -> None:
    """One page that a browser runs nothing of, for this caller and this program alone."""
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    varying = {one.strip() for one in reply.headers.get_list("vary", split_commas=True)}
    assert {"Sec-Fetch-Mode", "Upgrade-Insecure-Requests", "Accept"} <= varying
    assert reply.headers["cache-control"] == "no-store"
    assert reply.text.startswith("<!doctype html>")
    assert "<script" not in reply.text
    assert not re.search(r"\son\w+=|https?://|javascript:", reply.text)


# --- the front page -------------------------------------------------------------------------------


async def test_the_front_page_needs_no_login_and_says_where_to_log_in(service: Service) -> None:
    reply = await browse(service, "/")

    assert reply.status == 200
    check_is_page(reply)
    assert "www-authenticate" not in reply.headers
    links = re.findall(r'href="([^"]*)"', reply.text)
    assert {"/?login", "/openapi", "/openapi.json", "/ping", "/health/db"} <= set(links)
    assert {"/console", "/console/ask/open"} <= set(links)


async def test_the_front_page_names_the_apps_that_the_caller_may_ask(service: Service) -> None:
    assert find_apps(await browse(service, "/")) == ["open"]
    assert find_apps(await browse(service, "/", READER)) == ["open", "v1/readers"]

    whole = await browse(service, "/", ADMIN)
    check_is_page(whole)
    encoded = quote(HOSTILE.replace("/", ""), safe="")
    assert set(find_apps(whole)) == {"open", "v1/readers", "vault", encoded}
    assert "root" in whole.text


async def test_a_stranger_does_not_have_every_app_of_thousands_judged(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docgraph.server.services.rights._MAX_CHECKED", 1)
    reply = await browse(service, "/")  # the first app by uri is not the open one

    assert find_apps(reply) == []
    assert "none that you may ask" in reply.text


async def test_a_hostile_name_is_text_on_the_front_page(service: Service) -> None:
    reply = await browse(service, "/", caller(HOSTILE, HOSTILE))

    check_is_page(reply)
    assert HOSTILE in unescape(reply.text)


async def test_the_link_to_log_in_makes_a_browser_ask(service: Service) -> None:
    asked = await browse(service, "/?login")
    assert asked.status == 401
    assert "Basic " in asked.headers["www-authenticate"]
    check_is_page(asked)

    assert (await browse(service, "/?login", READER)).status == 200


async def test_programs_find_at_the_root_what_they_always_found(service: Service) -> None:
    for accept in PROGRAMS:
        unknown = await service.request("GET", "/", headers=accept)
        assert (unknown.status, unknown.json["code"]) == (401, "unauthenticated")
        assert "www-authenticate" in unknown.headers
        known = await service.request("GET", "/", headers={**accept, **ADMIN})
        assert isinstance(known.json, list)
        assert "Accept" not in known.headers.get_list("vary", split_commas=True)


async def test_only_looking_is_answered_by_the_front_page(service: Service) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert (await browse(service, "/", method=method)).status == 401
    assert (await browse(service, "/", method="OPTIONS")).text == ""


async def test_wrong_credentials_are_refused_at_the_front_page_too(service: Service) -> None:
    """Decision 27."""
    reply = await browse(service, "/", {"Authorization": "Bearer nonsense"})

    assert reply.status == 401
    assert "www-authenticate" in reply.headers
    check_is_page(reply)


async def test_without_its_database_the_front_page_says_so(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> None:
        raise StoreUnavailable("the database cannot be reached")

    monkeypatch.setattr(service.apps, "list_served", fail)
    reply = await browse(service, "/")

    assert reply.status == 200
    assert "They are not known now, because of the database." in reply.text


async def test_a_front_page_of_a_plugin_stays_in_its_place(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    bare = {"mongo": {"enabled": False}}
    async with running(mongo_client, mongo_uri, bare, plugins=(*BUILTIN, OwnFront)) as service:
        assert (await browse(service, "/")).text == "<p>welcome</p>"


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "who", "status"),
    [
        ("GET", "/nothing", NOBODY, 401),
        ("GET", "/graphql/vault", NOBODY, 401),
        ("GET", "/graphql/vault", READER, 403),
        ("GET", "/graphql/open", NOBODY, 405),
        ("GET", "/nothing", ADMIN, 404),
        ("GET", "/nothing?page=x", ADMIN, 400),
        ("GET", "/tokens/other", READER, 403),
        ("GET", "/%ff", NOBODY, 400),
        pytest.param("GET", f"/{'x' * 10_000}", NOBODY, 414, id="too long to be a request"),
    ],
)
async def test_an_error_keeps_its_status_and_its_headers_and_has_a_page(
    service: Service, method: str, path: str, who: dict[str, str], status: int
) -> None:
    program = await service.request(method, path, headers=who)
    browser = await browse(service, path, who, method)

    assert program.status == browser.status == status
    check_is_page(browser)
    for name in ("www-authenticate", "allow", "retry-after"):
        assert browser.headers.get(name) == program.headers.get(name)
    assert "json" in program.headers.get("content-type", "json")
    if status not in {401, 403}:  # the page says what to do
        said = program.json if "message" in program.json else program.error
        assert said["message"].lower() in unescape(browser.text).lower().replace('"', "'")


@pytest.mark.parametrize(
    ("method", "path", "who", "body", "status"),
    [
        ("GET", "/graphql/vault", NOBODY, "", 401),
        ("GET", "/graphql/vault", READER, "", 403),
        ("GET", "/graphql/open", NOBODY, "", 405),
        ("HEAD", "/graphql/open", NOBODY, "", 405),
        ("POST", "/graphql/open", NOBODY, "", 400),
        ("POST", "/graphql/open", NOBODY, '{"query": "{ nope }"}', 400),
        ("POST", "/graphql/nowhere", ADMIN, '{"query": "{ nope }"}', 404),
        ("GET", "/nothing", NOBODY, "", 401),
        ("GET", "/nothing", READER, "", 403),
        ("GET", "/nothing", ADMIN, "", 404),
        ("POST", "/nothing/x/y", ADMIN, "", 404),
        ("PATCH", "/", ADMIN, "", 400),
        ("GET", "/tokens/rita", NOBODY, "", 401),
        ("PUT", "/tokens/rita", READER, "", 405),
        ("GET", "/tokens/other", READER, "", 403),
        ("DELETE", "/ping", NOBODY, "", 405),
        ("GET", "/%ff", NOBODY, "", 400),
    ],
)
async def test_what_no_browser_navigates_gets_the_format_of_its_service(
    service: Service, method: str, path: str, who: dict[str, str], body: str, status: int
) -> None:
    """Decisions 22 and 24: whatever `Accept` prefers, and whatever comes with a POST."""
    kind = {"Content-Type": "application/json"} if body else {}
    callers = [*PROGRAMS] if method in {"GET", "HEAD"} else [*PROGRAMS, BROWSER, BROWSER_OVER_HTTP]
    for caller_headers in callers:
        reply = await service.request(
            method, path, content=body.encode(), headers={**caller_headers, **who, **kind}
        )
        wanted = (
            "application/graphql-response+json; charset=utf-8"
            if path.startswith("/graphql/")
            else "application/json; charset=utf-8"
        )
        assert (reply.status, reply.headers.get("content-type")) == (status, wanted)
        if method != "HEAD":
            assert reply.json


@pytest.mark.parametrize("browser", [BROWSER, BROWSER_OVER_HTTP, {"Sec-Fetch-Mode": "navigate"}])
@pytest.mark.parametrize("path", ["/", "/graphql/open", "/nothing"])
async def test_a_navigation_gets_a_page_over_https_and_over_plain_http(
    service: Service, browser: dict[str, str], path: str
) -> None:
    """Decisions 22 and 46."""
    check_is_page(await service.request("GET", path, headers=browser))


async def test_every_code_that_a_page_shows_is_documented(service: Service) -> None:
    known = (Path(__file__).parents[3] / "docs/reference/error-codes.md").read_text()
    for path in ("/graphql/open", "/nothing", "/nothing?page=x", "/_tools/plan", "/%ff", "/ping/x"):
        reply = await browse(service, path, ADMIN)
        (shown,) = re.findall(r"code <code>(.*?)</code>", reply.text)
        assert f"`{shown}`" in known


async def test_the_log_has_the_code_that_the_caller_got(service: Service) -> None:
    with listening(RequestFinished) as finished:
        reply = await service.query("open", "{ nope }")

    assert reply.error["extensions"]["code"] == "invalid-query"
    assert [one.error for one in finished] == ["invalid-query"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/ping", "application/json; charset=utf-8"),
        ("/graphql/none", "application/graphql-response+json; charset=utf-8"),
        ("/graphql/none?x", "application/graphql-response+json; charset=utf-8"),
    ],
)
async def test_what_is_rejected_before_the_pipeline_has_the_format_of_its_service(
    service: Service, monkeypatch: pytest.MonkeyPatch, path: str, kind: str
) -> None:
    """Decisions 22 and 24: headers that are too large, and more requests than there is room for."""
    page = "text/html; charset=utf-8"
    large = {"X-Large": "x" * 200_000}
    exchanges = service.client._transport.state.exchanges  # type: ignore[attr-defined]
    for method, headers, wanted in (
        ("POST", JAVA, kind),
        ("GET", JAVA, kind),
        ("GET", BROWSER, page),
    ):
        reply = await service.request(method, path, headers={**headers, **large})
        assert (reply.status, reply.headers["content-type"]) == (431, wanted)

        with monkeypatch.context() as patch:
            patch.setattr(exchanges, "_gate", AdmissionQueue(0, 0, "too many requests at a time"))
            patch.setattr(service.app, "is_probe", lambda exchange: False)
            reply = await service.request(method, path, headers=headers)
        assert (reply.status, reply.headers["content-type"]) == (503, wanted)
        assert reply.headers["retry-after"] == "1"


class BrokenErrors(PluginService):
    """Fails when it renders an error."""

    name: ClassVar[str] = "brokenErrors"
    uri: ClassVar[str] = "/broken"

    async def handle(self, exchange: Exchange) -> Answer:
        return Body()

    def render_error(self, error: DocgraphError) -> Body | None:
        raise RuntimeError("broken")


async def test_a_service_that_cannot_render_its_errors_still_has_an_answer(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    async with running(mongo_client, mongo_uri, plugins=(*BUILTIN, BrokenErrors)) as service:
        reply = await service.request("GET", "/broken", headers={"X-Large": "x" * 200_000})
        assert (reply.status, reply.json["code"]) == (500, "internal-error")


async def test_unknown_callers_read_the_same_page_whatever_there_is(service: Service) -> None:
    paths = ("/graphql/vault", "/graphql/off", "/graphql/nowhere", "/acl", "/nowhere", "/metrics")
    pages = {(reply.status, reply.text) for reply in [await browse(service, p) for p in paths]}

    assert len(pages) == 1


GRAPHQL_PATHS = ("/graphql/vault", "/graphql/off", "/graphql/nowhere")
OTHER_PATHS = ("/acl", "/acl/x", "/nowhere", "/nowhere/x?filter=y", "/metrics", "/tokens/x")


@pytest.mark.parametrize(
    ("who", "status", "code", "message"),
    [
        (NOBODY, 401, "unauthenticated", "authentication required"),
        (READER, 403, "forbidden", "permission denied"),
    ],
)
async def test_a_denial_has_one_body_per_service(
    service: Service, who: dict[str, str], status: int, code: str, message: str
) -> None:
    """Decision 68: it depends neither on what exists nor on the reason; HEAD is empty."""
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    upgrade["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
    for paths in (GRAPHQL_PATHS, OTHER_PATHS):
        ways = [("GET", {}), ("GET", upgrade), ("POST", {})]
        replies = [
            await service.request(method, path, headers={**headers, **who})
            for path in paths
            for method, headers in ways
        ]
        (reply,) = {(one.status, one.text): one for one in replies}.values()
        assert reply.status == status
        said = reply.error if paths is GRAPHQL_PATHS else reply.json
        shown = said["extensions"] if paths is GRAPHQL_PATHS else said
        assert (said["message"], shown["code"]) == (message, code)
        assert (await service.request("HEAD", paths[0], headers=who)).text == ""


async def test_known_callers_who_may_not_are_told_who_can_find_out_why(service: Service) -> None:
    path = "/graphql/" + quote(f"$(id) {HOSTILE}", safe="")
    reply = await browse(service, f"{path}?page=1&x='<b>", caller("ri ta';", "reader"))

    assert reply.status == 403
    check_is_page(reply)
    found = re.search(r"<pre>(.*)</pre>", reply.text)
    assert found is not None
    command, subject, verb, *options = shlex.split(unescape(found[1]))
    assert (command, subject, verb) == ("docgraph", "access", "explain")
    user, method, place, query = options
    assert (user, method, place) == ("--user=ri ta';", "--method=GET", f"--path={path}")
    assert query.startswith("--query=page=1&x=")


async def test_the_page_of_an_endpoint_says_how_to_ask_it(service: Service) -> None:
    reply = await browse(service, "/graphql/open")

    assert reply.status == 405
    assert reply.headers["allow"] == "POST, OPTIONS"
    assert "__typename" in reply.text
    assert 'href="/console/ask/open"' in reply.text
    deeper = await browse(service, "/graphql/v1/readers", READER)
    assert 'href="/console/ask/v1/readers"' in deeper.text
    hostile = quote(HOSTILE.replace("/", ""), safe="")
    strange = await browse(service, f"/graphql/{hostile}", ADMIN)
    check_is_page(strange)
    assert f'href="/console/ask/{hostile}"' in strange.text


async def test_no_page_leads_to_a_console_that_is_off(mongo_client: Mongo, mongo_uri: str) -> None:
    off = {"console": {"enabled": False}}
    async with running(mongo_client, mongo_uri, off) as service:
        await service.define("open", SCHEMA)
        for path, status in (("/", 200), ("/graphql/open", 405)):
            reply = await browse(service, path)
            assert reply.status == status
            assert "console" not in reply.text


async def test_head_is_like_get_without_the_content(service: Service) -> None:
    for path in ("/", "/nothing", "/graphql/open"):
        get, head = await browse(service, path), await browse(service, path, method="HEAD")
        assert (head.status, head.text) == (get.status, "")
        assert head.headers["content-type"] == get.headers["content-type"]
        if get.status != 405:  # which names the method
            assert head.headers["content-length"] == get.headers["content-length"]


async def test_pages_are_compressed_for_those_who_accept_it(service: Service) -> None:
    reply = await browse(service, "/", {"Accept-Encoding": "gzip"})

    assert reply.headers["content-encoding"] == "gzip"
    varying = {one.strip() for one in reply.headers.get_list("vary", split_commas=True)}
    assert {"Accept", "Accept-Encoding"} <= varying
    check_is_page(reply)


async def test_a_service_with_pages_of_its_own_keeps_them(service: Service) -> None:
    reply = await browse(service, "/own")

    assert (reply.status, reply.text) == (404, "<p>mine</p>")
