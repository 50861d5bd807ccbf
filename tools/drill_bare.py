"""Run the two commands of the README on a bare machine: a minimal Debian 12 in a directory.

    python tools/drill_bare.py [PYTEST_ARGUMENT ...]

Makes the tree with debootstrap, clones the last commit into it, carries over what this machine's
package registries need (pip's configuration, proxies, certificates) and runs
`drill_bare_inside.py` in it. Mounts and processes live in namespaces of their own, so that nothing
of them is left however this ends. Ends with 77 where the drill cannot be done, and says why.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

CANNOT = 77  # what test drivers take for "skipped"
ROOT = Path(__file__).parent.parent
MIRROR = os.environ.get("MIRROR")  # None: the one that debootstrap knows
PACKAGES = "python3,python3-venv,make,git,ca-certificates"
CHECKOUT = "/root/docgraph"
INSIDE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
# Inside the namespaces: what programs expect to be mounted, then the new root. The shell stays, as
# the first process of its namespace: it takes in those whose parents died, as a real one does.
ENTER = """
mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" && mount -t tmpfs tmpfs "$0/dev/shm" &&
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$0/dev/pts" &&
chroot "$0" "$@"
exit $?
"""
CARRIED = re.compile(
    r"PIP_\w+|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|NODE_EXTRA_CA_CERTS|TESTERS"
    r"|(?i:https?|all|no)_(?i:proxy)"
)
CARRIED_FILES = [
    *("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt"),
    *("/root/.config/pip/pip.conf", "/root/.pip/pip.conf"),
]


def check_means() -> None:
    """Refuse where the drill cannot be done."""
    for program in ("debootstrap", "chroot", "unshare", "git"):
        if shutil.which(program) is None:
            reject(f"{program} is not installed (Debian: apt-get install debootstrap)")
    if os.geteuid() != 0:
        reject("making and entering a Debian tree takes root")
    tried = subprocess.run([*NAMESPACES, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        reject(f"namespaces of mounts and processes are not allowed here: {tried.stderr.strip()}")


def reject(reason: str) -> None:
    """End with the status that says: not done."""
    print(f"{Path(sys.argv[0]).stem} cannot run here: {reason}", file=sys.stderr)
    raise SystemExit(CANNOT)


def carried_environment() -> dict[str, str]:
    """The variables that lead to the package registries, and how many testers the caller wants."""
    return {name: text for name, text in os.environ.items() if CARRIED.fullmatch(name)}


def make_tree(tree: Path, log: Path) -> None:
    """The minimal system, or the line of debootstrap that says why there is none."""
    print(f"making a minimal Debian 12 in {tree} (about two minutes)", flush=True)
    command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(tree)]
    with log.open("w") as output:
        done = subprocess.run(
            [*NAMESPACES, *command, *([MIRROR] if MIRROR else [])],
            env={**os.environ, **find_apt_proxy()},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        )
    if done.returncode:
        lines = log.read_text(errors="replace").split("\n")
        reject(f"debootstrap: {next((line for line in reversed(lines) if line), 'no output')}")


def find_apt_proxy() -> dict[str, str]:
    """The proxy of apt's configuration, which debootstrap does not read."""
    command = ["apt-config", "shell", "proxy", "Acquire::http::Proxy"]
    if shutil.which(command[0]) is None or "http_proxy" in os.environ:
        return {}
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(r"proxy='(.+)'", said)
    return {"http_proxy": found[1]} if found else {}


def copy_checkout(tree: Path, place: str) -> None:
    """Copy the files that git knows, as they are now."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in listing.stdout.decode().split("\0"):
        source, target = ROOT / name, tree / place[1:] / name
        if name and source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def clone_checkout(tree: Path) -> None:
    """A clone of the last commit, as a stranger gets it; changes that are not committed stay."""
    command = ["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(tree / CHECKOUT[1:])]
    subprocess.run(command, check=True)


def carry_over(tree: Path) -> None:
    """The files that the package registries need, at the same places."""
    for path in {*map(Path, CARRIED_FILES), *list_named_paths()}:
        target = tree / path.relative_to("/")
        if path.is_dir():
            shutil.copytree(path, target, dirs_exist_ok=True)
        elif path.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def list_named_paths() -> Iterator[Path]:
    """What the variables name that are carried over; system directories are there already."""
    for name, text in carried_environment().items():
        for word in text.split():
            if word.startswith("/") and name != "SSL_CERT_DIR":
                yield Path(word)


def run_inside(tree: Path, arguments: list[str]) -> int:
    """Run both commands in the tree, and return the status."""
    script = f"{CHECKOUT}/tools/drill_bare_inside.py"
    environment = {"PATH": INSIDE_PATH, "HOME": "/root", "LANG": "C.UTF-8", **carried_environment()}
    command = ["sh", "-c", ENTER, str(tree), "python3", script, *arguments]
    return subprocess.run([*NAMESPACES, *command], env=environment, check=False).returncode


def main(arguments: list[str]) -> int:
    """Make the tree, run the commands in it, take it away."""
    check_means()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="docgraph-bare-") as place:
        tree = Path(place, "tree")
        make_tree(tree, Path(place, "debootstrap.log"))
        clone_checkout(tree)
        carry_over(tree)
        return run_inside(tree, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
