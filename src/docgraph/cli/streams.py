"""`docgraph streams tail`: the events of a change stream in a terminal, as clients get them.

It reads from a running server, by server-sent events, so it shows what its user may see. When the
connection breaks, it resumes after the last printed event.
"""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Generator, Iterable, Iterator
from datetime import datetime
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import click

from docgraph.cli.options import SECRET_FILE, password_file_option, read_secret
from docgraph.cli.terminal import escape_unprintable, notice
from docgraph.exchange import StartupError
from docgraph.runtime.backoff import GrowingPauses

_LONGEST_SILENCE: Final = 90.0  # seconds; a server sends a comment every 20 s
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 10.0
_EVENTS: Final = "text/event-stream"
_PASSING: Final = (408, 429, 500, 502, 503, 504)
_MAX_BYTES: Final = 100_000  # of a response that is not a stream


@click.group()
def streams() -> None:
    """Follow the change streams of collections."""


@streams.command()
@click.argument("stream", metavar="COLLECTION/URI")
@click.option(
    "--url", default="http://127.0.0.1:8080", show_default=True, help="Address of the server."
)
@click.option("-u", "--user", help="Log in as this user; the password is asked for.")
@password_file_option
@click.option(
    "--token-file", type=SECRET_FILE, help="Send the JWT in the first line of a file; - for stdin."
)
@click.option(
    "--query",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="""A parameter of the request, such as 'avars={"room": "blue"}'.""",
)
@click.option("--resume-after", metavar="ID", help="Begin after the event with this id.")
@click.option("--json", "as_json", is_flag=True, help="One line of JSON for each event.")
def tail(  # noqa: PLR0913 - one for each option
    *,
    stream: str,
    url: str,
    user: str | None,
    password_file: Path | None,
    token_file: Path | None,
    parameters: tuple[str, ...],
    resume_after: str | None,
    as_json: bool,
) -> None:
    """Print the events of a change stream as they happen, until Ctrl-C.

    messages/new is the stream at /messages/_streams/new. The command connects to a running server.
    With --json each event has its id, for --resume-after.
    """
    try:
        address = urlsplit(url)
        is_usable = address.scheme in ("http", "https") and address.hostname and address.port != 0
    except ValueError:  # also a port that is not a number
        is_usable = None
    if not is_usable:
        raise click.BadParameter("give http://… or https://…", param_hint="--url")
    path = _build_path(stream, parameters)
    headers = _authorize(user, password_file, token_file)
    last = _check_header(resume_after or "", "--resume-after")
    follower = _Follower(address, path, headers, last)
    try:
        for data in follower.follow():
            click.echo(_render(data, as_json=as_json))
    except KeyboardInterrupt:
        return


def _build_path(stream: str, parameters: tuple[str, ...]) -> str:
    """Return the path and query of `collection/uri`; the collection may contain slashes."""
    collection, _, uri = stream.strip("/").rpartition("/")
    if not collection:
        raise click.BadParameter(
            "name the collection and the stream, such as messages/new", param_hint="COLLECTION/URI"
        )
    pairs = [("event-ids", "true")]
    for parameter in parameters:
        name, equals, value = parameter.partition("=")
        if not equals:
            raise click.BadParameter(f"'{parameter}' is not NAME=VALUE", param_hint="--query")
        pairs.append((name, value))
    return f"/{quote(collection)}/_streams/{quote(uri, safe='')}?{urlencode(pairs)}"


def _authorize(
    user: str | None, password_file: Path | None, token_file: Path | None
) -> dict[str, str]:
    if user is not None and token_file is not None:
        raise click.UsageError("give --user or --token-file, not both")
    if user is None and password_file is not None:
        raise click.UsageError("--user says whose password it is")
    if token_file is not None:
        token = _check_header(read_secret(token_file, "token"), "--token-file")
        return {"Authorization": f"Bearer {token}"}
    if user is None:
        return {}
    credentials = f"{user}:{read_secret(password_file)}".encode()
    return {"Authorization": f"Basic {b64encode(credentials).decode()}"}


def _check_header(value: str, option: str) -> str:
    """Return the value, if a header can contain it."""
    if not (value.isascii() and value.isprintable()):
        raise click.BadParameter("it holds characters that it cannot have", param_hint=option)
    return value.strip()


