"""Do once what each process of the first run in a clone would do: compile, and list characters.

pytest rewrites the assertions of each file when it is first imported. Processes that start together
would each do that for all files, which takes most of the time of their collection in a fresh clone.
Hypothesis tries every character once, and stores the result for later runs.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from hypothesis import strategies

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
    tasks: list[Callable[[], object]] = [strategies.text().validate]
    tasks += [partial(_import_modules, names[first::cores]) for first in range(cores)]
    children = [_fork(task) for task in tasks if names]
    for child in children:
        os.waitpid(child, 0)


def _is_compiled(file: Path) -> bool:
    written = file.stat().st_mtime
    codes = (file.parent / "__pycache__").glob(
        f"{file.stem}.{sys.implementation.cache_tag}-pytest-*.pyc"
    )
    return any(code.stat().st_mtime >= written for code in codes)


def _fork(task: Callable[[], object]) -> int:
    """Do this in a child; return its process id."""
    if child := os.fork():
        return child
    try:
        task()
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    os._exit(0)


def _import_modules(names: Sequence[str]) -> None:
    """Import these modules; pytest itself reports those with errors later."""
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException:  # noqa: S112 - a skip of the whole module is no Exception
            continue
