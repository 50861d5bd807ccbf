"""The REST API over real connections: a client's day, and clients that break off."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import httpx2
import pytest

from tests.databases import drop, new_name
from tests.http.harness import Mongo
from tests.process.harness import eventually
from tests.process.test_serve import serving


@pytest.fixture(scope="module")
def address(
    mongo_client: Mongo, mongo_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A server of two workers, with a database of its own at `/`."""
    db = new_name()
    settings = (
        f"/mclient/connection-string={mongo_uri}",
        f'/mongo/mongo-mounts=[{{"what":"/{db}","where":"/"}}]',
        f"/graphql/db={db}",
        "/dbRealmAuthenticator/enabled=false",
        "/basicAuthMechanism/enabled=false",
        "/dbAclAuthorizer/enabled=false",
        "/core/workers=2",
        "/logging/level=error",
    )
    directory: Path = tmp_path_factory.mktemp("server")
    with serving(directory, *settings) as (_, url):
        yield url
    drop(mongo_client, db)


@pytest.fixture
def client(address: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=address, timeout=60) as one:
        yield one


@pytest.fixture
def collection(client: httpx2.Client) -> str:
    """A collection of the test's own; every worker serves it at once."""
    name = f"c{uuid4().hex[:8]}"
    assert client.put(f"/{name}").status_code == 201
    return f"/{name}"


def test_a_days_work(client: httpx2.Client, collection: str) -> None:
    documents = [{"_id": index, "n": index % 7} for index in range(250)]
    made = client.post(collection, json=documents)
    assert (made.status_code, made.json()["inserted"]) == (200, 250)

    seen, path = [], f"{collection}?sort=n&pagesize=40&after="
    while path:
        page = client.get(path)
        assert page.status_code == 200
        seen += [one["_id"] for one in page.json()]
        link = re.fullmatch(r'<(.+)>; rel="next"', page.headers.get("link", ""))
        path = link[1] if link else ""
    assert sorted(seen) == list(range(250))

    place = f"{collection}/7?id_type=NUMBER"
    etag = client.get(place).headers["etag"]
    assert client.get(place, headers={"If-None-Match": etag}).status_code == 304
    assert client.patch(place, json={"$inc": {"n": 1}}, headers={"If-Match": etag}).is_success
    assert client.patch(place, json={"n": 0}, headers={"If-Match": etag}).status_code == 412

    every = {"filter": '{"n":{"$lte":3}}'}
    changed = client.patch(f"{collection}/*", params=every, json={"low": True}).json()
    removed = client.delete(f"{collection}/*", params=every).json()
    assert removed["deleted"] == changed["matched"]
    assert client.get(f"{collection}/_size").json() == {"_size": 250 - removed["deleted"]}

    etag = client.get(collection).headers["etag"]
    assert client.delete(collection, headers={"If-Match": etag}).status_code == 204
    assert client.get(collection).status_code == 404


def test_of_many_writers_with_one_etag_one_wins_each_round(
    client: httpx2.Client, collection: str
) -> None:
    place, rounds, rivals = f"{collection}/shared", 15, 16
    etag = client.put(f"{place}?wm=upsert", json={"n": 0}).headers["etag"]

    def write(etag: str) -> int:
        headers = {"If-Match": etag}
        return client.patch(place, json={"$inc": {"n": 1}}, headers=headers).status_code

    with ThreadPoolExecutor(8) as pool:
        for _ in range(rounds):
            statuses = list(pool.map(write, [etag] * rivals))
            assert sorted(set(statuses)) == [200, 412]
            assert statuses.count(200) == 1
            etag = client.get(place).headers["etag"]

    assert client.get(place).json()["n"] == rounds


def break_off(address: str, path: str, body: bytes, sent: int) -> None:
    """Send a part of a bulk write and go away."""
    parts = urlsplit(address)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    with socket.create_connection((parts.hostname, parts.port)) as connection:
        connection.sendall(head + body[:sent])


@pytest.mark.parametrize("part", [0.1, 0.5, 0.999])
def test_half_a_bulk_write_writes_nothing(
    address: str, client: httpx2.Client, collection: str, part: float
) -> None:
    body = json.dumps([{"_id": index, "pad": "x" * 100} for index in range(5000)]).encode()

    break_off(address, collection, body, int(len(body) * part))

    assert client.get("/ping").status_code == 200
    assert client.get(f"{collection}/_size").json() == {"_size": 0}


def test_who_leaves_after_a_bulk_write_can_ask_what_came_of_it(
    address: str, client: httpx2.Client, collection: str
) -> None:
    body = json.dumps([{"_id": index, "pad": "x" * 100} for index in range(5000)]).encode()
    finished = count_posts(client)

    break_off(address, collection, body, len(body))

    eventually(lambda: count_posts(client) > finished)
    # Whatever was done before the client was missed: whole documents, counted right.
    settled = settle(lambda: client.get(f"{collection}/_size").json()["_size"])
    listed = client.get(collection, params={"pagesize": 1, "count": ""})
    assert listed.headers["x-total-count"] == str(settled)
    headers = {"Content-Type": "application/json"}
    again = client.post(collection, params={"wm": "upsert"}, content=body, headers=headers)
    assert again.status_code == 200
    assert (again.json()["matched"], again.json()["inserted"]) == (settled, 5000 - settled)


def count_posts(client: httpx2.Client) -> float:
    """How many of them are over, whether answered or given up."""
    lines = client.get("/metrics").text.splitlines()
    mine = [line for line in lines if line.startswith('docgraph_http_requests_total{method="POST"')]
    return sum(float(line.rsplit(" ", 1)[1]) for line in mine)


def settle(count: Callable[[], int]) -> int:
    """The number once it has been the same for a while: a write may outlive its request."""
    latest: list[int] = []

    def is_still() -> bool:
        latest.append(count())
        return len(latest) >= 30 and len(set(latest[-30:])) == 1

    eventually(is_still)
    return latest[-1]
