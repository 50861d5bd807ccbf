"""Definitions, rules and logins that are changed at one instance, and hold at all of them.

Change n of the app has the field `v<n>`; rule n lets guests see `/things/gate-<n>` and nothing
else; user n is there to be logged out, or to get another password.
"""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import bcrypt

from tests.drills.fleet import Fleet, Instance

__all__ = ["PASSWORD", "Changes", "basic", "build_user"]

PASSWORD = "correct horse battery staple"
_FIELDS = {"query": '{__type(name: "Query") {fields {name}}}'}
_PAUSE = 0.3
_POLL = 0.03
_GIVE_UP = 20.0  # seconds; the bound is checked by whoever reads `made`


def basic(user: str, secret: str) -> str:
    """The field `Authorization`."""
    return "Basic " + b64encode(f"{user}:{secret}".encode()).decode()


def build_user(name: str, *roles: str) -> dict[str, Any]:
    """A user as it is stored; logging in is cheap."""
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    return {"_id": name, "password": hashed, "roles": [*roles]}


class Made(NamedTuple):
    """A change, and where it held last: whoever asked so many seconds after it saw it."""

    kind: str
    seconds: float
    last: str


class Changes:
    """Changes things of three kinds, again and again, and notes when each was in force."""

    def __init__(self, fleet: Fleet, admin: str) -> None:
        self.made: list[Made] = []
        self.failures: list[str] = []
        self._fleet = fleet
        self._admin = {"Authorization": admin}
        self._chance = random.Random(19)
        self._is_over = threading.Event()
        kinds = (self._change_definition, self._change_rule, self._end_login)
        self._threads = [threading.Thread(target=self._run, args=(kind,)) for kind in kinds]

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """As long as the block lasts."""
        for one in self._threads:
            one.start()
        try:
            yield
        finally:
            self._is_over.set()
            for one in self._threads:
                one.join()

    def describe(self) -> str:
        told = []
        for kind in ("definition", "rule", "login"):
            times = [one.seconds for one in self.made if one.kind == kind]
            told.append(f"{len(times)} of a {kind} after {max(times):.2f} s")
        return f"changes in force everywhere at the latest: {', '.join(told)}"

    def _run(self, change: Callable[[int], None]) -> None:
        try:
            for number in itertools.count(1):
                if self._is_over.wait(_PAUSE):
                    return
                change(number)
        except Exception as error:  # told by the drill, which runs in another thread
            self.failures.append(repr(error))

    def _change_definition(self, number: int) -> None:
        field = f"v{number}"
        find = {"db": "docgraph", "collection": "things", "find": {}}
        self._write(
            "PUT",
            "/gql-apps/marks?wm=upsert",
            {
                "descriptor": {"uri": "marks", "name": "marks", "enabled": True},
                "schema": f"type Query {{ {field}: [Thing] }} type Thing {{ mark: String }}",
                "mappings": {"Query": {field: find}},
            },
        )

        def holds(instance: Instance) -> bool:
            status, content = _ask(instance, "POST", "/graphql/marks", _FIELDS, self._admin)
            return status == 200 and [{"name": field}] == content["data"]["__type"]["fields"]

        self._await_everywhere("definition", holds)

    def _change_rule(self, number: int) -> None:
        predicate = f"path-prefix('/things/gate-{number}')"
        rule = {"roles": ["guest"], "predicate": predicate}
        self._write("PUT", "/acl/gate?wm=upsert", rule)
        guest = {"Authorization": basic("guest", PASSWORD)}

        def holds(instance: Instance) -> bool:
            seen, _ = _ask(instance, "GET", f"/things/gate-{number}", None, guest)
            hidden, _ = _ask(instance, "GET", f"/things/gate-{number - 1}", None, guest)
            return (seen, hidden) == (404, 403)

        self._await_everywhere("rule", holds)

    def _end_login(self, number: int) -> None:
        """By turns: the token is given back, the password is changed."""
        user = f"user{number}"
        own = {"Authorization": basic(user, PASSWORD)}
        status, answer = self._write("GET", f"/tokens/{user}", None, own)
        assert status == 200, answer
        token = {"Authorization": basic(user, answer["auth_token"])}
        for instance in self._fleet.up:
            with _leaving_aside(instance):
                assert _ask(instance, "GET", f"/roles/{user}", None, token)[0] == 200
        if number % 2:
            self._write("DELETE", f"/tokens/{user}", None, token)
        else:
            self._write("PATCH", f"/users/{user}", {"password": f"{PASSWORD} {number}"})

        def holds(instance: Instance) -> bool:
            return _ask(instance, "GET", f"/roles/{user}", None, token)[0] == 401

        self._await_everywhere("login", holds)

    def _write(
        self, method: str, path: str, body: Any, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """At any instance; at another one where that one is going."""
        while True:
            instance = self._chance.choice(self._fleet.up)
            try:
                status, answer = _ask(instance, method, path, body, headers or self._admin)
            except OSError:
                time.sleep(_POLL)
                continue
            if method == "DELETE" and status == 401:  # the attempt before this one has done it
                status = 204
            if status not in (200, 201, 204):
                self.failures.append(f"{method} {path} at {instance.name}: {status} {answer}")
            return status, answer

    def _await_everywhere(self, kind: str, holds: Callable[[Instance], bool]) -> None:
        """At every instance that runs now; one that ends meanwhile has nothing to hold."""
        begun = time.monotonic()
        instances = list(self._fleet.up)
        with ThreadPoolExecutor(len(instances)) as threads:
            seen = threads.map(lambda one: _await(one, holds, begun + _GIVE_UP), instances)
            made = [Made(kind, asked - begun, place) for asked, place in seen]
        self.made.append(max(made, key=lambda one: one.seconds))


def _await(instance: Instance, holds: Callable[[Instance], bool], end: float) -> tuple[float, str]:
    """When the first question was asked whose answer was yes."""
    while True:
        asked, has_it = time.monotonic(), True
        with _leaving_aside(instance):
            has_it = holds(instance)
        if has_it or asked > end:
            return asked, f"{instance.name}, {asked - instance.started:.1f} s old"
        time.sleep(_POLL)


@contextmanager
def _leaving_aside(instance: Instance) -> Iterator[None]:
    """What cannot be asked of an instance that has gone in this moment."""
    server = instance.server
    try:
        yield
    except (OSError, EOFError):
        is_going = server is None or instance.server is not server or instance.is_leaving
        if not is_going:
            raise


def _ask(
    instance: Instance, method: str, path: str, body: Any, headers: Mapping[str, str]
) -> tuple[int, Any]:
    """Straight from the instance, past the proxy."""
    server = instance.server
    if server is None:
        raise ConnectionRefusedError
    status, answer, _ = server.ask(method, path, body, headers=headers)
    if isinstance(answer, bytes) and answer[:1] in (b"{", b"["):
        answer = json.loads(answer)
    return status, answer
