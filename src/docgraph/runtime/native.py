"""The native lane: the optional extension `docgraph-native`, which renders BSON as JSON.

Everything works without it, with the same bytes. A user of it calls `find_native` and, on a
`Misfit`, lets the Python lane produce the answer or the error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol

from docgraph import __version__
from docgraph.observe import emit
from docgraph.observe.engine_events import NativeIgnored

VARIABLE: Final = "DOCGRAPH_NATIVE"
_MODULE: Final = "docgraph_native"
_OFF: Final = frozenset({"off", "0", "false", "no"})
_MISSING: Final = "docgraph-native is not installed"

Buffer = bytes | bytearray | memoryview
Columns = Sequence[Sequence[bytes]]
Decode = Callable[[bytes], Mapping[str, Any]]


class NativeBatch(Protocol):
    """Documents as the database sent them."""

    head: bytes  # the reply without its documents and the times of the cluster
    size: int  # of all documents, in bytes
    largest: int  # bytes of the largest document

    def __len__(self) -> int: ...

    def slice(self, index: int) -> memoryview:
        """Return one document, encoded."""

    def documents(self) -> list[bytes]:
        """Return a copy of each document, encoded."""

    def cut(self, size: int) -> list[tuple[int, int]]:
        """Return the positions that divide the documents into parts of at least `size` bytes."""

    def part(self, start: int, stop: int) -> NativeBatch:
        """Return the documents from `start` up to `stop`, without copies."""

    def pick(self, indexes: Sequence[int]) -> NativeBatch:
        """Return the documents with these positions, in this order, without copies."""

    def values(self, path: Sequence[str], decode: Decode) -> list[Any]:
        """Return the value of the path in each document, decoded together; missing is None."""


NativeDocuments = NativeBatch | Sequence[bytes]


class NativeProgram(Protocol):
    """A compiled output program."""

    def render_list(
        self, documents: NativeDocuments, columns: Columns = (), max_bytes: int | None = None
    ) -> bytes:
        """Return one JSON array; `columns` has a list of JSON texts for each slot."""

    def render_lists(
        self,
        documents: NativeDocuments,
        ends: Sequence[int],
        columns: Columns = (),
        max_bytes: int | None = None,
    ) -> list[bytes]:
        """Return several JSON arrays: each has the documents from the end of the previous one."""

    def render_each(
        self, documents: NativeDocuments, columns: Columns = (), max_bytes: int | None = None
    ) -> list[bytes]:
        """Return one JSON text for each document."""


class NativeLane(NamedTuple):
    """The interface of the native extension."""

    split_reply: Callable[[Buffer], NativeBatch]
    build_batch: Callable[[Sequence[Buffer]], NativeBatch]
    build_program: Callable[[Sequence[tuple[Any, ...]], str], NativeProgram]
    build_whole: Callable[[str, Sequence[str]], NativeProgram]
    # Of programs by the text of a field that decides which one renders a document.
    build_choice: Callable[[str, Mapping[str, NativeProgram]], NativeProgram]
    # The size of all documents in bytes; None if some are no `bytes`.
    measure: Callable[[Sequence[Any]], int | None]
    # The values of a field of each document, and documents with some of their fields.
    read_field: Callable[[Sequence[bytes], str, Decode, object], list[Any]]
    view: Callable[[Sequence[bytes], Sequence[str], Decode], list[Any]]
    # The documents of keys by a field. Lists: documents key by key, where those of each key end,
    # and the key of each parent. Firsts: documents, and which of them each parent has.
    join_lists: Callable[
        [Sequence[bytes], str, Sequence[Any], int], tuple[list[bytes], list[int], list[int]]
    ]
    join_firsts: Callable[
        [Sequence[bytes], str, Sequence[Any]], tuple[list[bytes], list[int | None]]
    ]
    misfit: type[Exception]  # with the `index` of the document, -1 for the reply itself


class _LoadResult(NamedTuple):
    lane: NativeLane | None
    reason: str = ""  # why there is none
    is_ignored: bool = False  # it is installed, and does not fit


def find_native() -> NativeLane | None:
    """Return the native lane; None if it is not installed, does not fit, or is turned off."""
    return _load().lane


def explain_lane() -> str:
    """Return which lane renders documents, and why."""
    lane, reason, _ = _load()
    return f"native, docgraph-native {__version__}" if lane is not None else f"Python: {reason}"


def name_lane() -> str:
    """Return the lane that renders documents: `native` or `python`."""
    return "python" if find_native() is None else "native"


def report_native() -> None:
    """Emit an event if the extension is installed and does not fit."""
    result = _load()
    if result.is_ignored:
        emit(NativeIgnored(result.reason))


@cache
def _load() -> _LoadResult:
    try:
        return _import_lane()
    except AttributeError:  # of our version, and built from older sources
        return _LoadResult(
            None, "docgraph-native lacks a function: build it again", is_ignored=True
        )


def _import_lane() -> _LoadResult:
    if os.environ.get(VARIABLE, "").strip().lower() in _OFF:
        return _LoadResult(None, f"{VARIABLE} turns the native lane off")
    try:
        module: Any = import_module(_MODULE)
    except ModuleNotFoundError:
        return _LoadResult(None, _MISSING)
    except ImportError:  # of another system, or damaged
        return _LoadResult(None, "docgraph-native cannot be loaded", is_ignored=True)
    version = getattr(module, "__version__", "unknown")
    if version != __version__:
        reason = f"docgraph-native is {version}, docgraph is {__version__}"
        return _LoadResult(None, reason, is_ignored=True)
    program = module.Program
    for name in _list_members(NativeBatch):
        getattr(module.Batch, name)
    for name in _list_members(NativeProgram):
        getattr(program, name)
    return _LoadResult(
        NativeLane(
            module.split_reply,
            module.Batch,
            program,
            program.whole,
            program.choice,
            module.measure,
            module.read_field,
            module.view,
            module.join_lists,
            module.join_firsts,
            module.Misfit,
        )
    )


def _list_members(protocol: type) -> list[str]:
    """Return the public names of a class that the extension has."""
    return [name for name in (*vars(protocol), *protocol.__annotations__) if name[0] != "_"]
