"""How often `search_schema` finds what a plain question is about; no model is needed.

The search was tuned with `tuning.json`. `held_back.json` was not used for that, but it has the same
author as the synonyms, and the tests run it: it shows regressions, not how well the search does
with questions of others. For that, write new ones about a schema of your own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from graphql import GraphQLSchema

from docgraph.codec import JsonMode
from docgraph.graphql.definition.schema import build_schema, parse_schema
from docgraph.graphql.schema_search import search_schema, split_words

HERE = Path(__file__).parent
EXAMPLES = HERE.parent.parent / "examples"
SETS = ("tuning", "held_back")
BAR = 0.9
_FIRST = 5


class Evaluation(NamedTuple):
    """The share of questions with a hit among the first five, and the others."""

    rate: float
    missed: list[str]


def evaluate(name: str) -> Evaluation:
    """Ask the questions of one set."""
    schemas = _load_schemas()
    missed = []
    questions = json.loads((HERE / f"{name}.json").read_text())
    for one in questions:
        hits = search_schema(schemas[one["schema"]], split_words(one["question"]))
        found = [hit.place for hit in hits[:_FIRST]]
        if not set(found) & set(one["expected"]):
            missed.append(f"{one['schema']}: {one['question']} {found}")
    return Evaluation(1 - len(missed) / len(questions), missed)


def print_outcome() -> None:
    """One line per set."""
    for name in SETS:
        rate, missed = evaluate(name)
        print(f"search_schema {name:10} hit rate at {_FIRST}: {rate:.0%}, bar {BAR:.0%}")
        for question in missed:
            print(f"  missed {question}")


def _load_schemas() -> dict[str, GraphQLSchema]:
    def load_example(name: str) -> Any:
        return json.loads((EXAMPLES / name / "app.json").read_text())["schema"]

    texts = {
        "shop": load_example("agents"),
        "movies": load_example("movies"),
        "clinic": (HERE / "clinic.graphql").read_text(),
    }
    return {
        name: build_schema(parse_schema(text), JsonMode.GRAPHQL_PLAIN)
        for name, text in texts.items()
    }
