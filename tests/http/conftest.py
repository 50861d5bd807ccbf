"""As everywhere no blocking calls, but for one of the driver when a client is made."""

from __future__ import annotations

from collections.abc import Iterator

import blockbuster.blockbuster as buster
import pytest


@pytest.fixture(autouse=True)
def blocking_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The driver looks once per client whether it runs in a container."""
    seen: list[str] = []

    class RecordedBlockingError(buster.BlockingError):
        def __init__(self, function: str) -> None:
            super().__init__(function)
            seen.append(function)

    monkeypatch.setattr(buster, "BlockingError", RecordedBlockingError)
    with buster.blockbuster_ctx("docgraph") as blocking:
        blocking.functions["os.stat"].can_block_in(
            "pymongo/pool_options.py", {"get_container_env_info"}
        )
        yield seen
    if seen:
        pytest.fail(f"blocking call in the event loop: {', '.join(seen)}")
