"""Write the tour of the README: commands, and what they print (`make tour`).

    python -m tools.tour

The commands are run against a new demo. Only times and the port differ from run to run; they are
replaced. A test runs the tour again and compares.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.demo import serve_demo

__all__ = ["README", "TOUR", "run_tour"]

ROOT: Final = Path(__file__).parents[1]
README: Final = ROOT / "README.md"
TOUR: Final = re.compile(r"(?<=## A two-minute tour\n).*?(?=\n## )", re.DOTALL)
# A sentence, and a command that shows it.
STEPS: Final = (
    (
        "Each post has an author, from another collection:",
        "curl -s http://127.0.0.1:8080/graphql/blog -H 'Content-Type: application/graphql' \\\n"
        "    -d '{ posts(limit: 2) { title author { name } } }'",
    ),
    (
        "The plan has one command for the posts and one for all authors:",
        "docgraph explain blog '{ posts(limit: 20) { title author { name } } }'",
    ),
    (
        "docgraph infers an app from your own collections. Here is one of its types:",
        "docgraph apps infer comments authors 2>notes.txt | sed -n '/^type Author {/,/^}/p'",
    ),
    (
        "It also reports how it found the relation:",
        "fold -s -w 100 notes.txt",
    ),
)


def run_tour() -> str:
    """Return the section of the README: each step with its output."""
    programs = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "NO_COLOR": "1"}
    parts = ["\nRun these commands while the demo runs, after `source .venv/bin/activate`.\n"]
    with tempfile.TemporaryDirectory() as place, serve_demo(Path(place)) as (address, _):
        for sentence, command in STEPS:
            done = subprocess.run(  # noqa: S602 - readers type them into a shell, too
                command.replace("http://127.0.0.1:8080", address),
                shell=True,
                cwd=place,
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            output = re.sub(r" *[\d.]+ ms", "   … ms", done.stdout).strip()
            output = "\n".join(line.rstrip() for line in output.splitlines())
            parts.append(f"{sentence}\n\n```console\n$ {command}\n{output}\n```\n")
    return "\n".join(parts)


def main() -> int:
    """Write the section into the README."""
    section = run_tour()
    README.write_text(TOUR.sub(lambda _: section, README.read_text(), count=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
