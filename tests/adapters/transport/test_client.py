"""The transport against a real HTTP server on the loopback interface, at its worst."""

import asyncio
import gzip
import html
import inspect
import json
import shutil
import ssl
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchtrial.adapters.keys import Secret
from benchtrial.adapters.transport import HttpClient, HttpResponse, checked_base_url, network_error
from benchtrial.adapters.transport.client import without_secrets
from benchtrial.errors import (
    InputError,
    JudgeError,
    JudgeUnavailable,
    RateLimited,
    TerminalError,
    TransientError,
)

HEADERS_ONLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
KEY = Secret("sk-test-SECRET123")


def exchange(serve: Any, behaviour: Callable[..., Awaitable[None]], **options: Any) -> Any:
    """Post once to a server that behaves so; return the response or the error, and the requests."""

    async def main() -> tuple[HttpResponse | JudgeError, list[Any]]:
        async with serve(behaviour) as server:
            client = HttpClient(
                server.url,
                who="judge 'x'",
                secret_headers={"Authorization": KEY.prefixed("Bearer ")},
                **options,
            )
            outcome: HttpResponse | JudgeError
            try:
                outcome = await client.post_json("/chat/completions", {"text": "é"})
            except JudgeError as error:
                outcome = error
            await client.close()
            await client.close()
            return outcome, server.exchanges

    return asyncio.run(main())


def test_one_request_goes_out_with_the_key_and_the_body(serve: Any) -> None:
    async def behaviour(received: Any) -> None:
        await received.answer(
            "\N{BYTE ORDER MARK}" + '{"ok": "ü"}', headers="X-Request-Id: r-1\r\n"
        )

    response, requests = exchange(serve, behaviour)
    assert (response.status, response.payload(), response.request_id) == (200, {"ok": "ü"}, "r-1")
    assert response.latency > 0
    (request,) = requests
    assert request.head.startswith("POST /v1/chat/completions HTTP/1.1")
    assert "authorization: bearer sk-test-secret123" in request.head.lower()
    assert request.body == '{"text": "é"}'.encode()


def test_headers_and_then_silence_end_at_the_time_limit(serve: Any) -> None:
    async def behaviour(received: Any) -> None:
        await received.send(HEADERS_ONLY)
        await asyncio.sleep(60)

    error, requests = exchange(serve, behaviour, timeout_s=0.3)
    assert isinstance(error, TransientError)
    assert error.may_be_billed
    assert len(requests) == 1


def test_one_byte_at_a_time_ends_at_the_time_limit_although_no_read_stalls(serve: Any) -> None:
    async def behaviour(received: Any) -> None:
        await received.send(HEADERS_ONLY)
        for _ in range(600):
            await received.send(b" ")
            await asyncio.sleep(0.05)

    started = time.perf_counter()
    error, _ = exchange(serve, behaviour, timeout_s=0.4)
    assert isinstance(error, TransientError)
    assert error.may_be_billed
    assert "0.4 s" in str(error)
    # The limit plus closing the connection; without a total limit this would take 30 s.
    assert 0.4 <= time.perf_counter() - started < 3


def test_a_slow_body_within_the_time_limit_arrives_whole(serve: Any) -> None:
    async def behaviour(received: Any) -> None:
        await received.send(HEADERS_ONLY)
        for _ in range(10):
            await asyncio.sleep(0.01)
            await received.send(b"0123456789")

    response, _ = exchange(serve, behaviour, timeout_s=30)
    assert response.text == "0123456789" * 10


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Le", HEADERS_ONLY + b'{"a'])
def test_a_dropped_connection_may_have_been_billed(serve: Any, sent: bytes) -> None:
    async def behaviour(received: Any) -> None:
        await received.send(sent)
        received.writer.close()

    error, requests = exchange(serve, behaviour)
    assert isinstance(error, TransientError)
    assert error.may_be_billed
    assert len(requests) == 1


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\xff\xfe garbage \r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n",
    ],
)
def test_garbage_is_a_passing_fault(serve: Any, sent: bytes) -> None:
    async def behaviour(received: Any) -> None:
        await received.send(sent)
        received.writer.close()

    error, _ = exchange(serve, behaviour)
    assert isinstance(error, TransientError)
    assert error.may_be_billed


