"""One HTTP request, with every limit in force.

``HttpClient.post_json`` sends exactly one request and returns the whole response, whatever its
status; what a status means is decided by ``benchtrial.adapters.faults``. It raises only for what
happened on the network. These limits cannot be switched off:

* the connection, each read and write, and the attempt as a whole have a time limit; the clock
  starts when the attempt has a connection slot, so that a long queue of our own never looks like a
  slow provider;
* the body is read up to a size limit;
* certificates are verified, and no redirect is followed: a redirect is where a key would leak.

An error is raised after the ``except`` clause and not in it, so that it has no context: the frames
of the failed call hold the request's headers, and a traceback printer that shows local variables
would print the key.

httpx is imported when the first client is made, because it takes longer to import than the rest of
the package together.
"""

import asyncio
import html
import ipaddress
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from benchtrial.adapters.keys import Secret, redact, scrub
from benchtrial.errors import (
    InputError,
    JudgeError,
    JudgeUnavailable,
    TerminalError,
    TransientError,
)

if TYPE_CHECKING:
    import httpx

# A reply with 20 alternatives for each of 4,000 tokens is about 6 MB; beyond this it is not a
# reply.
LARGEST_BODY = 32 * 1024 * 1024

# Enough of an unexpected body to recognise a gateway's error page.
EXCERPT = 200

# Of one attempt, for those who set no limit: a long answer of a slow model takes about a minute.
DEFAULT_TIMEOUT_S = 120.0
# A server that does not even accept a connection in this time is down.
CONNECT_TIMEOUT_S = 10.0
DEFAULT_CONNECTIONS = 100
# Many servers close an idle connection after 5 s. Sending into that moment looks like a lost reply,
# so an idle connection is given up a little earlier.
KEEPALIVE_S = 4.0

_NO_PROXY = dict.fromkeys(("all://", "http://", "https://"))


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A complete response, known secrets already redacted.

    Parameters
    ----------
    status
        HTTP status code.
    headers
        Headers with lower-case names.
    text
        The body as text.
    latency
        Seconds from sending the request to the end of the body.
    """

    status: int
    headers: Mapping[str, str]
    text: str
    latency: float = 0.0

    @property
    def request_id(self) -> str | None:
        """The provider's own name for the request."""
        return self.headers.get("x-request-id") or self.headers.get("request-id")

    @property
    def excerpt(self) -> str:
        """The first 200 characters of the body, for an error message."""
        return scrub(self.text)[:EXCERPT]

    def payload(self) -> Any:
        """Decode the body.

        Raises
        ------
        ValueError
            If the body is not JSON.
        """
        try:
            return json.loads(self.text)
        except RecursionError:
            raise ValueError("JSON nested too deeply") from None


def checked_base_url(url: str) -> str:
    """Return ``url`` without a trailing slash, or refuse it.

    Raises
    ------
    InputError
        If it is not an absolute http or https URL, or carries anything that may be a credential:
        user information, a query or a fragment. The message names the host only.
    """
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InputError("base_url is not a URL; write it like https://host/v1") from None
    if parts.scheme not in {"http", "https"} or not host:
        raise InputError(
            "base_url must begin with https:// (or http:// for a local server) and name a host"
        )
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise InputError(
            f"base_url for {host} carries a user name or password; put the key into an environment "
            "variable and name it as key_env"
        )
    if parts.query or parts.fragment:
        raise InputError(
            f"base_url for {host} carries a query (?…) or a fragment (#…); keys belong into an "
            "environment variable named as key_env, and nothing else may follow the path"
        )
    name = f"[{host}]" if ":" in host else host
    place = name if port is None else f"{name}:{port}"
    return f"{parts.scheme}://{place}{parts.path.rstrip('/')}"


