"""How long a server asks us to wait.

Servers say it in four places: ``retry-after-ms``, ``Retry-After`` in seconds, ``Retry-After`` as a
date, and inside the body (Google's ``RetryInfo``). A hint is believed only if it is a finite number
that is not negative; anything else (``"soon"``, ``"²"``, ``"inf"``, ``"-5"``, a past date) is
no hint, and the ordinary backoff applies.

Source: RFC 9110, section 10.2.3; google.rpc.RetryInfo and google.protobuf.Duration (JSON form).
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

# float() alone would also read "1_0", "infinity", "nan" and the digits of every script on earth.
_SECONDS = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?", re.ASCII)
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)s", re.ASCII)


def wait_hint(headers: Mapping[str, str], payload: object, *, now: float) -> float | None:
    """Seconds that the server asks us to wait, or None if it does not say so credibly.

    Parameters
    ----------
    headers
        Response headers with lower-case names.
    payload
        The decoded body, or None.
    now
        The time in seconds since the epoch, to which a date is compared.
    """
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    header = headers.get("retry-after", "")
    for hint in (_seconds(header), _until(header, now=now)):
        if hint is not None:
            return hint
    return max(_delays(payload), default=None)


def _seconds(text: str) -> float | None:
    text = text.strip()
    return float(text) if _SECONDS.fullmatch(text) else None


def _until(text: str, *, now: float) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        wait = moment.timestamp() - now
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return wait if wait > 0 else None


def _delays(payload: object) -> Iterator[float]:
    """Every ``retryDelay`` of the error details in a Google-style body."""
    for body in payload if isinstance(payload, list) else [payload]:
        error = body.get("error") if isinstance(body, Mapping) else None
        details = error.get("details") if isinstance(error, Mapping) else None
        for detail in details if isinstance(details, list) else []:
            if isinstance(detail, Mapping):
                delay = _duration(detail.get("retryDelay"))
                if delay is not None:
                    yield delay


def _duration(value: Any) -> float | None:
    if isinstance(value, str):
        found = _DURATION.fullmatch(value.strip())
        return float(found[1]) if found else None
    if isinstance(value, Mapping):
        return _seconds(str(value.get("seconds", "")))
    return None
