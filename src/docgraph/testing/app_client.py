"""A client for tests of apps, and answers whose assertions say what differs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack
from urllib.parse import quote, unquote, urlsplit

import jwt
import orjson

from docgraph.graphql.definition.visibility import list_parts, spell_part
from docgraph.testing.running import ISSUER, RunningApp

_OK: Final = 200


class Caller(TypedDict, total=False):
    """Properties of `@user`, and roles (anonymous without both); the URI of an app of several."""

    as_user: Mapping[str, Any]
    roles: Sequence[str]
    app: str


@dataclass(frozen=True)
class AppAnswer:
    """The response to one request, and what MongoDB has done for it."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    commands: int  # that were sent for the fields
    documents_examined: int
    plans: frozenset[str]  # `COLLSCAN`, or `IXSCAN` with the keys of an index

    @cached_property
    def json(self) -> Any:
        """The parsed body."""
        return orjson.loads(self.content)

    @property
    def errors(self) -> list[Any]:
        """The errors of a GraphQL answer, or the body of another one that is an error."""
        errors: list[Any] = self.json.get("errors", [] if self.status == _OK else [self.json])
        return errors

    @property
    def data(self) -> Any:
        """The data of a GraphQL answer without errors."""
        if self.errors:
            lines = (f"{error.get('path', '')} {error['message']}" for error in self.errors)
            raise AssertionError("\n".join((f"the answer has the status {self.status}", *lines)))
        return self.json["data"]


class AppClient:
    """Sends requests as any user; compares snapshots in a directory, or writes them (`update`)."""

    def __init__(
        self, app: RunningApp, snapshots: str | Path = "", *, update: bool = False
    ) -> None:
        self._app, self._snapshots, self._update = app, Path(snapshots), update

    def query(
        self, query: str, variables: Mapping[str, Any] | None = None, **caller: Unpack[Caller]
    ) -> AppAnswer:
        """Send a GraphQL query."""
        base = self._app.values["configuration"]["graphql"].uri
        body = {"query": query, "variables": variables}
        return self.request("POST", f"{base}/{self._choose(caller)}", body, **caller)

    def get(self, path: str, **caller: Unpack[Caller]) -> AppAnswer:
        """Send a GET request."""
        return self.request("GET", path, **caller)

    def request(
        self, method: str, path: str, body: Any = None, **caller: Unpack[Caller]
    ) -> AppAnswer:
        """Send any request; the body becomes JSON."""
        address = urlsplit(path)
        content = b"" if body is None else orjson.dumps(body)
        headers = [(b"host", b"localhost"), (b"content-length", b"%d" % len(content))]
        headers += [(b"content-type", b"application/json")] * bool(content)
        if "as_user" in caller or "roles" in caller:
            headers.append((b"authorization", f"Bearer {self._sign(caller)}".encode()))
        scope: dict[str, Any] = {"type": "http", "method": method, "headers": headers}
        scope |= {"path": unquote(address.path), "raw_path": address.path.encode()}
        scope["query_string"] = quote(address.query, safe="%=&+,:/@$").encode()
        scope["client"] = ("127.0.0.1", 1)
        start, *parts = self._app.wait(self._app.send(scope, content))
        fields = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
        sent = {"command.comment.request": fields["x-request-id"]}
        profiles = (self._app.mongo[db]["system.profile"] for db in self._app.databases)
        commands = [command for profile in profiles for command in profile.find(sent)]
        examined = sum(command.get("docsExamined", 0) for command in commands)
        plans = frozenset(filter(None, (command.get("planSummary") for command in commands)))
        text = b"".join(part.get("body", b"") for part in parts)
        return AppAnswer(start["status"], fields, text, len(commands), examined, plans)

    def assert_hidden(self, name: str, **caller: Unpack[Caller]) -> None:
        """Assert that users with these roles do not see `Type.field` in the schema."""
        apps = self._app.values["gql-app-definition-cache"]
        compiled = self._app.wait(apps.find(self._choose(caller)))
        schemas = compiled.visible_to(roles := self._check(caller)).schema, compiled.schema
        seen, parts = ({spell_part(part) for part, _ in list_parts(schema)} for schema in schemas)
        if name not in parts:
            raise ValueError(f"the schema has no field {name}")
        if name in seen:
            raise AssertionError(f"{name} is visible with the roles {roles}")

    def assert_answer(self, answer: AppAnswer, path: str | Path) -> None:
        """Compare an answer with the JSON in a file."""
        file = self._snapshots / path
        if self._update:
            options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(orjson.dumps(answer.json, option=options))
        difference: str | None = "it does not exist"
        if file.exists():
            difference = find_difference(orjson.loads(file.read_bytes()), answer.json)
        if difference:
            raise AssertionError(f"{file}: {difference} (--docgraph-update writes the file)")

    def _choose(self, caller: Caller) -> str:
        uris = self._app.uris
        app = caller.get("app") or (uris[0] if len(uris) == 1 else None)
        if app not in uris:
            raise ValueError(f"there is no app {app!r}: app=… is one of {uris}")
        return app

    def _check(self, caller: Caller) -> list[str]:
        """Return the roles; a test that misspells a role would prove nothing."""
        roles = list(caller.get("roles", ()))
        if unknown := sorted(set(roles) - self._app.roles):
            named = f"no rule and no definition names {unknown}, only {sorted(self._app.roles)}"
            raise ValueError(f"unknown roles: {named}; without roles: roles=[]")
        return roles

    def _sign(self, caller: Caller) -> str:
        user, expires = caller.get("as_user", {}), int(time.time()) + 3600
        claims = {"roles": self._check(caller), "exp": expires, "iss": ISSUER}
        return jwt.encode({"sub": user.get("userid", "test"), **user, **claims}, self._app.key)


def find_difference(expected: Any, actual: Any) -> str | None:
    """Return where two values of JSON differ first, and how; None if they are equal."""
    wanted, given = dict(_flatten(expected, "")), dict(_flatten(actual, ""))
    for path in wanted | given:
        texts = wanted.get(path, "nothing"), given.get(path, "nothing")
        if texts[0] != texts[1]:
            return "{}: expected {}, got {}".format(path or "answer", *texts)
    return None


def _flatten(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the paths of values that contain no others (`data.orders[0].number`), and the texts."""
    if not (isinstance(value, dict | list) and value):
        yield path.removeprefix("."), orjson.dumps(value).decode()
    for key, item in value.items() if isinstance(value, dict) else ():
        yield from _flatten(item, f"{path}.{key}")
    for place, item in enumerate(value) if isinstance(value, list) else ():
        yield from _flatten(item, f"{path}[{place}]")
