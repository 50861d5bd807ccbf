"""Plugins of a directory on a server that is a process of its own, over a real connection."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tests.databases import drop
from tests.process.commands import ROOT
from tests.process.harness import Server, eventually, request, run_server, start

PAGE = ROOT / "docs" / "how-to" / "write-a-plugin.md"
ODD = """
import threading
from docgraph import Body, Service

class Text(Service):
    name = "text"
    uri = "/text"
    secured = False

    async def handle(self, exchange):
        return Body(content="text")

class Thread(Service):
    name = "thread"
    uri = "/thread"
    secured = False

    def handle(self, exchange):
        return Body(content=threading.current_thread().name.encode(), media_type="text/plain")
"""


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, mongo_uri: str, mongo_client: MongoClient[Any]
) -> Iterator[Server]:
    """With the examples of the page, and some that are odd."""
    directory = tmp_path_factory.mktemp("plugins")
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    for number, code in enumerate((*examples, ODD)):
        (directory / f"example_{number}.py").write_text(code, encoding="utf-8")
    settings = {
        "core": {"plugins-directory": str(directory)},
        "mclient": {"connection-string": mongo_uri},
        "fullAuthorizer": {"enabled": True, "authentication-required": False},
        "rndTokenManager": {"enabled": False},
        "text": {"uri": "/moved"},
    }
    with run_server(settings) as one:
        yield one
    for name in ("shop", "docgraph"):
        drop(mongo_client, name)


def test_the_examples_of_the_page_are_served(server: Server) -> None:
    body = gzip.compress(b'{"in": "gzip"}')
    with server.connect() as wire:
        put = request(
            "PUT", "/shelf/a", body, content_type="application/json", content_encoding="gzip"
        )
        wire.send(put)
        assert wire.read().status == 201
        kept = wire.get("/shelf/a")
        assert kept.json == {"in": "gzip"}
        assert wire.get("/price/tea").body == b"3"
        assert {name.lower() for name, _ in kept.headers} >= {"x-milliseconds"}


def test_a_plain_function_answers_from_a_thread(server: Server) -> None:
    assert server.get("/thread").body.startswith(b"docgraph-blocking")


def test_a_body_that_is_text_is_a_500_with_its_reason_in_the_log(server: Server) -> None:
    """At the uri of its section; the connection goes on."""
    with server.connect() as wire:
        assert wire.get("/moved").status == 500
        assert wire.get("/price/tea").status == 200
    (failed,) = eventually(lambda: server.named("request-failed"))
    assert "the service 'text' returned a Body whose content is a str" in str(failed)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            "class A(Service):\n    name = 'a'\n    async def handle(self, e): ...\n",
            "docgraph: the service 'a' from .*a.py has no `uri`",
        ),
        (
            "class A(Service):\n    uri = '/a'\n    async def handle(self, e): ...\n",
            "docgraph: the class A from .*a.py is a plugin .service. without a `name`",
        ),
        (
            "class A(Service):\n    name, uri = 'a', '/a'\n",
            "docgraph: the service 'a' from .*a.py has no method `handle`",
        ),
    ],
)
def test_what_cannot_work_is_one_clear_line_and_no_start(
    tmp_path: Path, code: str, told: str
) -> None:
    (tmp_path / "a.py").write_text(f"from docgraph import Service\n{code}")
    process = start({"core": {"plugins-directory": str(tmp_path)}, "http-listener": {"port": 0}})
    output, errors = process.communicate()
    assert (process.returncode, output) == (1, "")
    assert re.search(told, errors), errors
    assert "Traceback" not in errors
