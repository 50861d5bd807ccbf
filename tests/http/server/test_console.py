"""What the server sends of the console: the page, its files, and a hint where nothing is built."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from docgraph.console.service import ConsoleService, Site
from tests.http.access_harness import ADMIN, NOBODY, guarded
from tests.http.harness import Mongo, Reply, Service, running
from tests.http.hosts import module_application
from tests.http.realms import hashed, render_basic

pytestmark = pytest.mark.anyio

SCRIPT = b"console.log('hello')"
MANIFEST = {
    "script": "main-AAAA.js",
    "style": "style-BBBB.css",
    "preload": ["chunk-CCCC.js"],
    "files": ["main-AAAA.js", "style-BBBB.css", "chunk-CCCC.js"],
}
HOSTILE = "\"'><script>alert(1)</script>"


def build(directory: Path, manifest: dict[str, Any] = MANIFEST) -> Path:
    """What the build would write."""
    directory.mkdir(exist_ok=True)
    for name in manifest["files"]:
        (directory / name).write_bytes(SCRIPT)
        (directory / f"{name}.gz").write_bytes(gzip.compress(SCRIPT))
        (directory / f"{name}.br").write_bytes(b"brotli")
    (directory / "secret.txt").write_text("not in the manifest")
    (directory.parent / "secret.txt").write_text("not in the directory")
    (directory / "manifest.json").write_text(json.dumps(manifest))
    return directory


def point_to(service: Service, directory: Path) -> None:
    """Let the console serve the files of that directory."""
    (console,) = [one for one in service.app.plugins.plugins if isinstance(one, ConsoleService)]
    console.site = Site(directory)


@module_application
async def service(
    mongo_client: Mongo, mongo_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Service]:
    settings = {
        "core": {"name": HOSTILE},
        "basicAuthMechanism": {"enabled": True},
        "tokenBasicAuthMechanism": {"enabled": True},
    }
    async with guarded(mongo_client, mongo_uri, settings) as one:
        point_to(one, build(tmp_path_factory.mktemp("console") / "static"))
        one.insert("users", {"_id": "ann", "password": hashed("secret"), "roles": ["user"]})
        yield one


async def get(service: Service, path: str, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await service.request("GET", f"/console{path}", headers=named)


async def test_the_page_needs_no_login_and_runs_only_its_own_script(service: Service) -> None:
    reply = await get(service, "")

    assert reply.status == 200
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert reply.headers["cache-control"] == "no-cache"
    assert reply.headers["x-content-type-options"] == "nosniff"
    policy = dict(
        one.strip().split(" ", 1) for one in reply.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert 'src="/console/assets/main-AAAA.js"' in reply.text
    assert reply.text.count("<script") == 1


async def test_the_page_knows_where_things_are_and_nothing_of_the_caller(service: Service) -> None:
    reply = await get(service, "")
    told = reply.text.split('name="docgraph-settings" content="')[1].split('"')[0]
    settings = json.loads(unescape(told))

    assert settings["title"] == HOSTILE
    assert settings["base"] == "/console"
    assert settings["paths"]["graphql"] == "/graphql"
    assert settings["definitions"] == "/gql-apps"
    assert (settings["passwords"], settings["cookies"]) == (True, False)
    known = await service.request("GET", "/console", headers=ADMIN)
    assert known.text == reply.text


async def test_every_path_of_a_page_is_answered_by_the_page(service: Service) -> None:
    first = await get(service, "")
    for path in ("/", "/ask/v1/blog", "/apps/%3Cscript%3E", "/manifest.json"):
        assert (await get(service, path)).text == first.text


async def test_a_page_that_is_still_the_same_is_not_sent_again(service: Service) -> None:
    etag = (await get(service, "")).headers["etag"]
    again = await get(service, "", if_none_match=etag)

    assert (again.status, again.text) == (304, "")
    assert again.headers["etag"] == etag


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [("gzip, br", "br"), ("gzip", "gzip"), ("br;q=0.1, gzip", "gzip"), ("identity", None)],
)
async def test_files_are_sent_as_they_were_compressed_and_kept_for_ever(
    service: Service, accepted: str, coding: str | None
) -> None:
    head = await service.request(
        "HEAD", "/console/assets/main-AAAA.js", headers={"accept-encoding": accepted}
    )
    assert head.status == 200
    assert head.headers.get("content-encoding") == coding
    assert head.headers["content-type"] == "text/javascript; charset=utf-8"
    assert head.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert "Accept-Encoding" in head.headers["vary"]
    sizes = {"br": 6, "gzip": len(gzip.compress(SCRIPT)), None: len(SCRIPT)}
    assert int(head.headers["content-length"]) == sizes[coding]
    if coding != "br":  # no client of ours reads it
        whole = await get(service, "/assets/main-AAAA.js", accept_encoding=accepted)
        assert whole.response.content == SCRIPT


async def test_a_file_that_is_known_is_not_sent_again(service: Service) -> None:
    path = "/assets/style-BBBB.css"
    etag = (await get(service, path, accept_encoding="gzip")).headers["etag"]

    assert (await get(service, path, accept_encoding="gzip", if_none_match=etag)).status == 304
    other = await get(service, path, accept_encoding="identity", if_none_match=etag)
    assert other.status == 200


@pytest.mark.parametrize(
    "name",
    [
        "secret.txt",
        "../secret.txt",
        "%2e%2e/secret.txt",
        "..%2fsecret.txt",
        "..%2f..%2fsecret.txt",
        "%2fetc%2fpasswd",
        "manifest.json",
        "main-AAAA.js.gz",
        "main-AAAA.js/",
        "sub/main-AAAA.js",
        "",
    ],
)
async def test_nothing_but_the_files_of_the_manifest_is_ever_sent(
    service: Service, name: str
) -> None:
    reply = await get(service, f"/assets/{name}")

    assert "not in the" not in reply.text
    if name == "main-AAAA.js/":  # another spelling of the same path
        assert reply.status == 200
    elif not name.startswith(("../", "%2e")):  # those lead to the page itself
        assert reply.status == 404


async def test_only_looking_is_allowed(service: Service) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        reply = await service.request(method, "/console", headers=ADMIN)
        assert reply.status == 405
        assert reply.headers["allow"] == "GET, HEAD, OPTIONS"


async def test_what_caches_keep_has_no_token_in_it(service: Service) -> None:
    ann = render_basic("ann", "secret")
    for path in ("", "/assets/main-AAAA.js"):
        reply = await get(service, path, authorization=ann)
        assert reply.status == 200
        assert not [name for name in reply.headers if name.startswith("auth-token")]
        assert "public" not in reply.headers["cache-control"]
    known = await service.request("GET", "/roles/ann", headers={"authorization": ann})
    assert "auth-token" in known.headers


async def test_the_console_shadows_a_collection_of_its_name(service: Service) -> None:
    """Decision 46."""
    hidden = {"_id": "hidden"}
    service.mongo[service.db]["console"].replace_one(hidden, hidden, upsert=True)

    reply = await service.request("GET", "/console", headers=ADMIN)
    assert reply.text.startswith("<!doctype html>")


async def test_where_nothing_is_built_a_page_says_how_and_finds_it_without_a_restart(
    mongo_client: Mongo, mongo_uri: str, tmp_path: Path
) -> None:
    moved = {"console": {"uri": "/see/it"}}
    async with running(mongo_client, mongo_uri, moved) as service:
        directory = tmp_path / "static"
        point_to(service, directory)
        hint = await service.request("GET", "/see/it")
        assert hint.status == 404
        assert "make console" in hint.text
        assert "default-src 'none'" in hint.headers["content-security-policy"]
        assert (await service.request("GET", "/see/it/assets/main-AAAA.js")).status == 404

        build(directory)
        page = await service.request("GET", "/see/it/ask", headers=NOBODY)
        assert 'src="/see/it/assets/main-AAAA.js"' in page.text
        file = await service.request("GET", "/see/it/assets/main-AAAA.js")
        assert file.status == 200


async def test_the_console_can_be_switched_off(mongo_client: Mongo, mongo_uri: str) -> None:
    off = {"console": {"enabled": False}}
    async with running(mongo_client, mongo_uri, off) as service:
        assert "<!doctype html>" not in (await service.request("GET", "/console")).text
