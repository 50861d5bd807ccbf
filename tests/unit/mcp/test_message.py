"""Messages of agents: bounded in depth before the protocol's library reads them."""

from __future__ import annotations

import orjson
import pytest

from docgraph.exchange.errors import BodyError
from docgraph.mcp.rpc import read_message


def build(levels: int) -> bytes:
    """A message that is nested so deep, itself included."""
    inner = b'{"a":' * (levels - 2) + b"1" + b"}" * (levels - 2)
    return b'{"jsonrpc":"2.0","method":"x","params":{"a":' + inner + b"}}"


def test_a_message_of_100_levels_is_read_and_a_deeper_one_is_refused() -> None:
    assert read_message(build(100), "application/json") == orjson.loads(build(100))
    with pytest.raises(BodyError, match="the body is nested deeper than 100 levels"):
        read_message(build(101), "application/json")
