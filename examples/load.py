"""Load the data of an example: `python examples/load.py examples/movies mongodb://127.0.0.1:27017`.

Each file of its `data` directory becomes the collection of that name in the database `docgraph`.
Without an address, it is that of the embedded MongoDB whose data lies in `./data`: `make run` is
running in this directory.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pymongo import MongoClient

from docgraph.codec import decode


def load(example: Path, uri: str, db: str = "docgraph") -> dict[str, int]:
    """Replace the collections of the example; how many documents each one has."""
    counts = {}
    with MongoClient[dict[str, Any]](uri) as client:
        for file in sorted((example / "data").glob("*.json")):
            documents = decode(file.read_bytes())
            collection = client[db][file.stem]
            collection.drop()
            collection.insert_many(documents)
            counts[file.stem] = len(documents)
    return counts


def find_embedded(directory: Path = Path("data")) -> str:
    """The address of the embedded MongoDB that runs on that directory."""
    noted = directory / "mongod.json"
    if not noted.is_file():
        sys.exit(f"{directory} has no {noted.name}: start `make run` here, or name an address")
    port = json.loads(noted.read_text())["port"]
    return f"mongodb://127.0.0.1:{port}/?directConnection=true"


if __name__ == "__main__":
    uri = sys.argv[2] if len(sys.argv) > 2 else find_embedded()  # noqa: PLR2004
    for name, count in load(Path(sys.argv[1]), uri).items():
        print(f"{name}: {count} documents")
