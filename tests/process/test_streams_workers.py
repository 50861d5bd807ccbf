"""Change streams over real processes, to real clients: two workers that tell the same."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import psutil
import pytest
from pymongo import MongoClient
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.databases import drop, new_name
from tests.process.harness import Server, Wire, eventually, request, run_server
from tests.programs import require

pytestmark = [pytest.mark.usefixtures("preloaded")]

STREAMS = {"streams": [{"uri": "all", "stages": []}]}
PATIENCE = 60.0

Mongo = MongoClient[dict[str, Any]]


@contextmanager
def serving(mongo: Mongo, uri: str, **more: Any) -> Iterator[tuple[Server, Any]]:
    """Two workers, and the database that is at `/data`."""
    db = new_name()
    settings = {
        "mclient": {"connection-string": uri},
        "sample": {"enabled": False},
        "mongo": {"enabled": True, "mongo-mounts": [{"what": f"/{db}", "where": "/data"}]},
        "fullAuthorizer": {"enabled": True, "authentication-required": False},
        **more,
    }
    mongo[db].create_collection("things")
    try:
        with run_server(settings, workers=2) as server:
            eventually(lambda: put(server, "/data/things", STREAMS).status == 200)
            yield server, mongo[db]["things"]
    finally:
        drop(mongo, db)


@pytest.fixture(scope="module")
def shared(mongo_client: Mongo, mongo_uri: str) -> Iterator[tuple[Server, Any]]:
    """A server that no test stops."""
    with serving(mongo_client, mongo_uri) as both:
        yield both


def put(server: Server, path: str, body: Any, wire: Wire | None = None) -> Any:
    with server.connect() as own:
        chosen = wire or own
        content = json.dumps(body).encode()
        chosen.send(request("PUT", path, content, content_type="application/json"))
        return chosen.read()


def address(server: Server, **parameters: Any) -> str:
    query = "&".join(f"{name}={quote(value)}" for name, value in parameters.items())
    return f"ws://127.0.0.1:{server.port}/data/things/_streams/all?event-ids=true&{query}"


def listening(url: str) -> ClientConnection:
    return connect(url, open_timeout=PATIENCE, max_size=None, max_queue=None)


def worker_of(server: Server, connection: Any) -> psutil.Process:
    """The process at the other end."""
    port = connection.getsockname()[1]
    for worker in server.workers():
        if any(one.raddr and one.raddr.port == port for one in worker.net_connections("tcp")):
            return worker
    raise AssertionError("no worker has this connection")


@contextmanager
def one_per_worker(server: Server, open: Callable[[], Any], find: Callable[[Any], Any]) -> Any:
    """Connections, each to another worker."""
    with ExitStack() as stack:
        found: dict[int, Any] = {}

        def look() -> bool:
            one = stack.enter_context(open())
            found.setdefault(worker_of(server, find(one)).pid, one)
            return len(found) == 2

        eventually(look)
        yield found


def listeners(server: Server) -> Any:
    return one_per_worker(server, lambda: listening(address(server)), lambda one: one.socket)


def take(client: ClientConnection, count: int) -> list[Any]:
    return [json.loads(client.recv(timeout=PATIENCE)) for _ in range(count)]


def wait_closed(client: ClientConnection) -> tuple[int, str]:
    """How the server ended it."""
    try:
        while True:
            client.recv(timeout=PATIENCE)
    except ConnectionClosed as closed:
        if closed.rcvd is None:
            raise
        return closed.rcvd.code, closed.rcvd.reason


def test_clients_of_both_workers_get_the_same(shared: tuple[Server, Any]) -> None:
    server, things = shared
    with listeners(server) as clients:
        things.insert_many([{"n": number} for number in range(100)])
        one, other = (take(client, 100) for client in clients.values())
    assert one == other
    assert [event["fullDocument"]["n"] for event in one] == list(range(100))


def test_a_definition_changed_through_one_worker_closes_the_streams_of_both(
    shared: tuple[Server, Any],
) -> None:
    server, _ = shared
    other = {"streams": [{"uri": "all", "stages": [{"$match": {"x": {"$ne": uuid4().hex}}}]}]}
    with listeners(server) as clients:
        assert put(server, "/data/things", other).status == 200
        endings = [wait_closed(client) for client in clients.values()]
    assert endings == [(4000, "the stream was changed, connect again")] * 2


def test_shutdown_closes_web_sockets_with_1012(mongo_client: Mongo, mongo_uri: str) -> None:
    with serving(mongo_client, mongo_uri) as (server, _), listeners(server) as clients:
        assert server.stop() == 0
        assert {wait_closed(client)[0] for client in clients.values()} == {1012}


def test_shutdown_ends_server_sent_events_with_their_reason_and_the_end_of_the_body(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    with serving(mongo_client, mongo_uri) as (server, _):
        connection = HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        with closing(connection):
            headers = {"Accept": "text/event-stream"}
            connection.request("GET", "/data/things/_streams/all", headers=headers)
            response = connection.getresponse()
            assert response.readline().startswith(b"retry:")
            assert server.stop() == 0
            *_, kind, data, end = response.read().split(b"\n")[:-1]  # IncompleteRead if it is cut
    assert (kind, end) == (b"event:close", b"")
    assert json.loads(data.removeprefix(b"data:"))["code"] == 1012


def test_clients_of_a_worker_that_was_killed_come_back_and_miss_nothing(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    with serving(mongo_client, mongo_uri) as (server, things), listeners(server) as clients:
        lost, stays = clients
        things.insert_one({"n": 0})
        (first,), _ = take(clients[lost], 1), take(clients[stays], 1)
        psutil.Process(lost).kill()
        with pytest.raises(ConnectionClosed):
            clients[lost].recv(timeout=PATIENCE)
        things.insert_many([{"n": 1}, {"n": 2}])
        token = json.dumps(first["_id"])
        with listening(address(server, **{"resume-after": token})) as again:
            things.insert_one({"n": 3})
            events = take(again, 3)
        assert events == take(clients[stays], 3)
    assert [event["fullDocument"]["n"] for event in events] == [1, 2, 3]


def test_curl_shows_events(shared: tuple[Server, Any]) -> None:
    require("curl")
    server, things = shared
    url = f"http://127.0.0.1:{server.port}/data/things/_streams/all"
    command = [shutil.which("curl") or "", "-sSNi", "-H", "Accept: text/event-stream", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as curl:
        assert curl.stdout is not None
        try:
            head = list(iter(curl.stdout.readline, "\n"))
            opening = [curl.stdout.readline() for _ in range(3)]
            things.insert_one({"_id": "curled"})
            lines = [curl.stdout.readline().rstrip("\n") for _ in range(4)]
        finally:
            curl.kill()
    assert head[0].startswith("HTTP/1.1 200")
    id, kind, data, end = lines
    assert 1000 <= int(opening[0].removeprefix("retry:")) <= 5000
    assert opening[1].startswith('id:{"_data":"82')  # the place where it has begun
    assert opening[2] == "\n"
    assert id.startswith('id:{"_data":"82')
    assert (kind, end) == ("event:change", "")
    assert json.loads(data.removeprefix("data:"))["documentKey"] == {"_id": "curled"}


def test_workers_share_the_cursors_of_the_instance(mongo_client: Mongo, mongo_uri: str) -> None:
    """However the connections are divided among them, the last cursor can be opened."""
    with ExitStack() as stack:
        most = {"max-cursors": 6}
        server, _ = stack.enter_context(serving(mongo_client, mongo_uri, events=most))
        match = [{"uri": f"is{n}", "stages": [{"$match": {"fullDocument.n": n}}]} for n in range(7)]
        assert put(server, "/data/things", {"streams": match}).status == 200
        urls = [address(server).replace("/all?", f"/is{n}?") for n in range(7)]
        for url in urls[:6]:
            stack.enter_context(listening(url))
        with pytest.raises(InvalidStatus) as refused:
            listening(urls[6])
        assert refused.value.response.status_code == 503