def test_nobody_listening_is_a_passing_fault_that_cost_nothing() -> None:
    async def main() -> None:
        client = HttpClient("http://127.0.0.1:9/v1", who="judge 'x'")
        with pytest.raises(TransientError, match="no connection") as caught:
            await client.post_json("/x", {})
        assert not caught.value.may_be_billed

    asyncio.run(main())


@pytest.mark.parametrize("compressed", [False, True])
def test_a_body_beyond_the_size_limit_is_given_up(serve: Any, compressed: bool) -> None:
    async def behaviour(received: Any) -> None:
        body = b"x" * 200_000
        kind = ""
        if compressed:
            body, kind = gzip.compress(body), "Content-Encoding: gzip\r\n"
        head = f"HTTP/1.1 200 OK\r\n{kind}Content-Length: {len(body)}\r\n\r\n"
        await received.send(head.encode() + body)

    error, _ = exchange(serve, behaviour, largest_body=100_000)
    assert isinstance(error, TransientError)
    assert "100000 bytes" in str(error)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_refused_and_the_key_stays_here(serve: Any, status: int) -> None:
    async def behaviour(received: Any) -> None:
        await received.answer(
            "", status=status, headers="Location: http://elsewhere.invalid/v1?key=SECRET123\r\n"
        )

    error, requests = exchange(serve, behaviour)
    assert isinstance(error, JudgeUnavailable)
    assert "elsewhere.invalid" in str(error)
    assert "SECRET123" not in str(error)
    assert len(requests) == 1


def test_of_a_header_that_came_twice_the_first_counts(serve: Any) -> None:
    async def behaviour(received: Any) -> None:
        await received.answer("", status=429, headers="Retry-After: 60\r\nRetry-After: 75\r\n")

    response, _ = exchange(serve, behaviour)
    assert response.headers["retry-after"] == "60"


