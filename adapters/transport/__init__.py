"""The only room that touches httpx and tenacity: one request, and the decision to make another."""

from benchtrial.adapters.transport.client import (
    HttpClient,
    HttpResponse,
    checked_base_url,
    network_error,
)
from benchtrial.adapters.transport.hints import wait_hint
from benchtrial.adapters.transport.retry import (
    RetryPolicy,
    backoff_s,
    retrying,
    wait_s,
)

__all__ = [
    "HttpClient",
    "HttpResponse",
    "RetryPolicy",
    "backoff_s",
    "checked_base_url",
    "network_error",
    "retrying",
    "wait_hint",
    "wait_s",
]
