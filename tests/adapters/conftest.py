"""Requests, and a real HTTP server on the loopback interface whose misbehaviour a test scripts."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from benchtrial.adapters import ChoiceAnswer, Message, PairCell, Request

Behaviour = Callable[["Exchange"], Awaitable[None]]


@dataclass
class Exchange:
    """One request that arrived, and the raw connection on which to answer it."""

    head: str
    body: bytes
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(
        self, body: str | dict[str, Any], *, status: int = 200, headers: str = "", kind: str = ""
    ) -> None:
        """Send a complete, well-formed response."""
        text = body if isinstance(body, str) else json.dumps(body)
        kind = kind or "application/json"
        data = text.encode()
        await self.send(
            f"HTTP/1.1 {status} Said\r\nContent-Type: {kind}\r\n{headers}"
            f"Content-Length: {len(data)}\r\n\r\n".encode()
            + data
        )


@dataclass
class Server:
    """A server that is listening."""

    url: str
    exchanges: list[Exchange] = field(default_factory=list)


Serve = Callable[[Behaviour], AbstractAsyncContextManager[Server]]


@pytest.fixture
def serve() -> Serve:
    """Return a context manager that serves a scripted behaviour on 127.0.0.1."""

    @asynccontextmanager
    async def listening(behaviour: Behaviour) -> AsyncIterator[Server]:
        server_state = Server("")
        tasks: set[asyncio.Task[None]] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            try:
                while True:
                    head = (await reader.readuntil(b"\r\n\r\n")).decode()
                    length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
                    exchange = Exchange(head, await reader.readexactly(length), writer)
                    server_state.exchanges.append(exchange)
                    await behaviour(exchange)
                    if writer.is_closing():
                        return
            except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                pass
            finally:
                writer.close()
                tasks.discard(task)

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server_state.url = f"http://127.0.0.1:{port}/v1"
        try:
            yield server_state
        finally:
            server.close()
            for task in [*tasks]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    return listening


def completion(content: str | None = '{"winner": "A"}', **choice: Any) -> dict[str, Any]:
    """Compose a well-formed chat completion."""
    return {
        "id": "chatcmpl-1",
        "model": "judge-2026",
        "system_fingerprint": "fp_1",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": content},
                **choice,
            }
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107},
    }


@pytest.fixture(name="completion")
def completion_fixture() -> Callable[..., dict[str, Any]]:
    """Return the function that composes a well-formed chat completion."""
    return completion


@pytest.fixture
def request_for_pair() -> Request:
    """One pairwise question."""
    return Request(
        key="q" * 64,
        cell=PairCell("judge-1", "prompt-1", "alpha", "beta", "quality"),
        messages=(Message("system", "Judge."), Message("user", "A or B?")),
        answer=ChoiceAnswer(("A", "B", "tie")),
        max_output_tokens=50,
        parameters={"temperature": 0},
    )
