from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchtrial.adapters.transport import wait_hint

NOW = datetime(2026, 10, 21, 7, 28, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "75"}, 75),
        ({"retry-after": " 0 "}, 0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, 30),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 -0000"}, 30),
        ({"retry-after-ms": "2500"}, 2.5),
        ({"retry-after-ms": "2500", "retry-after": "3"}, 2.5),
        ({"retry-after-ms": "x", "retry-after": "3"}, 3),
    ],
)
def test_credible_hints_are_read(headers: dict[str, str], expected: float) -> None:
    assert wait_hint(headers, None, now=NOW) == pytest.approx(expected)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "-5",
        "²",
        "٣",
        "soon",
        "inf",
        "nan",
        "1e9",
        "1_000",
        "9" * 400,
        "Wed, 21 Oct 2026 07:27:00 GMT",
        "Wed, 99 Oct 99999 07:27:00 GMT",
        "Mon, 01 Jan 0001 00:00:00 +2359",
    ],
)
def test_incredible_hints_are_no_hints(value: str) -> None:
    assert wait_hint({"retry-after": value, "retry-after-ms": value}, None, now=NOW) is None


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        ("53s", 53),
        ("0.5s", 0.5),
        ({"seconds": 7, "nanos": 0}, 7),
        ("soon", None),
        ("-3s", None),
        (None, None),
        (53, None),
    ],
)
def test_the_delay_inside_a_google_body_is_read(delay: Any, expected: float | None) -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.QuotaFailure"}, {"retryDelay": delay}, 3]
    for payload in ({"error": {"details": details}}, [{"error": {"details": details}}]):
        assert wait_hint({}, payload, now=NOW) == expected


@given(
    header=st.text() | st.floats().map(str) | st.integers().map(str),
    payload=st.recursive(
        st.none() | st.text() | st.floats(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["error", "details", "retryDelay", "x"]), inner)
        ),
    ),
)
def test_whatever_a_server_sends_is_a_finite_wait_or_no_hint(header: str, payload: object) -> None:
    hint = wait_hint({"retry-after": header}, payload, now=NOW)
    assert hint is None or 0 <= hint < float("inf")
