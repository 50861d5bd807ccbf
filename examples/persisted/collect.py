"""Prints `operations` for `app.yml` from what the compilers of Apollo and Relay have written.

    python collect.py manifest.json      # of @apollo/generate-persisted-query-manifest
    python collect.py persisted.json     # of relay-compiler, persistConfig.file

Texts stay as they are, byte for byte: their SHA-256 is what the clients send.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAME = re.compile(r"\s*query\s+([A-Za-z][A-Za-z0-9_]{0,39})\b")


def find_texts(content: dict[str, Any]) -> Iterator[str]:
    """The texts of a manifest of Apollo, or of Relay's file of texts by hash."""
    if content.get("format") == "apollo-persisted-query-manifest":
        yield from (one["body"] for one in content["operations"])
    else:
        yield from content.values()


def main() -> None:
    """One entry per query; JSON is YAML, too."""
    print("  operations:")
    for path in sys.argv[1:]:
        for text in find_texts(json.loads(Path(path).read_text())):
            name = NAME.match(text)
            if name is None:
                sys.exit(f"{path}: not a query with a name of up to 40 characters: {text[:60]!r}")
            print("    -", json.dumps({"name": name[1], "query": text}, ensure_ascii=False))


if __name__ == "__main__":
    main()
