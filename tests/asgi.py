"""The ASGI application behind uvicorn's protocol, on a transport in memory: see `connections.py`.

The tests of `tests/http` run against our own protocol. With `DOCGRAPH_TEST_ASGI=1` they run against
the ASGI application; the modules of `IN_BOTH` run against both in every run.
"""

from __future__ import annotations

import asyncio
import os
from functools import lru_cache
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from docgraph.asgi.connection import AsgiConnection
from docgraph.server.http.state import ProcessState

# A tenth of the modules, which touches every service.
IN_BOTH = frozenset(
    """
    auth/test_cookies.py auth/test_digest.py auth/test_token_endpoints.py
    authoring/test_tools_bounds.py graphql/test_graphql_requests.py graphql/test_visible_apps.py
    live/test_live_events.py live/test_live_socket.py mcp/test_mcp_login.py mcp/test_mcp_plain.py
    rest/test_batch_tokens.py rest/test_rest_documents.py rest/test_rest_large_answers.py
    rest/test_rest_openapi.py server/test_caller_limits.py server/test_console.py
    server/test_own_rights.py server/test_pages.py server/test_pipeline.py
    streams/test_streams.py streams/test_streams_handshakes.py streams/test_streams_secrecy.py
    """.split()
)
IS_ASGI = os.environ.get("DOCGRAPH_TEST_ASGI") == "1"


def make_asgi_protocol(state: ProcessState, loop: asyncio.AbstractEventLoop) -> Any:
    """What uvicorn puts on a connection."""
    return HttpToolsProtocol(
        config=_configure(state), server_state=ServerState(), app_state={}, _loop=loop
    )


@lru_cache(maxsize=8)
def _configure(state: ProcessState) -> Config:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        sweeping = asyncio.create_task(_sweep(state))
        try:
            await AsgiConnection(state, scope, receive, send).answer()
        finally:
            sweeping.cancel()

    config = Config(
        application,
        http="httptools",
        ws="wsproto",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws_ping_interval=None,  # a client of a test answers when it reads, which may be late
    )
    config.load()
    return config


async def _sweep(state: ProcessState) -> None:
    """What `HttpServer` does as long as it runs, here as long as a request does."""
    while True:
        await asyncio.sleep(0.05)
        state.sweep(asyncio.get_running_loop().time())
