"""The output program of a selection on an interface or union whose types a text decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docgraph.runtime.native import NativeProgram, find_native

_MAX_TEXTS = 100  # that decide types and are remembered, per selection


class TypeChoice:
    """The output program of a selection whose types the text of a field decides.

    It knows the texts that were resolved; a document with another one does not fit.
    """

    __slots__ = ("_programs", "program")

    def __init__(self) -> None:
        self._programs: dict[str, NativeProgram] = {}
        self.program: NativeProgram | None = None

    def add(self, name: str, types: Mapping[str, str | None], blocks: Mapping[str, Any]) -> None:
        """Add texts with their types, unless objects of these need more than their document."""
        programs = dict(self._programs)
        for text, type_name in types.items():
            block = blocks.get(type_name or "")
            if block is not None and block.program is not None and not block.fetches:
                programs[text] = block.program
        native = find_native()
        if native is not None and len(self._programs) < len(programs) <= _MAX_TEXTS:
            self._programs = programs
            self.program = native.build_choice(name, programs)
