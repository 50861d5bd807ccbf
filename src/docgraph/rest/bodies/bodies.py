"""The body of a write: large ones are parsed aside, and some have to be one object."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

from docgraph.codec.documents import read_documents
from docgraph.exchange.data import Document
from docgraph.exchange.errors import BodyError, RequestError
from docgraph.exchange.request import Request
from docgraph.runtime import Lane, run_blocking

__all__ = ["parse_large", "read_object"]

_LARGE = 256 * 1024


async def parse_large(request: Request, lane: Lane) -> None:
    """Parse a large body in a thread, so that others are served meanwhile; leave a small one."""
    body = await request.read_body()
    if len(body) <= _LARGE:
        return
    try:
        content = await run_blocking(lane, request.parser, body, request.content_type)
    except BodyError as error:
        request.parser = partial(_refuse, error)
    else:
        request.parser = lambda _, __: content


def _refuse(error: BodyError, _: bytes, __: str) -> NoReturn:
    raise error


async def read_object(request: Request) -> Document:
    """The body where only an object will do."""
    content = await read_documents(request)
    if isinstance(content, list):
        raise RequestError("request content must be a Json object")
    return content
