"""Sample data of the demo: authors, posts and comments from a seeded generator.

The documents are the same on every machine, and enough for lists and limits to matter. They have
relations in both directions and a value of every common BSON type.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta

from docgraph.codec.bson_types import Decimal128, Int64, ObjectId
from docgraph.exchange.data import Document

AUTHORS, POSTS, COMMENTS = 120, 1_500, 4_500
_SEED = 20_26
_START = datetime(2023, 1, 1, 8, 0)

_FIRST = (
    "Ada Alan Barbara Claude Donald Edsger Frances Grace Hedy Ida John Katherine Leslie".split()
)
_FIRST += "Margaret Niklaus Ole Pafnuty Radia Shafi Tony Ursula Vint Whitfield Yvonne Zoe".split()
_LAST = "Allen Boole Cerf Dijkstra Euler Floyd Goldberg Hopper Ito Johnson Knuth Lamport".split()
_LAST += "Moore Noether Ostrowski Perlman Quine Ritchie Shannon Turing Ulam Vaughan Wirth".split()
_TOPICS = "databases graphs queries indexes caching testing security design types streams".split()
_VERBS = "Understanding Measuring Taming Explaining Rethinking Debugging Shipping".split()
_STATUSES = ("published",) * 8 + ("draft", "archived")
_PRAISE = ("Well put.", "Thank you, this helped.", "I had the opposite experience.")
_DOUBTS = ("Does this hold for larger data?", "Which version was this?", "Any numbers on that?")


def build_blog() -> dict[str, list[Document]]:
    source = random.Random(_SEED)  # noqa: S311 - sample data, not a secret
    authors = list(_build_authors(source))
    posts = list(_build_posts(source, authors))
    comments = list(_build_comments(source, authors, posts))
    return {"authors": authors, "posts": posts, "comments": comments}


def _build_authors(source: random.Random) -> Iterator[Document]:
    for number in range(AUTHORS):
        first, last = source.choice(_FIRST), source.choice(_LAST)
        yield {
            "_id": number + 1,
            "name": f"{first} {last}",
            "email": f"{first}.{last}.{number + 1}@example.org".lower(),
            "joined": _START - timedelta(days=source.randrange(1000)),
            "karma": Int64(source.randrange(5_000_000_000)),
            "address": {
                "city": source.choice(("Arezzo", "Bergen", "Coimbra", "Delft", "Ghent", "Uppsala")),
                "geo": [round(source.uniform(-10, 20), 4), round(source.uniform(36, 65), 4)],
            },
            "topics": source.sample(_TOPICS, source.randrange(1, 4)),
            "editor": number % 10 == 0,
        }


def _build_posts(source: random.Random, authors: list[Document]) -> Iterator[Document]:
    for number in range(POSTS):
        topic = source.choice(_TOPICS)
        yield {
            "_id": ObjectId(source.randbytes(12)),
            "number": number + 1,
            "title": f"{source.choice(_VERBS)} {topic}, part {source.randrange(1, 9)}",
            "body": " ".join(source.choices(_TOPICS, k=source.randrange(30, 90))).capitalize(),
            "authorId": source.choice(authors)["_id"],
            "tags": [topic, *source.sample(_TOPICS, source.randrange(0, 3))],
            "status": source.choice(_STATUSES),
            "published": _START + timedelta(minutes=number * 997),
            "reads": source.randrange(20_000),
            "rating": round(source.uniform(1, 5), 1),
            "tips": Decimal128(f"{source.randrange(9_000) / 100:.2f}"),
        }


def _build_comments(
    source: random.Random, authors: list[Document], posts: list[Document]
) -> Iterator[Document]:
    for number in range(COMMENTS):
        post = source.choice(posts)
        kind = source.choice(("praise", "question"))
        comment = {
            "_id": ObjectId(source.randbytes(12)),
            "postId": post["_id"],
            "authorId": source.choice(authors)["_id"],
            "text": source.choice(_PRAISE if kind == "praise" else _DOUBTS),
            "written": post["published"] + timedelta(minutes=number % 10_000 + 1),
        }
        if kind == "question":
            comment["answered"] = source.random() < 0.4  # noqa: PLR2004
        else:
            comment["stars"] = source.randrange(1, 6)
        yield comment
