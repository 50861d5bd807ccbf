"""A WebSocket that sends back what it gets, for the fuzzing client of Autobahn."""

from __future__ import annotations

from typing import Any, ClassVar

from wsproto.events import Message

from docgraph import Answer, Exchange, Service, Upgrade


class Echo(Service):
    """`/echo`."""

    name: ClassVar[str] = "echo"
    description: ClassVar[str] = "sends back what it gets"
    uri: ClassVar[str] = "/echo"
    secured: ClassVar[bool] = False

    async def handle(self, exchange: Exchange) -> Answer:
        async def echo(socket: Any) -> None:
            while (message := await socket.receive()) is not None:
                socket._write(
                    Message(data=message)
                )  # services send texts only, this one bytes, too

        return Upgrade(echo)
