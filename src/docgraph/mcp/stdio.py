"""MCP on standard input and output, for an agent on the same machine: one message per line.

Every message is authorized as one of a named user to the MCP endpoint. The user is read again for
each, so that current roles and permissions apply.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Final
from uuid import uuid4

from docgraph.access.authorize import Authorization
from docgraph.exchange import Account, Exchange, Request
from docgraph.exchange.errors import DocgraphError
from docgraph.mcp.mcp_methods import McpMethods
from docgraph.mcp.rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LATEST_HANDSHAKE,
    PARSE_ERROR,
    REVISION_KEY,
    STATELESS_REVISIONS,
    UNSUPPORTED_REVISION,
    InvalidMessage,
    McpCall,
    RpcError,
    read_message,
    render_answer,
    render_notification,
)
from docgraph.mcp.sections import Mcp
from docgraph.mcp.service import check_envelope

FindAccount = Callable[[], Awaitable[Account]]
RpcMessage = Mapping[str, Any]

_AT_ONCE: Final = 32  # requests in progress, and lines that wait
_FREE: Final = frozenset({"initialize", "ping", "server/discover"})  # for all users
_IN_ORDER: Final = frozenset({"initialize", "logging/setLevel"})


@dataclass(frozen=True, slots=True)
class LocalAgent:
    """The user whose permissions the agent has."""

    settings: Mcp
    authorization: Authorization
    find_account: FindAccount

    async def open_call(self, method: str, revision: str) -> McpCall:
        """Return an authorized call; raise `RpcError` if the user may not use the endpoint."""
        try:
            account = await self.find_account()
            request = Request("POST", self.settings.uri.encode())
            request.account = account
            exchange = Exchange(request, uuid4().hex[:16], service="mcp", account=account)
            if method not in _FREE:
                await self._admit(exchange)
        except DocgraphError as error:
            raise RpcError(INVALID_REQUEST, error.message) from None
        return McpCall(exchange, revision)

    async def _admit(self, exchange: Exchange) -> None:
        decision = await self.authorization.find_veto(exchange)
        if decision is None:
            secured = self.settings.secured
            decision = await self.authorization.find_approval(exchange, secured=secured)
        if not decision.allowed:
            what = f"this user may not use {exchange.request.path}"
            raise RpcError(INVALID_REQUEST, what)
        exchange.permission = decision.permission


async def serve_stdio(methods: McpMethods, agent: LocalAgent, longest: int) -> None:
    """Answer until the client closes its end; a line has at most `longest` bytes."""
    lines: asyncio.Queue[bytes] = asyncio.Queue(_AT_ONCE)
    loop = asyncio.get_running_loop()
    # A daemon: a thread that waits for input must not keep the process alive.
    threading.Thread(target=_read_lines, args=(lines, loop, longest), daemon=True).start()
    session = _StdioSession(methods, agent, _claim_output())
    while line := await lines.get():
        await session.receive(line)
    await session.close()


def _read_lines(lines: asyncio.Queue[bytes], loop: asyncio.AbstractEventLoop, longest: int) -> None:
    """Pass on lines in the order of arrival; an empty one marks the end."""
    while True:
        line = sys.stdin.buffer.readline(longest + 1)
        while len(line) > longest and not line.endswith(b"\n"):
            line = b"x" + sys.stdin.buffer.readline(longest)  # too long: the rest is skipped
        try:
            asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()
        except (RuntimeError, CancelledError):  # the loop is closed
            return
        if not line:
            return


def _claim_output() -> BinaryIO:
    """Return standard output for messages; redirect other prints to standard error."""
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return output


class _StdioSession:
    """One client on stdio; its first request decides whether there is a handshake."""

    def __init__(self, methods: McpMethods, agent: LocalAgent, output: BinaryIO) -> None:
        self._methods = methods
        self._agent = agent
        self._output = output
        self._revision: str | None = None  # None: no request yet
        self._is_initialized = False
        self._level: str | None = None  # of log messages that the client wants
        self._running: dict[str | int, asyncio.Task[None]] = {}

    async def receive(self, line: bytes) -> None:
        """Handle one message; requests run concurrently, except those that change the session."""
        if not line.strip():
            return
        try:
            message = read_message(line, "application/json")
        except DocgraphError as error:
            code = INVALID_REQUEST if isinstance(error, InvalidMessage) else PARSE_ERROR
            self._write(render_answer(None, RpcError(code, error.message)))
            return
        if "id" not in message:
            self._handle_notification(message)
            return
        # An id in use has to wait: two requests with one id would count and be cancelled as one.
        while len(self._running) >= _AT_ONCE or message["id"] in self._running:
            await asyncio.wait(self._running.values(), return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(self._answer(message))
        self._running[message["id"]] = task
        task.add_done_callback(lambda done: self._forget(message["id"], done))
        if message["method"] in _IN_ORDER:
            await asyncio.wait([task])

    def _forget(self, id: str | int, task: asyncio.Task[None]) -> None:
        if self._running.get(id) is task:
            del self._running[id]

    async def close(self) -> None:
        """Wait for the answers in progress, and close the output."""
        if self._running:
            await asyncio.wait(self._running.values())
        with suppress(BrokenPipeError):  # the client did not wait for the answers
            self._output.close()

    def _handle_notification(self, message: RpcMessage) -> None:
        id = (message.get("params") or {}).get("requestId")
        if message["method"] == "notifications/cancelled" and isinstance(id, str | int):
            task = self._running.get(id)
            if task is not None:
                task.cancel()

    async def _answer(self, message: RpcMessage) -> None:
        try:
            method, params = message["method"], message.get("params") or {}
            revision = self._find_revision(message, method, params)
            call = await self._agent.open_call(method, revision)
            call.notify, call.level = self._notify, self._level
            result: Mapping[str, Any] | RpcError = await self._methods.answer(call, method, params)
            self._level = call.level if method == "logging/setLevel" else self._level
            self._is_initialized |= method == "initialize"
        except RpcError as error:
            result = error
        except DocgraphError as error:
            result = RpcError(INTERNAL_ERROR, error.message)
        except Exception as error:  # clients show or log what is written to stderr
            traceback.print_exception(error, file=sys.stderr)
            result = RpcError(INTERNAL_ERROR, "internal error")
        self._write(render_answer(message["id"], result))

    def _find_revision(self, message: RpcMessage, method: str, params: Mapping[str, Any]) -> str:
        """Return the revision of a request; raise if the client mixes the two kinds."""
        meta = params.get("_meta")
        is_stateless = isinstance(meta, dict) and REVISION_KEY in meta and method != "initialize"
        if self._revision is None:
            self._revision = STATELESS_REVISIONS[-1] if is_stateless else LATEST_HANDSHAKE
        if self._revision in STATELESS_REVISIONS:
            if method == "initialize":
                data = {"supported": STATELESS_REVISIONS}
                raise RpcError(UNSUPPORTED_REVISION, "initialize is not accepted here", data)
            return check_envelope(message, None)
        if is_stateless:
            raise RpcError(INVALID_REQUEST, "this connection began with a handshake")
        if not self._is_initialized and method not in _FREE:
            raise RpcError(INVALID_PARAMS, "Invalid request parameters", "")
        return self._revision

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        self._write(render_notification(method, params))

    def _write(self, answer: bytes) -> None:
        try:
            self._output.write(answer + b"\n")
            self._output.flush()
        except BrokenPipeError:
            return  # the client has left; the end of its input follows
