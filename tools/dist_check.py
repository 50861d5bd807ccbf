"""Install the wheel of `dist` in a clean environment, and run it from an empty directory.

    python tools/dist_check.py [--borrow] [--optional]

The packages that docgraph needs come from the registry; with `--borrow` they are those of the
environment that this runs in, which takes a few seconds and no network. `--optional` ends well
where there is no wheel.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
PATIENCE = 120  # seconds for each step
NOBODY = "mongodb://127.0.0.1:9/"  # a server says that it is ready also without its database
WHEEL_HAS = ("docgraph/console/static/manifest.json", "docgraph/examples/chat/page.html")
SOURCE_HAS = (
    "LICENSE",
    "Makefile",
    "constraints.txt",
    "tests/conftest.py",
    "native/Cargo.toml",
    WHEEL_HAS[0],
)


class Wrong(Exception):
    """What somebody who installs it would run into."""


def check_contents(wheel: Path, source: Path) -> None:
    """Both hold what they have to, and the description is one for an index."""
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        (described,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        check_metadata(Parser().parsestr(packed.read(described).decode()))
    require(WHEEL_HAS, names, wheel)
    with tarfile.open(source) as tree:
        require(SOURCE_HAS, tree.getnames(), source)


def require(wanted: tuple[str, ...], names: list[str], package: Path) -> None:
    """Every wanted file is there."""
    missing = [one for one in wanted if not any(name.endswith(one) for name in names)]
    if missing:
        raise Wrong(f"{package.name} lacks {', '.join(missing)}")


def check_metadata(metadata: Message) -> None:
    """No addresses of the project, and a text that an index can show."""
    for name in ("Project-URL", "Home-page", "Author-email", "Maintainer-email", "Download-URL"):
        if metadata[name] is not None:
            raise Wrong(f"the package has the address {name}: {metadata[name]}")
    if metadata["Description-Content-Type"] != "text/markdown":
        raise Wrong("the description is not Markdown")
    text = str(metadata.get_payload())
    if not text.startswith("# docgraph"):
        raise Wrong("the description is not the README")
    if found := re.search(r"\]\((?!https?:)[^)]*\)|^<\w+", text, re.MULTILINE):
        raise Wrong(f"the description has what an index cannot show: {found[0]}")


def install(wheel: Path, place: Path, *, borrow: bool) -> Path:
    """A new environment with the wheel in it; the directory of its programs."""
    environment = place / "environment"
    run([sys.executable, "-m", "venv", "--without-pip", str(environment)], place)
    programs = environment / "bin"
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install", "--quiet"]
    pip.append("--disable-pip-version-check")
    if borrow:
        (packages,) = environment.glob("lib/python*/site-packages")
        ours = next(one for one in sys.path if one.endswith("site-packages"))
        (packages / "borrowed.pth").write_text(f"{ours}\n")
        run([*pip, "--no-deps", "--no-index", str(wheel)], place)
    else:
        run([*pip, "-c", str(ROOT / "constraints.txt"), str(wheel)], place)
    return programs


def run(command: list[str], place: Path) -> str:
    """What a program prints; raises `Wrong` with its last words when it fails."""
    done = subprocess.run(
        command,
        cwd=place,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise Wrong(f"{' '.join(command[:4])} … ended with {done.returncode}: {' '.join(said)}")
    return done.stdout


def clean_environment() -> dict[str, str]:
    """Ours without what would lead Python or docgraph back to this checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DOCGRAPH")}
    return {name: kept[name] for name in kept if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def check_commands(programs: Path, place: Path) -> None:
    """The commands that need no server."""
    run([str(programs / "docgraph"), "version"], place)
    imported = "import docgraph; print(docgraph.__file__)"
    where = run([str(programs / "python"), "-c", imported], place)
    if not where.startswith(str(programs.parent)):
        raise Wrong(f"docgraph was imported from {where.strip()}")
    run([str(programs / "docgraph"), "examples", "chat", "mine"], place)
    if not (place / "mine/docgraph.yml").is_file():
        raise Wrong("docgraph examples has copied nothing")


def check_server(programs: Path, place: Path) -> None:
    """A server starts, answers, has the console, and stops."""
    options = [f"--set=/mclient/connection-string={NOBODY}", "--port=0"]
    with subprocess.Popen(
        [str(programs / "docgraph"), "serve", *options],
        cwd=place,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        try:
            address = process.stdout.readline().split()[2]
            ask(f"{address}/ping")
            page = ask(f"{address}/console")
            script = re.search(r'<script type="module" src="([^"]+)"', page)
            if script is None:
                raise Wrong("the page of the console has no script")
            ask(f"{address}{script[1]}")
        except IndexError:
            raise Wrong("the server did not say that it is ready") from None
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(PATIENCE)
    if code:
        raise Wrong(f"the server ended with {code}")


def ask(address: str) -> str:
    """The text at an address; whatever a proxy of the machine says."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(address, timeout=PATIENCE) as reply:
        return str(reply.read().decode())


def main(arguments: list[str]) -> int:
    """Everything, in a directory that is gone afterwards."""
    found = [*DIST.glob("docgraph-*.whl"), *DIST.glob("docgraph-*.tar.gz")]
    if len(found) != len(("wheel", "source")):
        print("there is no package to check: make dist", file=sys.stderr)
        return 0 if "--optional" in arguments else 1
    try:
        check_contents(*found)
        with tempfile.TemporaryDirectory() as name:
            place = Path(name, "empty")
            place.mkdir()
            programs = install(found[0], Path(name), borrow="--borrow" in arguments)
            check_commands(programs, place)
            check_server(programs, place)
    except (Wrong, OSError) as error:
        print(f"the package is not good: {error}", file=sys.stderr)
        return 1
    print(f"{found[0].name} installs, and runs from an empty directory")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