class _Follower:
    """Reads a stream, and reconnects when it breaks."""

    def __init__(
        self, address: SplitResult, path: str, authorization: dict[str, str], last: str
    ) -> None:
        connect = HTTPSConnection if address.scheme == "https" else HTTPConnection
        self._url = address.geturl()
        self._connection: HTTPConnection = connect(
            address.hostname or "", address.port, timeout=_LONGEST_SILENCE
        )
        self._path = f"{address.path.rstrip('/')}{path}"
        self._headers = {"Accept": _EVENTS, **authorization}
        self._last = last
        self._was_open = False
        self._pauses = GrowingPauses(_FIRST_PAUSE, _LONGEST_PAUSE, least=1)

    def follow(self) -> Iterator[str]:
        """Yield the JSON of events, forever; raise `StartupError` if the server rejects it."""
        while True:
            try:
                reason = yield from self._follow_once()
            except (OSError, HTTPException) as error:
                if not self._was_open:
                    raise StartupError(
                        f"{self._url} does not answer: {error}", hint="--url says where it is"
                    ) from error
                reason = str(error) or type(error).__name__
            finally:
                self._connection.close()
            since = "" if self._last else "; what happens meanwhile is not shown"
            notice(f"the stream has ended ({reason}), connecting again{since}")
            time.sleep(next(self._pauses))

    def _follow_once(self) -> Generator[str, None, str]:
        """Yield the events of one connection; return why it ended."""
        headers = {**self._headers, **({"Last-Event-ID": self._last} if self._last else {})}
        self._connection.request("GET", self._path, headers=headers)
        response = self._connection.getresponse()
        if response.status != HTTPStatus.OK or _EVENTS not in (
            response.headers["Content-Type"] or ""
        ):
            return self._explain(response)
        self._was_open = True
        reason = "the server has closed the connection"
        for fields in _read_events(response):
            self._pauses.reset()
            self._last = fields.get("id") or self._last
            if fields.get("event") == "close":
                reason = json.loads(fields["data"])["reason"]
            elif "data" in fields:
                yield fields["data"]
        return reason

    def _explain(self, response: HTTPResponse) -> str:
        """Return why there is no stream; raise `StartupError` if a retry is useless."""
        error = _read_error(response)
        if self._was_open and error.get("code") == "resume-point-lost":
            notice("the server does not know the last event any more: some are missing here")
            self._last = ""
            return "it begins again"
        message = error.get("message") or f"status {response.status}"
        if self._was_open and response.status in _PASSING:
            return str(message)
        raise StartupError(
            f"the server refuses: {message}", hint=error.get("hint") or _HINTS.get(response.status)
        )


_HINTS: Final = {
    200: "is there a change stream at this address?",
    401: "--user or --token-file says who you are",
    403: "the rules of the server do not let you see this stream",
}


def _read_error(response: HTTPResponse) -> dict[str, Any]:
    try:
        content = json.loads(response.read(_MAX_BYTES))
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _read_events(lines: Iterable[bytes]) -> Iterator[dict[str, str]]:
    """Yield the fields of each event; comments are skipped."""
    fields: dict[str, str] = {}
    for line in lines:
        text = line.decode().rstrip("\r\n")
        name, _, value = text.partition(":")
        if name:
            fields[name] = value.removeprefix(" ")
        elif not text and fields:
            yield fields
            fields = {}


def _render(data: str, *, as_json: bool) -> str:
    """Return the event in one line, for programs or for people."""
    line = data if as_json else _summarise(data)
    # In JSON only strings can contain such characters, and there the escape means the same.
    return escape_unprintable(line, lambda char: json.dumps(char)[1:-1])


def _summarise(data: str) -> str:
    """Return when, what, which document, and its content or changes."""
    try:
        event = json.loads(data)
    except ValueError:  # the mode `shell` is not JSON
        return data
    words = [_find_time(event), str(event.get("operationType"))]
    for part in (
        event.get("documentKey", {}).get("_id"),
        event.get("updateDescription") or event.get("fullDocument"),
    ):
        if part is not None:
            words.append(json.dumps(part, ensure_ascii=False, separators=(",", ":")))
    return "  ".join(words)


def _find_time(event: dict[str, Any]) -> str:
    """Return the time of the event, by the clock of the database, in the local time zone."""
    match event.get("clusterTime"):
        case {"$timestamp": {"t": int(seconds)}}:
            return datetime.fromtimestamp(seconds).strftime("%H:%M:%S")
    return "--:--:--"
