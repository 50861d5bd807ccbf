"""Recorder of dependencies: what the commands of one execution read."""

from __future__ import annotations

from docgraph.graphql.freshness.dependency import Dependency
from docgraph.store import Store


class DependencyRecorder:
    """Records what the commands of one execution read; pass it to `execute`."""

    async def finish(self, store: Store) -> tuple[Dependency, ...] | str:
        """Return the dependencies of the execution, or the reason why they cannot be tracked."""
        raise NotImplementedError
