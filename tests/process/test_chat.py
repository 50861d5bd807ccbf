"""`examples/chat` without a browser: its command, and the requests that its page makes."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import yaml
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Event, Request, TextMessage

from docgraph.rest.properties import check_properties
from docgraph.store import Policy
from tests.process.chat import EXAMPLE, PASSWORDS, PATIENCE, Speaker, run_chat
from tests.process.harness import eventually

STREAM = "/messages/_streams/new?event-ids=true"


class Person(Speaker):
    """Somebody with a browser who also listens."""

    @contextmanager
    def listen(self, by: str, after: str = "") -> Iterator[Any]:
        path = STREAM + (f"&resume-after={quote(after)}" if after else "")
        with closing(HTTPConnection(self.address, timeout=PATIENCE)) as connection:
            yield (SseWindow if by == "sse" else SocketWindow)(connection, path, self.headers)


class SseWindow:
    """What an `EventSource` gets."""

    def __init__(self, connection: HTTPConnection, path: str, headers: dict[str, str]) -> None:
        connection.request("GET", path, headers={**headers, "Accept": "text/event-stream"})
        self._response: HTTPResponse = connection.getresponse()
        assert self._response.status == 200, self._response.read()

    def next(self) -> Any:
        """The next event, or the code and reason of the end."""
        fields: dict[str, str] = {}
        while True:
            line = self._response.readline().decode().rstrip("\n")
            name, _, value = line.partition(":")
            if name:
                fields[name] = value
            elif "data" in fields:
                break
            else:
                fields = {}  # an id alone says where it has begun
        told = json.loads(fields["data"])
        return (told["code"], told["reason"]) if fields["event"] == "close" else told


class SocketWindow:
    """What a `WebSocket` gets."""

    def __init__(self, connection: HTTPConnection, path: str, headers: dict[str, str]) -> None:
        connection.connect()
        self._socket = connection.sock
        self._peer = WSConnection(ConnectionType.CLIENT)
        fields = [(name.encode(), value.encode()) for name, value in headers.items()]
        host = f"{connection.host}:{connection.port}"
        request = Request(host=host, target=path, extra_headers=fields)
        self._socket.sendall(self._peer.send(request))
        self._events: Iterator[Event] = iter(())
        event = self._read()
        assert isinstance(event, AcceptConnection), event

    def next(self) -> Any:
        """The next event, or the code and reason of the end."""
        match self._read():
            case TextMessage(data=data):
                return json.loads(data)
            case CloseConnection(code=code, reason=reason):
                return code, reason
            case other:
                raise AssertionError(other)

    def _read(self) -> Event:
        while (event := next(self._events, None)) is None:
            self._peer.receive_data(self._socket.recv(1 << 16) or None)
            self._events = self._peer.events()
        return event


@pytest.fixture(scope="module")
def url(commands_are_preloaded: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with run_chat(tmp_path_factory.mktemp("chat") / "data") as (_, address):
        person = Person(address, "ada")
        # The collection is made when the database first answers.
        eventually(lambda: _is_there(person))
        yield address


def _is_there(person: Person) -> bool:
    try:
        return bool(person.ask("GET", "/messages") is not None)
    except AssertionError:
        return False


def test_the_page_is_there_without_a_login_and_lets_run_its_own_script_only(url: str) -> None:
    with closing(HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)) as connection:
        connection.request("GET", "/chat")
        answer = connection.getresponse()
        page = answer.read()
    assert page == (EXAMPLE / "page.html").read_bytes()
    assert answer.headers["Content-Type"].startswith("text/html")
    (script,) = re.findall(rb"<script>(.*?)</script>", page, re.DOTALL)
    allowed = b64encode(sha256(script).digest()).decode()
    assert f"script-src 'sha256-{allowed}';" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/messages", "/messages/_size", STREAM])
def test_nothing_is_told_to_who_is_not_logged_in(url: str, path: str) -> None:
    with closing(HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)) as connection:
        connection.request("GET", path, headers={"Accept": "text/event-stream"})
        assert connection.getresponse().status == 401


def test_a_page_of_messages_says_who_and_when(url: str) -> None:
    ada = Person(url, "ada")
    for number in range(6):
        ada.say(f"number {number}")

    page = ada.ask("GET", "/messages?page=1&pagesize=5")

    assert [one["message"] for one in page] == [f"number {number}" for number in (5, 4, 3, 2, 1)]
    assert {one["from"] for one in page} == {"ada"}
    assert all(one["at"]["$date"] for one in page)
    assert ada.ask("GET", "/messages/_size")["_size"] >= 6


@pytest.mark.parametrize("body", [{"message": "hi", "from": "ada"}, {"message": "hi"}])
def test_a_message_is_that_of_the_specification(url: str, body: object) -> None:
    ada = Person(url, "ada")
    ada.ask("POST", "/messages", body, expect=201)

    (stored,) = ada.ask("GET", "/messages?page=1&pagesize=1")
    assert stored.keys() == {"_id", "_etag", "message", "from", "at"}
    assert (stored["message"], stored["from"]) == ("hi", "ada")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"message": "x", "from": "bob"}, "'from' is not your user id"),
        ({"message": "x", "from": None}, "'from' is not your user id"),
        ({"from": "ada"}, "'message' must be a text of 1 to 1000 characters"),
        ({"message": ""}, "'message' must be a text of 1 to 1000 characters"),
        ({"message": ["x"]}, "'message' must be a text of 1 to 1000 characters"),
        ({"message": "x" * 6000}, "'message' must be a text of 1 to 1000 characters"),
        ({"message": "x" * 1_000_000}, "'message' must be a text of 1 to 1000 characters"),
        ({"message": "x" * 1001}, "'message' must be a text of 1 to 1000 characters"),
        ({"message": "x", "_id": "another's"}, "send one object with the properties"),
        ({"message": "x", "$set": {"from": "bob"}}, "send one object with the properties"),
        ([{"message": "x", "from": "bob"}], "send one object with the properties"),
    ],
)
def test_a_message_that_is_refused_is_told_why(url: str, body: object, why: str) -> None:
    """No user speaks for another, changes a message, or goes on for too long."""
    told = Person(url, "ada").ask("POST", "/messages", body, expect=400)

    assert why in told["message"]


def test_a_form_is_refused_with_the_type_that_is_accepted(url: str) -> None:
    form = Person(url, "ada")
    told = form.ask("POST", "/messages", b"message=hello&from=ada", expect=400)

    assert "as JSON, not as a form" in told["message"]


def test_a_message_cannot_be_sent_around_the_check(url: str) -> None:
    ada = Person(url, "ada")
    ada.ask("POST", "/messages?wm=update", {"message": "x"}, expect=403)
    for path in ("/messages/", "//messages", "/%6dessages"):
        ada.ask("POST", path, {"message": "x", "from": "bob"}, expect=400)


def test_the_length_of_a_message_is_counted_in_characters(url: str) -> None:
    ada = Person(url, "ada")
    ada.say("\U0001f600" * 1000)  # 12 000 bytes of JSON

    assert ada.ask("GET", "/messages?page=1&pagesize=1")[0]["message"] == "\U0001f600" * 1000


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_messages_stay_as_they_are(url: str, method: str) -> None:
    Person(url, "ada").ask(method, "/messages/some", {}, expect=403)


def test_two_windows_see_what_both_say_in_order(url: str) -> None:
    ada, bob = Person(url, "ada"), Person(url, "bob")
    with ada.listen("websocket") as first, bob.listen("sse") as second:
        ada.say("hello bob")
        bob.say("hello ada")
        seen = [[window.next() for _ in range(2)] for window in (first, second)]
    assert seen[0] == seen[1]
    told = [(one["fullDocument"]["from"], one["fullDocument"]["message"]) for one in seen[0]]
    assert told == [("ada", "hello bob"), ("bob", "hello ada")]


@pytest.mark.parametrize("by", ["websocket", "sse"])
def test_a_window_that_comes_back_is_told_what_it_missed(url: str, by: str) -> None:
    ada, bob = Person(url, "ada"), Person(url, "bob")
    with ada.listen(by) as window:
        bob.say("the last one that ada sees")
        last = window.next()["_id"]["_data"]
    for number in range(7):
        bob.say(f"missed {number}")
    with ada.listen(by, after=last) as window:
        missed = [window.next()["fullDocument"]["message"] for _ in range(7)]
    assert missed == [f"missed {number}" for number in range(7)]


@pytest.mark.parametrize("by", ["websocket", "sse"])
def test_a_logout_ends_the_streams_of_that_login(url: str, by: str) -> None:
    ada = Person(url, "ada")
    with ada.listen(by) as window:
        ada.ask("POST", "/logout")
        assert window.next() == (1008, "the credentials are no longer valid")


def test_a_page_of_another_site_opens_no_stream(url: str) -> None:
    ada = Person(url, "ada")
    ada.headers |= {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
    ada.ask("GET", STREAM, expect=403, Accept="text/event-stream")


def test_the_properties_of_the_collection_would_be_accepted_by_the_rest_api() -> None:
    properties = json.loads((EXAMPLE / "messages.json").read_text())
    check_properties(properties, db="docgraph", policy=Policy(), of_collection=True)


def test_the_passwords_are_those_of_the_users() -> None:
    users = yaml.safe_load((EXAMPLE / "users.yml").read_text())["users"]
    assert {one["userid"]: one["password"] for one in users} == PASSWORDS
