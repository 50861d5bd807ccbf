"""Validate the answers of plugins: an invalid one is an error of the plugin, by name.

It is detected before the head of the response is sent, so the caller still gets a 500.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

from docgraph.exchange import Answer, Body, Stream, Takeover, Upgrade
from docgraph.plugins.kinds import Plugin

_ANSWERS: Final = (Body, Stream, Upgrade, Takeover)
_BYTES: Final = (bytes, bytearray, memoryview)
_STATUS: Final = range(100, 600)


def check_answer(answer: object, giver: Plugin) -> Answer:
    """Return the answer; raises `TypeError` with the name of the plugin for an invalid one."""
    if isinstance(answer, Body) and _is_usual(answer):
        return answer
    flaw = _find_flaw(answer)
    if flaw is not None:
        raise TypeError(f"the {giver.kind} {giver.name!r} returned {flaw}")
    assert isinstance(answer, _ANSWERS)  # noqa: S101 - there is no flaw
    return answer


def _is_usual(body: Body) -> bool:
    """Return whether the answer is of the common kind, which needs no further check."""
    return (
        type(body.content) is bytes
        and type(body.media_type) is str
        and not body.headers
        and body.status in _STATUS
    )


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
