"""Compile the test files once, before the processes of a run import them.

pytest rewrites the assertions of each file when it is first imported. Processes that start together
would each do that for all files, which takes most of the time of their collection in a fresh clone.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).parents[1]


def compile_tests() -> None:
    """Import what has no byte code yet, in as many children as there are cores."""
    if sys.dont_write_bytecode:
        return
    names = [
        ".".join(file.relative_to(_ROOT).with_suffix("").parts)
        for tests in (_ROOT / "tests", *_ROOT.glob("*/tests"))
        for file in sorted(tests.rglob("test_*.py"))
        if not _is_compiled(file)
    ]
    cores = os.cpu_count() or 1
    children = [_fork_import(names[first::cores]) for first in range(cores) if names]
    for child in children:
        os.waitpid(child, 0)


def _is_compiled(file: Path) -> bool:
    written = file.stat().st_mtime
    codes = (file.parent / "__pycache__").glob(
        f"{file.stem}.{sys.implementation.cache_tag}-pytest-*.pyc"
    )
    return any(code.stat().st_mtime >= written for code in codes)


def _fork_import(names: Sequence[str]) -> int:
    """Import these modules in a child; pytest itself reports those with errors later."""
    if child := os.fork():
        return child
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException:  # noqa: S112 - a skip of the whole module is no Exception
            continue
    os._exit(0)