def test_a_proxy_of_the_environment_is_not_asked_for_a_judge_on_this_computer(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def behaviour(received: Any) -> None:
        await received.answer({})

    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv(name.lower(), "http://127.0.0.1:9")
    response, _ = exchange(serve, behaviour)
    assert response.status == 200
    outside = HttpClient("http://host.invalid/v1", who="judge 'x'")
    with pytest.raises(TransientError, match="no connection"):
        asyncio.run(outside.post_json("/x", {}))
    client = outside._connector()()
    assert client._transport_for_url(httpx.URL("http://host.invalid")) is not client._transport


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_a_certificate_is_trusted_only_through_ssl_cert_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext"
    subprocess.run(
        [*command.split(), "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    async def main() -> HttpResponse:
        server = await asyncio.start_server(respond, "127.0.0.1", 0, ssl=context)
        async with server:
            port = server.sockets[0].getsockname()[1]
            client = HttpClient(f"https://localhost:{port}/v1", who="judge 'x'")
            try:
                return await client.post_json("/x", {})
            finally:
                await client.close()

    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(JudgeUnavailable, match="SSL_CERT_FILE"):
        asyncio.run(main())
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert asyncio.run(main()).status == 200


def test_what_comes_back_is_redacted(serve: Any) -> None:
    async def behaviour(received: Any) -> None:
        await received.answer({"said": "your key sk-test-SECRET123 is fine"})

    response, _ = exchange(serve, behaviour)
    assert "SECRET123" not in repr(response)
    assert response.payload() == {"said": "your key [redacted] is fine"}


def test_no_exception_of_the_network_carries_the_key(serve: Any) -> None:
    async def behaviour(received: Any) -> None:
        received.writer.close()

    error, _ = exchange(serve, behaviour)
    seen = []
    cause: BaseException | None = error
    while cause is not None:
        seen.append(repr(cause) + repr(vars(cause)))
        cause = cause.__cause__ or cause.__context__
    assert "SECRET123" not in "".join(seen)
    assert len(seen) == 1, "the chain would lead to frames that hold the headers"


def test_waiting_for_our_own_slot_is_no_fault_of_the_provider(serve: Any) -> None:
    """30 requests of 50 ms through 3 connections take 0.5 s, more than the limit of one attempt."""

    async def behaviour(received: Any) -> None:
        await asyncio.sleep(0.05)
        await received.answer({})

    async def main() -> list[HttpResponse]:
        async with serve(behaviour) as server:
            client = HttpClient(server.url, who="judge 'x'", timeout_s=0.4, connections=3)
            responses = await asyncio.gather(*(client.post_json("/x", {}) for _ in range(30)))
            await client.close()
            return responses

    assert [response.status for response in asyncio.run(main())] == [200] * 30


def test_connections_are_used_again_and_never_more_than_allowed(serve: Any) -> None:
    async def behaviour(received: Any) -> None:
        await asyncio.sleep(0.002)
        await received.answer({})

    async def main() -> tuple[int, int]:
        async with serve(behaviour) as server:
            client = HttpClient(server.url, who="judge 'x'", connections=3)
            for _ in range(10):
                await client.post_json("/x", {})
            one_by_one = len({id(received.writer) for received in server.exchanges})
            await asyncio.gather(*(client.post_json("/x", {}) for _ in range(30)))
            await client.close()
            return one_by_one, len({id(received.writer) for received in server.exchanges})

    assert asyncio.run(main()) == (1, 3)


def test_given_up_attempts_give_their_connection_back(serve: Any) -> None:
    async def behaviour(received: Any) -> None:
        if b"slow" in received.body:
            await asyncio.sleep(60)
        await received.answer({})

    async def main() -> None:
        async with serve(behaviour) as server:
            client = HttpClient(server.url, who="judge 'x'", timeout_s=0.1, connections=1)
            for _ in range(3):
                with pytest.raises(TransientError):
                    await client.post_json("/x", {"slow": 1})
            task = asyncio.create_task(client.post_json("/x", {"slow": 1}))
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await client.post_json("/x", {})).status == 200
            await client.close()

    asyncio.run(main())


def test_a_client_serves_one_event_loop_after_another(serve: Any) -> None:
    """As in a notebook: the first loop is gone, and nobody closed the client."""

    async def behaviour(received: Any) -> None:
        await received.answer({})

    client = HttpClient("http://127.0.0.1/v1", who="judge 'x'")

    async def main() -> int:
        async with serve(behaviour) as server:
            client.base_url = server.url
            response = await client.post_json("/x", {})
            assert client._session is not None
            for one in client._session.clients:
                await one.aclose()  # or the test would leak its connection
            return response.status

    assert [asyncio.run(main()), asyncio.run(main())] == [200, 200]


@pytest.mark.parametrize("timeout_s", [0, -1, float("inf"), float("nan")])
def test_a_time_limit_cannot_be_switched_off(timeout_s: float) -> None:
    with pytest.raises(InputError, match="timeout_s"):
        HttpClient("https://host/v1", who="judge 'x'", timeout_s=timeout_s)


def test_no_time_limit_means_the_default() -> None:
    client = HttpClient("https://host/v1", who="judge 'x'", timeout_s=None)
    limits = client._connector()().timeout
    assert (limits.read, limits.write, limits.connect, limits.pool) == (120, 120, 10, None)


def test_certificates_are_verified() -> None:
    client = HttpClient("https://host/v1", who="judge 'x'")._connector()()
    context = client._transport._pool._ssl_context  # type: ignore[attr-defined]
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert not client.follow_redirects


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://host/v1/", "https://host/v1"),
        (" http://127.0.0.1:8080/v1 ", "http://127.0.0.1:8080/v1"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1"),
        ("https://HOST", "https://host"),
    ],
)
def test_a_base_url_is_tidied(url: str, expected: str) -> None:
    assert checked_base_url(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "https://user:pw@host.invalid/v1?key=SECRET123",
        "https://SECRET123@host.invalid/v1",
        "https://:SECRET123@host.invalid/v1",
        "https://host.invalid/v1?key=SECRET123",
        "https://host.invalid/v1#SECRET123",
        "https://host.invalid:SECRET123/v1",
        "ftp://SECRET123",
        "SECRET123",
        "https://",
        "",
    ],
)
def test_a_base_url_that_could_leak_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(InputError) as caught:
        checked_base_url(url)
    assert "SECRET123" not in str(caught.value)
    assert "pw@" not in str(caught.value)


