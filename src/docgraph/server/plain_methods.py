"""Run blocking plugin methods in threads: plain functions where the kind has `async` ones.

They never block the event loop. Services have their own lane: however many of their requests block,
authenticators and interceptors of plugins find a thread. A request of a blocking service counts in
that lane, and no longer among the requests in flight: otherwise a few hundred slow requests would
block all others.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from docgraph.exchange import Exchange, StartupError
from docgraph.plugins.check import is_async, methods_of
from docgraph.plugins.kinds import Kind, Plugin
from docgraph.runtime import Blocking, Lane, run_blocking

_AWAITED: Final = {
    kind: tuple(name for name, method in methods_of(kind).items() if is_async(method))
    for kind in Kind
}


def run_plain_methods_in_threads(plugins: Iterable[Plugin], blocking: Blocking) -> None:
    """Make all methods of these plugins that are awaited awaitable."""
    for plugin in plugins:
        for name in _AWAITED[plugin.kind]:
            method = getattr(plugin, name)
            if not is_async(method):
                is_service = plugin.kind is Kind.SERVICE and name == "handle"
                run = _serve_in_thread if is_service else _call_in_thread
                _replace(plugin, name, run(method, blocking))


def _replace(plugin: Plugin, name: str, method: Callable[..., Awaitable[Any]]) -> None:
    try:
        setattr(plugin, name, method)
    except AttributeError as error:  # `__slots__`
        raise StartupError(
            f"the {plugin.kind} {plugin.name!r} has a plain `def {name}`",
            hint=f"write `async def {name}`",
        ) from error


def _call_in_thread(
    method: Callable[..., Any], blocking: Blocking
) -> Callable[..., Awaitable[Any]]:
    return _in_thread(method, blocking.blocking_lane("plugins"))


def _serve_in_thread(
    method: Callable[..., Any], blocking: Blocking
) -> Callable[[Exchange], Awaitable[Any]]:
    handle = _in_thread(method, blocking.blocking_lane("services"))

    async def run(exchange: Exchange) -> Any:
        exchange.leave_queue()
        return await handle(exchange)

    return run


def _in_thread(method: Callable[..., Any], lane: Lane) -> Callable[..., Awaitable[Any]]:
    async def run(*args: Any, **kwargs: Any) -> Any:
        result = await run_blocking(lane, method, *args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    return run
