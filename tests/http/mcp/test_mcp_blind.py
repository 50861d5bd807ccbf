"""A scripted agent that knows no schema answers questions with the tools alone.

The number of calls and bytes that it needs is recorded and may not grow.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from bench import blind_agent
from bench.blind_agent import BlindAgent

from docgraph.codec import decode
from tests.docs.test_examples import EXAMPLES, ROOT, adapt
from tests.http.harness import Document, Mongo, Service, running
from tests.http.mcp_harness import AGENTS, use

pytestmark = pytest.mark.anyio

RECORD = ROOT / "bench/questions/blind.json"
QUESTIONS = {
    "agents": EXAMPLES / "agents/questions.json",
    "movies": ROOT / "bench/questions/blind_movies.json",
}


@pytest.mark.parametrize("example", QUESTIONS)
async def test_a_blind_agent_answers_the_questions(
    mongo_client: Mongo, mongo_uri: str, example: str
) -> None:
    async with running(mongo_client, mongo_uri, AGENTS) as service:
        for file in (EXAMPLES / example / "documents").glob("*.json"):
            service.insert(file.stem, *decode(file.read_bytes()))
        await service.store(adapt((EXAMPLES / example / "app.json").read_text(), service.db))
        agent, wrong = await _interview(service, json.loads(QUESTIONS[example].read_text()))

    record = json.loads(RECORD.read_text())[example]
    assert wrong == []
    assert agent.calls <= record["calls"]
    assert agent.bytes <= record["bytes"]


async def _interview(
    service: Service, questions: list[Document]
) -> tuple[BlindAgent, list[tuple[str, Any]]]:
    async def use_tool(name: str, arguments: Document) -> str:
        return (await use(service, name, **arguments)).text

    agent = BlindAgent(use_tool)
    wrong = []
    for one in questions:
        answer = await agent.answer(one["question"])
        if not _is_right(answer, one):
            wrong.append((one["question"], answer))
    print(json.dumps({"calls": agent.calls, "bytes": agent.bytes}))
    return agent, wrong


def _is_right(answer: Any, expected: Document) -> bool:
    if "is" in expected:
        return bool(answer == expected["is"])
    text = json.dumps(answer)
    return all(str(one) in text for one in expected["has"]) and not any(
        str(one) in text for one in expected.get("lacks", ())
    )


def test_the_agent_knows_no_name_of_a_schema() -> None:
    source = Path(blind_agent.__file__).read_text()
    for example in QUESTIONS:
        schema = json.loads((EXAMPLES / example / "app.json").read_text())["schema"]
        for name in set(re.findall(r"\btype (\w+)|^\s+(\w+)[(:]", schema, re.MULTILINE)):
            word = next(filter(None, name))
            if word not in ("Query", "name", "title", "titles"):
                assert not re.search(rf"['\"]{word}['\"]", source), word
