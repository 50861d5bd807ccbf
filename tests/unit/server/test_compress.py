"""Which content coding a caller gets, and of what."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncIterator

import pytest

from docgraph.exchange.errors import RequestError
from docgraph.server.respond import (
    check_accepts_compression,
    choose_encoding,
    compress,
    compress_chunks,
    is_compressible,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip", "gzip"),
        ("GZIP", "gzip"),
        ("x-gzip", "gzip"),
        ("gzip, deflate, br", "gzip"),
        ("deflate", "deflate"),
        ("gzip;q=0.5, deflate;q=0.8", "deflate"),
        ("gzip;q=0, deflate", "deflate"),
        ("*", "gzip"),
        ("gzip;q=0, *", "deflate"),
        ("gzip;q=0", None),
        ("*;q=0", None),
        ("br, zstd", None),
        ("identity", None),
        ("gzip;q=nonsense", None),
        ("", None),
    ],
)
def test_the_best_coding_that_the_caller_accepts_is_chosen(
    accepted: str, encoding: str | None
) -> None:
    assert choose_encoding(accepted) == encoding


@pytest.mark.parametrize(
    ("media_type", "expected"),
    [
        ("application/json", True),
        ("application/graphql-response+json; charset=utf-8", True),
        ("text/html", True),
        ("image/svg+xml", True),
        ("text/event-stream", False),
        ("application/octet-stream", False),
        ("image/png", False),
    ],
)
def test_only_what_gains_by_it_is_compressed(media_type: str, expected: bool) -> None:
    assert is_compressible(media_type) is expected


@pytest.mark.parametrize(
    ("encoding", "decode"), [("gzip", gzip.decompress), ("deflate", zlib.decompress)]
)
def test_compressed_content_comes_back_whole(encoding: str, decode: object) -> None:
    content = b'{"name": "ada"}' * 1000

    encoded = compress(content, encoding)

    assert len(encoded) < len(content) / 5
    assert decode(encoded) == content  # type: ignore[operator]


async def test_each_chunk_of_a_stream_can_be_read_when_it_was_sent() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"first"
        yield b"second"

    decoder = zlib.decompressobj(31)
    read = [decoder.decompress(chunk) async for chunk in compress_chunks(chunks(), "gzip")]

    assert read == [b"first", b"second", b""]
    assert decoder.eof


@pytest.mark.parametrize("accepted", [None, "", "identity", "br"])
def test_callers_that_refuse_compression_are_turned_away_when_it_is_forced(
    accepted: str | None,
) -> None:
    with pytest.raises(RequestError, match="must include gzip or deflate"):
        check_accepts_compression(accepted)


def test_callers_that_accept_compression_pass_when_it_is_forced() -> None:
    check_accepts_compression("deflate")
