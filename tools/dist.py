"""Build the packages in `dist`: a wheel, the source, and what they are made of (CycloneDX).

    python -m tools.dist [--optional]

`--optional` ends well where the machine lacks what builds the console, and says so.
"""

from __future__ import annotations

import json
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
    (wheel,) = DIST.glob("*.whl")
    version = wheel.name.split("-")[1]
    bill = DIST / f"docgraph-{version}.cdx.json"
    bill.write_text(json.dumps(sbom.build(), indent=2) + "\n")
    for path in sorted(DIST.iterdir()):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
