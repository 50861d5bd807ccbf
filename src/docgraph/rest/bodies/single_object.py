"""Request body that must be one object."""

from __future__ import annotations

from docgraph.codec.documents import read_documents
from docgraph.exchange.data import Document
from docgraph.exchange.errors import RequestError
from docgraph.exchange.request import Request


async def read_object(request: Request) -> Document:
    """Return the body; reject anything but an object."""
    content = await read_documents(request)
    if isinstance(content, list):
        raise RequestError("request content must be a Json object")
    return content
