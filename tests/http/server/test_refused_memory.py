"""What is refused is forgotten with its answer, without waiting for the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.exchange import Exchange
from tests.http.hosts import module_application
from tests.http.rest_harness import Api, serving

pytestmark = pytest.mark.anyio


@module_application
async def api(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Api]:
    async with serving(mongo_client, mongo_uri) as one:
        yield one


@pytest.mark.parametrize("path", ["/things?filter={", "/things?page=0", "/nowhere/1/2/3/4"])
async def test_a_refused_request_is_not_held_by_its_own_error(api: Api, path: str) -> None:
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            assert (await api.get(path)).status in (400, 404)
        held = [one for one in gc.get_objects() if type(one) is Exchange]
    finally:
        gc.enable()
    assert len(held) < 5
