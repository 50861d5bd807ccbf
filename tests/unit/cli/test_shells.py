"""Completion in the shells themselves, and the unit of the page on going live in systemd itself."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.programs import open_terminal, require

COMMAND = Path(sys.executable).with_name("docgraph")
SECONDS = 60.0


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A home without settings, and docgraph in the path."""
    path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(tmp_path), "TERM": "dumb", "LC_ALL": "C.UTF-8"}


def run(*command: str, env: dict[str, str]) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, check=True, env=env
    )
    assert done.stderr == ""
    return done.stdout


def test_bash_completes(environment: dict[str, str]) -> None:
    script = (
        'eval "$(docgraph completion bash)"; COMP_WORDS=(docgraph apps ap); COMP_CWORD=2; '
        '_docgraph_completion docgraph; echo "${COMPREPLY[@]}"'
    )
    require("bash")
    assert run("bash", "-c", script, env=environment) == "apply\n"


def test_fish_completes_and_describes(environment: dict[str, str]) -> None:
    """Commas included."""
    script = "docgraph completion fish | source; complete -C 'docgraph ap'"
    require("fish")
    told = run("fish", "--no-config", "-c", script, env=environment)
    assert told == "apps\tApply, check and inspect GraphQL app...\n"


def test_zsh_completes(environment: dict[str, str], tmp_path: Path) -> None:
    """In an interactive shell: nothing else completes there."""
    require("zsh")
    told = tmp_path / "told"
    with interactive("zsh", environment) as terminal:
        terminal.type("autoload -Uz compinit; compinit -u -D\n")
        terminal.type('eval "$(docgraph completion zsh)"\n')
        terminal.type(f'tell() {{ print -r -- "$BUFFER" > {told} }}; zle -N tell\n')
        terminal.type("bindkey '^Xt' tell\n")
        terminal.type("docgraph complet\t\x18t")
        terminal.read_until(lambda: told.exists() and told.read_text() != "")
        assert told.read_text() == "docgraph completion \n"


class Terminal:
    """A shell that believes that somebody types."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def read_until(self, is_done: Callable[[], bool]) -> None:
        """Read what it draws, without which it would stop."""
        end = time.monotonic() + SECONDS
        while not is_done():
            assert time.monotonic() < end
            if select.select([self._descriptor], [], [], 0.05)[0]:
                os.read(self._descriptor, 65_536)


@contextmanager
def interactive(shell: str, env: dict[str, str]) -> Iterator[Terminal]:
    """The shell, without anybody's settings."""
    ours, theirs = open_terminal()
    process = subprocess.Popen(
        [shell, "-f", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=env,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(ours)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(SECONDS)
        os.close(ours)
