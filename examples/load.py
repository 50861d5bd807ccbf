"""Load the data of an example: `python examples/load.py examples/movies mongodb://127.0.0.1:27017`.

Each file of its `data` directory becomes the collection of that name in the database `docgraph`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pymongo import MongoClient

from docgraph.codec import decode


def load(example: Path, uri: str, db: str = "docgraph") -> dict[str, int]:
    """Replace the collections of the example; how many documents each one has."""
    counts = {}
    with MongoClient(uri) as client:
        for file in sorted((example / "data").glob("*.json")):
            documents = decode(file.read_bytes())
            collection = client[db][file.stem]
            collection.drop()
            collection.insert_many(documents)
            counts[file.stem] = len(documents)
    return counts


if __name__ == "__main__":
    for name, count in load(Path(sys.argv[1]), sys.argv[2]).items():
        print(f"{name}: {count} documents")