class HttpClient:
    """Posts JSON to one provider.

    Parameters
    ----------
    base_url
        Address to which paths are appended.
    who
        How error messages name the judge.
    headers
        Plain headers of every request.
    secret_headers
        Headers that hold a key; their values are redacted from everything that comes back.
    timeout_s
        Time limit of an attempt in seconds, from sending the request to the last byte of the body,
        whatever trickles in meanwhile. None is the default limit, never "no limit".
    connections
        Number of requests under way at once; further ones wait without using their time limit.
    largest_body
        Size limit of a response body in bytes.
    """

    def __init__(
        self,
        base_url: str,
        *,
        who: str,
        headers: Mapping[str, str] | None = None,
        secret_headers: Mapping[str, Secret] | None = None,
        timeout_s: float | None = None,
        connections: int = DEFAULT_CONNECTIONS,
        largest_body: int = LARGEST_BODY,
    ) -> None:
        timeout_s = DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s
        if not (math.isfinite(timeout_s) and timeout_s > 0):
            raise InputError(
                f"{who}: timeout_s is {timeout_s}; it is a positive, finite number of seconds"
            )
        if connections < 1:
            raise InputError(f"connections is {connections}; at least 1 is needed")
        self.base_url = checked_base_url(base_url)
        self.who = who
        self._headers = dict(headers or {})
        self._secret_headers = dict(secret_headers or {})
        self._timeout_s = timeout_s
        self._connections = connections
        self._largest_body = largest_body
        self._session: _Session | None = None

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The keys that this client sends."""
        return tuple(self._secret_headers.values())

    async def post_json(self, path: str, body: Mapping[str, Any]) -> HttpResponse:
        """Send ``body`` to ``base_url + path`` in exactly one request.

        Raises
        ------
        TransientError
            The connection failed, was lost, or exceeded a time limit.
        JudgeUnavailable
            The server's certificate is not trusted, or it redirects.
        """
        import httpx

        content = _encode(body)
        session = self._current_session()
        async with session.slots:
            client = session.take()
            started = time.perf_counter()
            try:
                async with asyncio.timeout(self._timeout_s):
                    status, headers, data = await self._exchange(client, path, content)
            except TimeoutError:
                error: JudgeError = TransientError(
                    f"{self.who}: no complete reply within {self._timeout_s:g} s",
                    may_be_billed=True,
                )
            except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as fault:
                error = network_error(fault, who=self.who, secrets=self.secrets)
            except _TooLarge:
                error = TransientError(
                    f"{self.who}: the reply is larger than {self._largest_body} bytes",
                    may_be_billed=True,
                )
            else:
                latency = time.perf_counter() - started
                text = without_secrets(data.decode("utf-8-sig", "replace"), self.secrets)
                plain = {name: redact(value, self.secrets) for name, value in headers.items()}
                response = HttpResponse(status, plain, text, latency)
                self._refuse_redirect(response)
                return response
            finally:
                session.idle.append(client)
        raise error

    async def close(self) -> None:
        """Close every connection. Safe to call twice."""
        session, self._session = self._session, None
        if session is not None and session.loop is asyncio.get_running_loop():
            for client in session.clients:
                await client.aclose()

    async def _exchange(
        self, client: "httpx.AsyncClient", path: str, content: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        data = bytearray()
        async with client.stream("POST", self.base_url + path, content=content) as response:
            async for chunk in response.aiter_bytes():
                data += chunk
                if len(data) > self._largest_body:
                    raise _TooLarge
            # Of a header that came twice the first counts; joined, "60, 60" would be no number.
            named = reversed(response.headers.multi_items())
            headers = {name.lower(): value for name, value in named}
            return response.status_code, headers, bytes(data)

    def _current_session(self) -> "_Session":
        """Return the session of the running event loop: connections cannot move between loops."""
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.loop is not loop:
            self._session = _Session(loop, self._connections, self._connector())
        return self._session

    def _connector(self) -> "Callable[[], httpx.AsyncClient]":
        """Return a function that makes clients of one connection each, which share their settings.

        One client with a pool of all connections would look at each of them twice per request,
        which is most of the work from about 50 connections on.
        """
        import httpx

        timeout = httpx.Timeout(
            self._timeout_s, connect=min(CONNECT_TIMEOUT_S, self._timeout_s), pool=None
        )
        limits = httpx.Limits(
            max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEEPALIVE_S
        )
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        # Certificates are verified, by the authorities of SSL_CERT_FILE if the environment has it.
        certificates = httpx.create_ssl_context()

        def connect() -> httpx.AsyncClient:
            return httpx.AsyncClient(
                headers=headers | self._headers,
                auth=_key_writer(self._secret_headers),
                timeout=timeout,
                limits=limits,
                verify=certificates,
                follow_redirects=False,
                # The proxies of the environment are honoured, but they are for the outside world,
                # and a judge on this computer is not there.
                trust_env=True,
                mounts=_NO_PROXY if _is_loopback(self.base_url) else None,
            )

        return connect

    def _refuse_redirect(self, response: HttpResponse) -> None:
        if not 300 <= response.status < 400:
            return
        target = urlsplit(response.headers.get("location", ""))
        raise JudgeUnavailable(
            f"{self.who} redirects to {target.hostname or 'another address'}, which is refused "
            "because the key would follow; set base_url to the final address",
            status=response.status,
            request_id=response.request_id,
        )


def without_secrets(text: str, secrets: Sequence[Secret]) -> str:
    """Redact a body, also where an encoding hides a secret: JSON escapes, HTML entities."""
    text = redact(text, secrets)
    if not secrets:
        return text
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        decoded = html.unescape(text)
        clean = redact(decoded, secrets)
        return text if clean == decoded else clean
    cleaned = _redacted(payload, secrets)
    return text if cleaned == payload else json.dumps(cleaned, ensure_ascii=False)


def _redacted(value: Any, secrets: Sequence[Secret]) -> Any:
    if isinstance(value, str):
        return redact(value, secrets)
    if isinstance(value, list):
        return [_redacted(one, secrets) for one in value]
    if isinstance(value, dict):
        return {redact(key, secrets): _redacted(one, secrets) for key, one in value.items()}
    return value


def network_error(fault: Exception, *, who: str, secrets: Sequence[Secret] = ()) -> JudgeError:
    """Translate what httpx raised, most specific class first.

    Whatever happens once the request is on its way may have been worked on and billed.
    """
    import httpx

    detail = scrub(redact(str(fault), secrets))[:EXCERPT]
    name = type(fault).__name__
    said = f"{name}: {detail}" if detail else name
    if "CERTIFICATE_VERIFY_FAILED" in str(fault):
        return JudgeUnavailable(
            f"{who}: the server's certificate is not trusted ({detail}); "
            "name your certificate authority in SSL_CERT_FILE"
        )
    before_sending = (httpx.ConnectTimeout, httpx.ConnectError, httpx.PoolTimeout, httpx.ProxyError)
    if isinstance(fault, before_sending):
        return TransientError(f"{who}: no connection ({said})", sent=False)
    if isinstance(fault, httpx.TimeoutException):
        return TransientError(f"{who}: timed out ({said})", may_be_billed=True)
    if isinstance(fault, (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.InvalidURL)):
        return TerminalError(f"{who}: the request cannot be sent ({said})", sent=False)
    if isinstance(fault, (httpx.TransportError, httpx.DecodingError, OSError)):
        return TransientError(f"{who}: the connection was lost ({said})", may_be_billed=True)
    return TransientError(f"{who}: the exchange failed ({said})", may_be_billed=True)


class _Session:
    """The connections of one event loop; whoever holds a slot has one to itself."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connections: int,
        connect: "Callable[[], httpx.AsyncClient]",
    ) -> None:
        self.loop = loop
        self.slots = asyncio.Semaphore(connections)
        self.clients: list[httpx.AsyncClient] = []
        self.idle: list[httpx.AsyncClient] = []
        self._connect = connect

    def take(self) -> "httpx.AsyncClient":
        """Take the connection that was used last, which is the likeliest to be open still."""
        if not self.idle:
            self.clients.append(self._connect())
            self.idle.append(self.clients[-1])
        return self.idle.pop()


class _TooLarge(Exception):
    pass


def _encode(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except (UnicodeEncodeError, ValueError, TypeError) as error:
        raise InputError(
            f"the request cannot be written as JSON ({error}); "
            "look for half a surrogate pair in a text, or an infinite parameter"
        ) from None


def _key_writer(
    secret_headers: Mapping[str, Secret],
) -> "Callable[[httpx.Request], httpx.Request] | None":
    """Write the keys into a request at the last moment, so that no configuration holds them."""
    if not secret_headers:
        return None

    def write(request: "httpx.Request") -> "httpx.Request":
        for name, secret in secret_headers.items():
            request.headers[name] = secret.header()
        return request

    return write


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
