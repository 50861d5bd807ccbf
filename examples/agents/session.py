"""What an agent does, written down: find the app, read its schema, ask, be refused, ask better.

    python examples/agents/session.py http://127.0.0.1:8080/mcp ada:secret

prints what the tools tell; `session.txt` is what comes out with the data of this example.
"""

from __future__ import annotations

import asyncio
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def converse(url: str, credentials: str) -> None:
    """One session, from the first look to the answer."""
    user, _, password = credentials.partition(":")
    async with (
        httpx2.AsyncClient(auth=(user, password), timeout=30) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        tools = (await client.list_tools()).tools
        print("tools:", ", ".join(tool.name for tool in tools))
        await use(client, "list_apps")
        await use(client, "search_schema", words="orders status")
        await use(client, "get_schema", app="shop", types=["Product"])
        await use(client, "run_query", app="shop", query="{ products { name cost } }")
        query = '{ products(category: "kitchen") { name price } }'
        await use(client, "explain_query", app="shop", query=query)
        await use(client, "run_query", app="shop", query=query)
        await use(client, "shop__openOrders", limit=2)


async def use(client: Client, tool: str, **arguments: object) -> None:
    """Call a tool, and print what it tells."""
    told = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    print(f"\n> {tool}({told})")
    result = await client.call_tool(tool, arguments)
    for content in result.content:
        text = getattr(content, "text", content)
        print(f"refused: {text}" if result.is_error else text)


if __name__ == "__main__":
    asyncio.run(converse(sys.argv[1], sys.argv[2]))
