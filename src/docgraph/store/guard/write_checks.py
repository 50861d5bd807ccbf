"""Write checks: operators, stages and hidden properties of every write."""

from __future__ import annotations

from docgraph.exchange.data import Write
from docgraph.store.guard.rewrite import check_update
from docgraph.store.guard.shield import Paths, check_filter_paths
from docgraph.store.guard.stage_checks import UPDATE_STAGES, Policy, check_filter, check_pipeline


def check_write(write: Write, *, db: str, policy: Policy, hidden: Paths) -> None:
    """Raise for a forbidden write; `hidden` has the hidden properties of the collection."""
    check_filter(write.filter, policy=policy)
    if write.update is not None and "$pull" in write.update:
        check_filter(write.update["$pull"], policy=policy, origin="update.$pull")
    if write.pipeline is not None:
        check_pipeline(
            write.pipeline,
            db=db,
            policy=policy,
            origin="update",
            allowed=UPDATE_STAGES,
            trusted=False,
        )
    if hidden:
        check_filter_paths(write.filter, hidden)
        check_update(write.update or write.pipeline or {}, hidden)
