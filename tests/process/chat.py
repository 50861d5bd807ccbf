"""The chat of `examples/chat`, started by its one command, on a port and data of its own."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.process.commands import ROOT, Process, start

__all__ = ["EXAMPLE", "PASSWORDS", "PATIENCE", "Speaker", "run_chat"]

EXAMPLE = ROOT / "examples/chat"
PASSWORDS = {"ada": "lovelace", "bob": "babbage"}
PATIENCE = 60


class Speaker:
    """Somebody with a browser: a cookie, and requests as the page makes them."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self.address = urlsplit(url).netloc
        self.headers = {"Origin": url, "Sec-Fetch-Site": "same-origin"}
        credentials = b64encode(f"{name}:{PASSWORDS[name]}".encode()).decode()
        answer = self.ask(
            "GET", f"/roles/{name}?set-auth-cookie", Authorization=f"Basic {credentials}"
        )
        self.headers["Cookie"] = answer["cookie"].partition(";")[0]

    def ask(
        self, method: str, path: str, body: object = None, *, expect: int = 200, **headers: str
    ) -> Any:
        fields = {**self.headers, **headers}
        content: str | bytes | None = None
        if isinstance(body, bytes):
            content, fields["Content-Type"] = body, "application/x-www-form-urlencoded"
        elif body is not None:
            content, fields["Content-Type"] = json.dumps(body), "application/json"
        with closing(HTTPConnection(self.address, timeout=PATIENCE)) as connection:
            connection.request(method, path, content, fields)
            answer = connection.getresponse()
            text = answer.read()
        assert answer.status == expect, text
        if "Set-Cookie" in answer.headers:
            return {"cookie": answer.headers["Set-Cookie"]}
        return json.loads(text) if text else None

    def say(self, text: str) -> None:
        self.ask("POST", "/messages", {"message": text, "from": self.name}, expect=201)


@contextmanager
def run_chat(directory: Path, port: int = 0, *more: str) -> Iterator[tuple[Process, str]]:
    """The server and its address; killed at the end if it still runs."""
    settings = (
        f"/core/data-directory={directory}",
        f"/http-listener/port={port}",
        "/logging/level=error",
        *more,
    )
    options = [f"--set={one}" for one in settings]
    process = start("serve", "--config", str(EXAMPLE / "docgraph.yml"), *options)
    try:
        line = process.stdout.readline()
        assert line.startswith("docgraph ready http://127.0.0.1:"), process.communicate()
        yield process, line.split()[2]
    finally:
        process.terminate()  # lets it stop its MongoDB
        process.communicate()
