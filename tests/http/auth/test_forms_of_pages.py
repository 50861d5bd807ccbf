"""Forms to the REST API: judged by the page that sends them, as the cookie is (decision 30)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import pytest

from tests.databases import new_name
from tests.http.auth.test_cookies import FOREIGN_PAGES, OWN_PAGES
from tests.http.harness import Mongo, merge
from tests.http.tokens import OPTION_SETS, Worker, anew, open_workers, sharing_workers

pytestmark = pytest.mark.anyio

LISTED = {"cors": {"allow-origins": ["https://app.example.org"]}}
LISTED_PAGES: list[dict[str, str]] = [
    {"origin": "https://app.example.org", "sec_fetch_site": "cross-site"},
    {"origin": "HTTPS://App.Example.ORG:443"},
]
PROXY = {"core": {"trusted-proxies": ["127.0.0.1"]}}
PASSWORD = {"authorization": f"Basic {b64encode(b'ada:secret').decode()}"}
MULTIPART = b'--x\r\nContent-Disposition: form-data; name="n"\r\n\r\n1\r\n--x--\r\n'
BODIES = {
    "application/x-www-form-urlencoded": b"n=1",
    "multipart/form-data; boundary=x": MULTIPART,
    "": b'{"n": 1}',
}


def mount(database: str) -> dict[str, Any]:
    return {"mongo": {"mongo-mounts": [{"what": f"/{database}", "where": "/"}]}}


@pytest.fixture(scope="module", params=[1, 2, 3], ids=["set 1", "set 2", "set 3"])
def shared_workers(
    request: pytest.FixtureRequest, mongo_client: Mongo, mongo_uri: str
) -> Iterator[Sequence[Worker]]:
    db = new_name()
    settings = merge(OPTION_SETS[request.param], mount(db), LISTED)
    mongo_client[db].create_collection("box")
    with sharing_workers(mongo_client, mongo_uri, settings, db=db) as shared:
        yield shared


@pytest.fixture
async def worker(shared_workers: Sequence[Worker], mongo_client: Mongo) -> Worker:
    (worker,) = await anew(shared_workers)
    mongo_client[worker.db]["box"].delete_many({})
    return worker


async def log_in(worker: Worker) -> dict[str, str]:
    reply = await worker.ask("/roles/ada?set-auth-cookie", login="ada:secret")
    return {"cookie": reply.headers["set-cookie"].partition(";")[0]}


async def send(worker: Worker, kind: str, headers: Mapping[str, str]) -> int:
    """The status of a form to `/box`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    typed = {"content-type": kind} if kind else {}
    reply = await worker.send("POST", "/box", content=BODIES[kind], headers={**named, **typed})
    return reply.status_code


def callers(cookie: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """What one and the same caller is known by."""
    yield {**cookie}
    yield {"cookie": f"theme=dark; {cookie['cookie']}"}
    yield PASSWORD
    yield {**PASSWORD, "cookie": "theme=dark"}


async def test_our_own_pages_and_those_on_the_list_send_forms(
    worker: Worker, mongo_client: Mongo
) -> None:
    known = list(callers(await log_in(worker)))
    sent = list(product([*OWN_PAGES, *LISTED_PAGES], known, BODIES))
    for page, caller, kind in sent:
        assert await send(worker, kind, {**page, **caller}) == 201, (page, caller, kind)
    stored = mongo_client[worker.db]["box"].find({}, {"_id": 0, "_etag": 0})
    assert list(stored) == [{"n": 1}] * len(sent)


async def test_a_foreign_page_sends_none_whatever_the_victim_is_known_by(
    worker: Worker, mongo_client: Mongo
) -> None:
    for page, caller, kind in product(FOREIGN_PAGES, callers(await log_in(worker)), BODIES):
        status = 415 if "authorization" in caller else 403
        assert await send(worker, kind, {**page, **caller}) == status, (page, caller, kind)
    assert mongo_client[worker.db]["box"].count_documents({}) == 0


async def test_a_program_sends_forms_with_a_header_and_not_with_the_cookie(worker: Worker) -> None:
    for caller, kind in product(callers(await log_in(worker)), BODIES):
        status = 201 if "authorization" in caller else 403
        assert await send(worker, kind, caller) == status, (caller, kind)


async def test_where_nobody_is_asked_for_a_cookie_of_a_program_might_be_what_it_is_known_by(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """Rules and plugins can go by cookies, too."""
    nobody = {"fullAuthorizer": {"enabled": True, "authentication-required": False}}
    mongo_client[database].create_collection("box")
    settings = merge(OPTION_SETS[3], mount(database), nobody)
    async with open_workers(mongo_client, mongo_uri, database, settings) as (worker,):
        for kind in BODIES:
            assert await send(worker, kind, {}) == 201
            assert await send(worker, kind, {"cookie": "session=x"}) == 415
            for page in OWN_PAGES:
                assert await send(worker, kind, {**page, "cookie": "session=x"}) == 201
                assert await send(worker, kind, page) == 201
            for page in FOREIGN_PAGES:
                assert await send(worker, kind, page) == 415


async def test_behind_a_trusted_proxy_our_page_is_that_of_the_forwarded_host(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    forwarded = {"x_forwarded_proto": "https", "x_forwarded_host": "www.example.org"}
    mongo_client[database].create_collection("box")
    settings = merge(OPTION_SETS[3], mount(database))
    for trusted in (True, False):
        proxy = PROXY if trusted else {}
        async with open_workers(mongo_client, mongo_uri, database, settings, proxy) as (worker,):
            cookie = await log_in(worker)
            for origin, is_ours in (
                ("https://www.example.org", trusted),
                ("HTTPS://WWW.example.org:443", trusted),
                ("http://www.example.org", False),
                ("http://test", not trusted),
            ):
                page = {"origin": origin, **forwarded}
                for caller, refused in ((cookie, 403), (PASSWORD, 415)):
                    for kind in BODIES:
                        expected = 201 if is_ours else refused
                        status = await send(worker, kind, {**page, **caller})
                        assert status == expected, (trusted, origin, kind)
