"""Interceptors (middleware) of plugins: run them in order, blocking methods in threads."""

from __future__ import annotations

import inspect
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, Final

from docgraph.exchange import (
    Answer,
    Body,
    DocgraphError,
    Exchange,
    StartupError,
    Stream,
    Takeover,
    Upgrade,
)
from docgraph.exchange.errors import Forbidden
from docgraph.plugins.check import is_async, methods_of
from docgraph.plugins.kinds import Interceptor, Kind, Plugin, Point
from docgraph.runtime import Blocking, Lane, run_blocking


class Interception:
    """The interceptors by point."""

    def __init__(self, interceptors: Mapping[Point, Sequence[Interceptor]]) -> None:
        self._interceptors = {
            point: [
                (interceptor, getattr(interceptor, "only_with_attribute", None))
                for interceptor in members
            ]
            for point, members in interceptors.items()
        }
        self.changes_responses = bool(interceptors[Point.RESPONSE])

    async def run(self, point: Point, exchange: Exchange) -> Answer | None:
        """Return the answer that ends the request early, if any; at `response` the one to send."""
        for interceptor, attribute in self._interceptors[point]:
            if attribute is not None and attribute not in exchange.attributes:
                continue
            if interceptor.resolve(exchange):
                answer = await interceptor.handle(exchange)
                if answer is not None:
                    exchange.answer = check_answer(answer, interceptor)
                    if point is not Point.RESPONSE:
                        return answer
                elif point is Point.RESPONSE:
                    check_answer(exchange.answer, interceptor)  # it may have changed that one
        return exchange.answer if point is Point.RESPONSE else None

    async def surround(self, exchange: Exchange, examine: Callable[[], Awaitable[None]]) -> None:
        """Check credentials, with the interceptors of logins around it unless it is a renewal."""
        if exchange.is_renewal:
            await examine()
            return
        early = await self.run(Point.BEFORE_AUTH, exchange)  # the guard counts the login
        if early is None:
            await examine()
            early = await self.run(Point.AFTER_AUTH, exchange)
        if early is not None:
            raise Forbidden("an interceptor answered the request")

    async def reject(self, exchange: Exchange, error: DocgraphError) -> None:
        """Raise the error, after the interceptors of failed logins have run."""
        exchange.rejection = error
        if not exchange.is_renewal:  # an expired session is no failed login
            await self.run(Point.AFTER_FAILED_AUTH, exchange)
        raise error


_AWAITED: Final = {
    kind: tuple(name for name, method in methods_of(kind).items() if is_async(method))
    for kind in Kind
}


def run_plain_methods_in_threads(plugins: Iterable[Plugin], blocking: Blocking) -> None:
    """Wrap plain methods of plugins that docgraph awaits, so that they run in threads.

    So they never block the event loop. Services have their own lane: however many of their requests
    block, authenticators and interceptors of plugins find a thread. A request of a blocking service
    counts in that lane, and no longer among the requests in flight: otherwise a few hundred slow
    requests would block all others.
    """
    for plugin in plugins:
        for name in _AWAITED[plugin.kind]:
            method = getattr(plugin, name)
            if not is_async(method):
                is_service = plugin.kind is Kind.SERVICE and name == "handle"
                lane = blocking.blocking_lane("services" if is_service else "plugins")
                run = _in_thread(method, lane)
                _replace(plugin, name, _leave_queue_before(run) if is_service else run)


def _replace(plugin: Plugin, name: str, method: Callable[..., Awaitable[Any]]) -> None:
    try:
        setattr(plugin, name, method)
    except AttributeError as error:  # `__slots__`
        raise StartupError(
            f"the {plugin.kind} {plugin.name!r} has a plain `def {name}`",
            hint=f"write `async def {name}`",
        ) from error


def _in_thread(method: Callable[..., Any], lane: Lane) -> Callable[..., Awaitable[Any]]:
    async def run(*args: Any, **kwargs: Any) -> Any:
        result = await run_blocking(lane, method, *args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    return run


def _leave_queue_before(handle: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def run(exchange: Exchange) -> Any:
        exchange.leave_queue()
        return await handle(exchange)

    return run


_ANSWERS: Final = (Body, Stream, Upgrade, Takeover)
_BYTES: Final = (bytes, bytearray, memoryview)
_STATUS: Final = range(100, 600)
_PAIR: Final = (str, str)


def check_answer(answer: object, giver: Plugin) -> Answer:
    """Return the answer; raises `TypeError` with the name of the plugin for an invalid one.

    An invalid answer is detected before the head of the response is sent, so the caller still gets
    a 500.
    """
    if (
        type(answer) is Body
        and type(answer.content) is bytes
        and type(answer.media_type) is str
        and answer.status in _STATUS
        and (not answer.headers or _are_pairs(answer.headers))
    ):
        return answer  # of the common kind, which needs no further check
    flaw = _find_flaw(answer)
    if flaw is not None:
        raise TypeError(f"the {giver.kind} {giver.name!r} returned {flaw}")
    assert isinstance(answer, _ANSWERS)  # noqa: S101 - there is no flaw
    return answer


def _are_pairs(headers: Iterable[object]) -> bool:
    for header in headers:
        if type(header) is not tuple or len(header) != len(_PAIR):
            return False
        if type(header[0]) is not str or type(header[1]) is not str:
            return False
    return True


async def pass_bytes(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks of a stream; raises `TypeError` at the first that is not bytes."""
    async for chunk in chunks:
        if not isinstance(chunk, _BYTES):
            raise TypeError(f"a chunk of a Stream is {type(chunk).__name__}, not bytes: encode it")
        yield chunk


def _find_flaw(answer: Any) -> str | None:
    if not isinstance(answer, _ANSWERS):
        return f"{_name(answer)}, which is no Body, Stream, Upgrade or Takeover"
    return next((f"a {type(answer).__name__} {flaw}" for flaw in _find_flaws(answer)), None)


def _find_flaws(answer: Any) -> Iterator[str]:
    if answer.status not in _STATUS:
        yield f"with the status {answer.status!r}"
    if not isinstance(getattr(answer, "content", b""), _BYTES):
        yield f"whose content is {_name(answer.content)}, not bytes: encode it"
    if isinstance(answer, Stream) and not hasattr(answer.chunks, "__aiter__"):
        yield f"whose chunks are {_name(answer.chunks)}, not an asynchronous iterator"
    if not isinstance(getattr(answer, "media_type", None), str | None):
        yield f"whose media_type is {_name(answer.media_type)}, not text"
    for header in answer.headers:
        match header:
            case (str(), str()):
                pass
            case _:
                yield f"with the header {header!r}, which is not a pair of texts"


def _name(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
