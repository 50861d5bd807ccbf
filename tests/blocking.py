"""The watch for calls that block an event loop, as cheap as calls of the database are many.

Blockbuster walks the stack of every call that might block and looks at each frame anew: that took
a good part of what a short test costs. What a file is does not change.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import blockbuster.blockbuster as buster
import pytest

_MayBlock = list[tuple[str, Iterable[str]]]


class _Files:
    """What each file has to say: nothing, or that it is watched, or which functions may block."""

    def __init__(
        self, watched: Sequence[str], unwatched: Sequence[str], may_block: _MayBlock
    ) -> None:
        self._watched, self._unwatched = tuple(watched), tuple(unwatched)
        self._may_block = may_block
        self._telling: dict[str, tuple[bool, frozenset[str]]] = {}
        self._silent: set[str] = set()

    def forbid(self) -> bool:
        """Whether watched code is on the stack of the wrapper's caller, and none that may block."""
        frame: FrameType | None = sys._getframe(2)
        is_watched, silent = not self._watched, self._silent
        while frame is not None:
            code = frame.f_code
            if code.co_filename not in silent:
                watched, may_block = self._look(code.co_filename)
                if code.co_name in may_block:
                    return False
                is_watched = is_watched or watched
            frame = frame.f_back
        return is_watched

    def _look(self, name: str) -> tuple[bool, frozenset[str]]:
        if (known := self._telling.get(name)) is not None:
            return known
        watched = name.startswith(self._watched) and not name.startswith(self._unwatched)
        path = name.replace("\\", "/")
        functions = (functions for end, functions in self._may_block if path.endswith(end))
        found = (watched, frozenset[str]().union(*functions))
        if any(found):
            self._telling[name] = found
        else:
            self._silent.add(name)
        return found


def _wrap(
    modules: Sequence[str],
    excluded_modules: Sequence[str],
    func: Callable[..., Any],
    func_name: str,
    can_block_functions: _MayBlock,
    can_block_predicate: Callable[..., bool],
) -> Callable[..., Any]:
    """What `_wrap_blocking` of Blockbuster makes."""
    files, skip = _Files(modules, excluded_modules, can_block_functions), buster._skip

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if asyncio._get_running_loop() is None or skip.value:
            return func(*args, **kwargs)
        skip.value = True
        try:
            if not can_block_predicate(*args, **kwargs) and files.forbid():
                raise buster.BlockingError(func_name)
            return func(*args, **kwargs)
        finally:
            skip.value = False

    return wrapper


@contextmanager
def watching(module: str) -> Iterator[buster.BlockBuster]:
    """Calls of a module's code that block an event loop raise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buster, "_wrap_blocking", _wrap)
        with buster.blockbuster_ctx(module) as blocking:
            yield blocking
