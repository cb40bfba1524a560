"""Keys that never show themselves.

A key enters from an environment variable, travels as a ``Secret`` whose every printed form is
redacted, and is revealed in one place only: where the transport writes the request header. What
comes back from a provider may quote the key (a 401 often does), so every text that leaves the
transport is redacted first, and cut to length only afterwards: half a key in an error message is
still a leak.
"""

import json
import os
import re
from collections.abc import Iterable
from typing import Self
from urllib.parse import quote

from benchtrial.errors import InputError

REDACTED = "[redacted]"

# Local servers are given stand-ins such as "EMPTY" or "none". Replacing those few letters wherever
# they occur would mangle what a judge said, and no provider issues keys this short.
SHORTEST_SECRET = 8

# Shapes of credentials that may stand in a provider's error text although they are not our key: the
# user information and key-like parameters of a URL, an authorization header, and "sk-…" keys.
_CREDENTIALS = re.compile(
    r"""(?P<address>://)[^\s/@"']+@
      | (?P<query>[?&](?:api[-_]?key|key|token|access_token|signature|sig)=)[^\s&"'<>]+
      | (?P<scheme>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}
      | \b(?:sk|pk|rk)-[A-Za-z0-9_-]{8,}
    """,
    re.IGNORECASE | re.VERBOSE,
)


class Secret:
    """A key whose ``repr``, ``str`` and formatted forms are redacted.

    Parameters
    ----------
    value
        The key itself: printable ASCII, because it goes into an HTTP header.
    prefix
        What stands before the key in its header (``"Bearer "``).

    Raises
    ------
    InputError
        If the key is empty or could not be sent in a header. The message does not quote it.
    """

    __slots__ = ("_prefix", "_value")

    def __init__(self, value: str, *, prefix: str = "") -> None:
        value = value.strip()
        if not value:
            raise InputError("the key is empty; set it to the key that your provider issued")
        if not (value.isascii() and value.isprintable()):
            raise InputError(
                "the key contains a line break, a control character or a letter outside ASCII, and "
                "cannot be sent in a header; copy it again from your provider's page"
            )
        self._value = value
        self._prefix = prefix

    def prefixed(self, prefix: str) -> "Secret":
        """Return the same key as it stands in a header, for instance after ``"Bearer "``."""
        return Secret(self._value, prefix=prefix)

    def header(self) -> str:
        """Reveal prefix and key, for the request header only."""
        return self._prefix + self._value

    def forms(self) -> tuple[str, ...]:
        """Every way in which a reply may quote the key: plain, in a URL, inside JSON."""
        if len(self._value) < SHORTEST_SECRET:
            return ()
        escaped = json.dumps(self._value)[1:-1]
        forms = {
            self._value,
            quote(self._value, safe=""),
            escaped,
            escaped.replace("/", r"\/"),
        }
        return tuple(sorted(forms, key=len, reverse=True))

    def __repr__(self) -> str:
        return f"Secret({REDACTED})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> str:
        raise TypeError("a Secret cannot be pickled: read the key again where it is needed")


def key_from_environment(name: str) -> Secret:
    """Read a key from the environment variable ``name``.

    Raises
    ------
    InputError
        If the variable is unset, empty, or holds what cannot be sent in a header.
    """
    value = os.environ.get(name, "")
    if not value.strip():
        raise InputError(
            f"the environment variable {name} is not set; put the judge's key there "
            f"(export {name}=…) or name another variable as key_env"
        )
    try:
        return Secret(value)
    except InputError as error:
        raise InputError(f"environment variable {name}: {error}") from None


def redact(text: str, secrets: Iterable[Secret]) -> str:
    """Replace every form of the given secrets in ``text``, and nothing else."""
    for secret in secrets:
        for form in secret.forms():
            text = text.replace(form, REDACTED)
    return text


def scrub(text: str) -> str:
    """Replace whatever in ``text`` is shaped like a credential, whoever it belongs to.

    For error messages and logs; a judge's answer is never passed through this, because an answer
    may legitimately speak of such things.
    """
    return _CREDENTIALS.sub(
        lambda found: (found[found.lastgroup] if found.lastgroup else "") + REDACTED, text
    )
