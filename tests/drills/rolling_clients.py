"""Clients that read and write through a proxy, and repeat what a client may repeat.

A read may be repeated after any failure. A write may be repeated where nothing was done: the
connection could not be made, or the answer is 503 (the proxy has not sent it, or docgraph has not
begun). A write that says which document it makes may always be repeated. After any other end of a
write its outcome is unknown: nobody repeats it, and the drill looks afterwards what became of it.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

__all__ = ["Account", "Clients", "Reply"]

_LONGEST_TRIES = 100
_PAUSE, _PAUSE_OF_A_RETRY = 0.04, 0.1
_UNSENT = (503,)
_BROKEN = (502, 503, 504)


@dataclass
class Reply:
    """What came back; status 0 where the connection broke, -1 where there was none."""

    status: int
    etag: str = ""
    location: str = ""
    content: bytes = b""


class Caller:
    """A connection to the proxy that is kept open."""

    def __init__(self, port: int, authorization: str) -> None:
        self._port = port
        self._headers = {"Authorization": authorization, "Content-Type": "application/json"}
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """One request, once."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
            try:
                self._connection.connect()
            except OSError:
                self.close()
                return Reply(-1)
        try:
            content = None if body is None else json.dumps(body)
            self._connection.request(method, path, content, {**self._headers, **headers})
            response = self._connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException):
            self.close()
            return Reply(0)
        etag, location = response.getheader("ETag", ""), response.getheader("Location", "")
        return Reply(response.status, etag, location, text)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@dataclass
class Account:
    """What the clients saw, and what has to be in the database because of it."""

    answers: Counter[str] = field(default_factory=Counter)
    retried: Counter[str] = field(default_factory=Counter)
    unknown: list[str] = field(default_factory=list)  # writes whose outcome nobody was told
    wrong: list[str] = field(default_factory=list)  # answers that nobody may get
    times: list[float] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)  # of documents that were acknowledged
    doubtful: list[str] = field(default_factory=list)  # of those that were not
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)  # of a document: least, most

    def describe(self) -> str:
        ordered = sorted(self.times)
        late = ordered[int(len(ordered) * 0.99)]
        return (
            f"{len(ordered)} requests, p99 {late * 1000:.0f} ms, longest {ordered[-1]:.2f} s; "
            f"answers {dict(self.answers)}; repeated {dict(self.retried) or 'none'}; "
            f"outcome unknown {dict(Counter(self.unknown)) or 'none'}"
        )


class Clients:
    """Sixteen of them: four ask GraphQL, four read by REST, four create, four change."""

    def __init__(self, port: int, authorization: str, count: int = 16) -> None:
        self.seen = Account()
        self._port = port
        self._authorization = authorization
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        kinds = (self._query, self._read, self._create, self._change)
        self._threads = [
            threading.Thread(target=self._repeat, args=(kinds[number % 4],))
            for number in range(count)
        ]

    @contextmanager
    def calling(self) -> Iterator[Account]:
        """As long as the block lasts."""
        for one in self._threads:
            one.start()
        try:
            yield self.seen
        finally:
            self._is_over.set()
            for one in self._threads:
                one.join()

    def _repeat(self, work: Callable[[Caller], Iterator[None]]) -> None:
        caller = Caller(self._port, self._authorization)
        for _ in work(caller):
            time.sleep(_PAUSE)
            if self._is_over.is_set():
                break
        caller.close()

    def _ask(
        self, caller: Caller, kind: str, repeatable: tuple[int, ...], *request: Any, **headers: str
    ) -> Reply:
        """Ask, and repeat it while the answer is one after which that may be done."""
        for _ in range(_LONGEST_TRIES):
            begun = time.monotonic()
            reply = caller.ask(*request, **headers)
            with self._lock:
                self.seen.times.append(time.monotonic() - begun)
                self.seen.answers[f"{kind} {reply.status}"] += 1
                if reply.status not in (-1, *repeatable):
                    break
                self.seen.retried[f"{kind} {reply.status}"] += 1
            time.sleep(_PAUSE_OF_A_RETRY)
        return reply

    def _note_wrong(self, kind: str, reply: Reply) -> None:
        with self._lock:
            self.seen.wrong.append(f"{kind} {reply.status} {reply.content[:200]!r}")

    # --- the four kinds ---------------------------------------------------------------------------

    def _query(self, caller: Caller) -> Iterator[None]:
        query = {"query": "{things {mark}}"}
        while True:
            reply = self._ask(caller, "query", (0, *_BROKEN), "POST", "/graphql/things", query)
            if reply.status != 200 or b'"errors"' in reply.content:
                self._note_wrong("query", reply)
            yield

    def _read(self, caller: Caller) -> Iterator[None]:
        while True:
            reply = self._ask(caller, "read", (0, *_BROKEN), "GET", "/things?pagesize=5")
            if reply.status != 200:
                self._note_wrong("read", reply)
            yield

    def _create(self, caller: Caller) -> Iterator[None]:
        """A document whose id the server makes: repeated, it would be there twice."""
        while True:
            mark = uuid4().hex
            reply = self._ask(caller, "create", _UNSENT, "POST", "/things", {"mark": mark})
            with self._lock:
                if reply.status == 201:
                    self.seen.marks.append(mark)
                elif reply.status in (0, *_BROKEN):
                    self.seen.unknown.append(f"create {reply.status}")
                    self.seen.doubtful.append(mark)
                else:
                    self.seen.wrong.append(f"create {reply.status} {reply.content[:200]!r}")
            yield
            if reply.status == 201:  # what was acknowledged is there, whoever is asked
                place = reply.location[reply.location.index("/things/") :]
                found = self._ask(caller, "read", (0, *_BROKEN), "GET", place)
                if found.status != 200 or json.loads(found.content)["mark"] != mark:
                    self._note_wrong("read of what was created", found)
            yield

    def _change(self, caller: Caller) -> Iterator[None]:
        """A document of one's own: made under a given id, then counted up with its etag."""
        place = f"/things/{uuid4().hex}"
        made = self._ask(
            caller, "put", (0, *_BROKEN), "PUT", f"{place}?wm=upsert", {"mark": place, "n": 0}
        )
        etag, done, is_doubtful = made.etag, 0, False
        if made.status not in (200, 201):
            self._note_wrong("put", made)
        while True:
            with self._lock:
                self.seen.counts[place.rpartition("/")[2]] = (done, done + is_doubtful)
            yield
            headers = {"If-Match": etag}
            reply = self._ask(
                caller, "patch", _UNSENT, "PATCH", place, {"$inc": {"n": 1}}, **headers
            )
            if reply.status == 200:
                done, etag, is_doubtful = done + 1, reply.etag, False
                continue
            if reply.status in (0, *_BROKEN):
                is_doubtful = True
                with self._lock:
                    self.seen.unknown.append(f"patch {reply.status}")
            elif reply.status != 412 or not is_doubtful:  # 412: it was done after we looked
                self._note_wrong("patch", reply)
                return
            found = self._ask(caller, "read", (0, *_BROKEN), "GET", place)
            done, etag = json.loads(found.content)["n"], found.etag
