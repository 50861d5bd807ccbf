"""Build the packages in `dist`: wheels, the source, and what they are made of (CycloneDX).

Where cargo is installed, also the wheel of the native lane for this system. SHA256SUMS lists all of
them; gpg signs it where SIGN_KEY names a key.

    python -m tools.dist [--optional]

`--optional` ends well where the machine lacks what builds the console, and says so.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools import sbom
from tools.console import CannotBuildError, build_console, is_current

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"


def main(arguments: list[str]) -> int:
    """Build all three; the exit code."""
    try:
        if not is_current():
            build_console()
    except CannotBuildError as error:
        print(
            f"no packages: they contain the console, which is not built: {error}", file=sys.stderr
        )
        return 0 if "--optional" in arguments else 1
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(DIST)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return done.returncode
    for package in sorted(ROOT.glob("*/src/docgraph_*")):
        target = [*command, "--target", "wheel"]
        done = subprocess.run(
            target, cwd=package.parents[1], stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            return done.returncode
    (wheel,) = DIST.glob("docgraph-*.whl")
    version = wheel.name.split("-")[1]
    bill = DIST / f"docgraph-{version}.cdx.json"
    bill.write_text(json.dumps(sbom.build(), indent=2) + "\n")
    code = build_native(is_optional="--optional" in arguments) or write_sums(
        DIST, os.environ.get("SIGN_KEY")
    )
    for path in sorted(DIST.iterdir()):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1024:.0f} KiB")
    return code


def build_native(*, is_optional: bool) -> int:
    """Build the wheel of the native lane where cargo is; the exit code."""
    if shutil.which("cargo") is None:
        print("no wheel of the native lane: cargo is not installed", file=sys.stderr)
        return 0
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--wheel-dir", str(DIST), str(ROOT / "native")]
    done = subprocess.run(command, cwd=ROOT, check=False)
    if done.returncode:
        print("the wheel of the native lane cannot be built", file=sys.stderr)
    return 0 if is_optional else done.returncode


def write_sums(dist: Path, key: str | None) -> int:
    """Write the SHA-256 of each file for `sha256sum -c`, signed by the key; the exit code."""
    sums = dist / "SHA256SUMS"
    files = [path for path in sorted(dist.iterdir()) if not path.name.startswith(sums.name)]
    lines = [f"{compute_sum(path)}  {path.name}\n" for path in files]
    sums.write_text("".join(lines))
    if not key:
        return 0
    command = ["gpg", "--batch", "--yes", "--local-user", key, "--armor", "--detach-sign"]
    return subprocess.run([*command, str(sums)], check=False).returncode


def compute_sum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
