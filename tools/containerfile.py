"""Reads a Containerfile, as far as ours goes: stages of instructions, each built on another one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["CONTAINERFILE", "Instruction", "Stage", "read_stages"]

CONTAINERFILE = Path(__file__).parent.parent / "Containerfile"
KNOWN = frozenset(
    "RUN COPY ENV WORKDIR USER EXPOSE STOPSIGNAL HEALTHCHECK ENTRYPOINT CMD VOLUME".split()
)


@dataclass(frozen=True)
class Instruction:
    """One line: `RUN`, and what stands behind it."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """The command, where it is a list in JSON; options in front of it are left out."""
        found = re.search(r"\[.*\]", self.text)
        words: list[str] = json.loads(found[0]) if found else []
        return words


@dataclass
class Stage:
    """A named stage; `parent` is the one that it is built on, None for the image of the outside."""

    name: str
    parent: Stage | None = None
    own: list[Instruction] = field(default_factory=list)

    @property
    def instructions(self) -> list[Instruction]:
        """Everything that is done for it, in order."""
        return [*(self.parent.instructions if self.parent else ()), *self.own]

    def last(self, name: str) -> Instruction:
        """The instruction of that name that counts."""
        return [one for one in self.instructions if one.name == name][-1]


def read_stages(text: str) -> dict[str, Stage]:
    """The stages by name, in their order: the last one is what is built by default."""
    stages: dict[str, Stage] = {}
    current: Stage | None = None
    for name, rest in _read_lines(text):
        if name == "ARG":
            continue
        if name == "FROM":
            base, _, own_name = rest.split()
            current = stages[own_name] = Stage(own_name, stages.get(base))
        elif name in KNOWN and current is not None:
            current.own.append(Instruction(name, rest))
        else:
            raise ValueError(f"{name} is not understood here")
    return stages


def _read_lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            yield name, rest.strip()