def subclasses(kind: type[Exception]) -> set[type[Exception]]:
    return {kind}.union(*(subclasses(child) for child in kind.__subclasses__()))


@pytest.mark.parametrize(
    "kind",
    sorted(
        subclasses(httpx.HTTPError) | {httpx.InvalidURL} | subclasses(httpx.StreamError),
        key=lambda kind: kind.__name__,
    ),
)
def test_every_exception_of_httpx_is_translated(kind: type[Exception]) -> None:
    parameters = inspect.signature(kind.__init__).parameters
    message = "said sk-test-SECRET123"
    needs_response = "response" in parameters
    if needs_response:
        request = httpx.Request("POST", "https://host")
        fault = kind(message, request=request, response=httpx.Response(500, request=request))  # type: ignore[call-arg]
    else:
        fault = kind(message) if "message" in parameters else kind()
    error = network_error(fault, who="judge 'x'", secrets=[KEY])
    assert type(error) in {TransientError, RateLimited, JudgeUnavailable, TerminalError}
    assert "judge 'x'" in str(error)
    assert "SECRET123" not in str(error)


@pytest.mark.parametrize(
    ("fault", "kind", "billed"),
    [
        (httpx.ConnectTimeout("x"), TransientError, False),
        (httpx.ConnectError("x"), TransientError, False),
        (
            httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"),
            JudgeUnavailable,
            False,
        ),
        (httpx.PoolTimeout("x"), TransientError, False),
        (httpx.ProxyError("x"), TransientError, False),
        (httpx.WriteTimeout("x"), TransientError, True),
        (httpx.ReadTimeout("x"), TransientError, True),
        (httpx.ReadError("x"), TransientError, True),
        (httpx.WriteError("x"), TransientError, True),
        (httpx.RemoteProtocolError("x"), TransientError, True),
        (httpx.DecodingError("x"), TransientError, True),
        (ConnectionResetError("x"), TransientError, True),
        (httpx.LocalProtocolError("x"), TerminalError, False),
        (httpx.UnsupportedProtocol("x"), TerminalError, False),
    ],
)
def test_what_may_have_been_billed(fault: Exception, kind: type[JudgeError], billed: bool) -> None:
    error = network_error(fault, who="judge 'x'")
    assert type(error) is kind
    assert error.may_be_billed is billed


@pytest.mark.parametrize("body", [{"text": "\ud800"}, {"temperature": float("inf")}, {"x": {1, 2}}])
def test_a_body_that_is_no_json_is_an_input_error(body: dict[str, Any]) -> None:
    client = HttpClient("https://host/v1", who="judge 'x'")
    with pytest.raises(InputError, match="cannot be written as JSON"):
        asyncio.run(client.post_json("/x", body))


def test_json_nested_without_end_is_no_crash() -> None:
    with pytest.raises(ValueError, match="deep"):
        HttpResponse(200, {}, "[" * 200_000).payload()


@pytest.mark.parametrize(
    "body",
    [
        '{"model": "sk-a+b&c"}',
        '{"model": "sk-a\\u002bb\\u0026c"}',
        '{"choices": [{"message": {"\\u0073k-a+b&c": "sk-a\\u002bb\\u0026c"}}]}',
        "<p>bad key sk-a+b&amp;c</p>",
    ],
)
def test_a_secret_is_found_behind_the_encoding_of_a_body(body):
    clean = without_secrets(body, [Secret("sk-a+b&c")])
    shown = html.unescape(clean if clean.startswith("<") else json.dumps(json.loads(clean)))
    assert "sk-a+b&c" not in shown
    assert without_secrets('{"a":  1}', [Secret("sk-a+b&c")]) == '{"a":  1}'
