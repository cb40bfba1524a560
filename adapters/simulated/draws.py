"""What every simulated judge shares: draws that depend on the question alone, and the reply.

A draw is a function of the seed and the cell through SHA-256, so it depends neither on the order of
the calls nor on any library's generator: a study simulated today can be simulated again, anywhere.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from statistics import NormalDist

from benchtrial.adapters.judge import (
    BatchCell,
    Capabilities,
    PairCell,
    Reply,
    Request,
    Token,
    Usage,
)
from benchtrial.errors import InputError

# A simulated judge reports as many tokens as English text has: about four bytes to a token.
BYTES_PER_TOKEN = 4

# Stands for the logarithm of a probability of zero, as in the replies of real providers.
_NEGLIGIBLE_LOGPROB = -9999.0

NORMAL = NormalDist()
CAPABILITIES = Capabilities("json_schema", logprobs=True, open_parameters=True)


def uniforms(count: int, seed: int, *parts: str | int | Sequence[str]) -> tuple[float, ...]:
    """Draw ``count`` numbers strictly between 0 and 1 that depend on ``seed`` and ``parts`` alone.

    Each is the middle of one of 2**53 equal cells, taken from SHA-256 in counter mode.
    """
    name = json.dumps([seed, *parts], ensure_ascii=True).encode()
    stream = bytearray()
    for block in range((count + 3) // 4):
        stream += hashlib.sha256(block.to_bytes(8, "big") + name).digest()
    words = (int.from_bytes(stream[8 * i : 8 * i + 8], "big") for i in range(count))
    return tuple(((word >> 11) + 0.5) / 2**53 for word in words)


def cell_parts(cell: BatchCell | PairCell) -> tuple[str | int | Sequence[str], ...]:
    """Name the stream of draws that belongs to a cell."""
    if isinstance(cell, BatchCell):
        return ("ratings", cell.judge, cell.batch, cell.items, cell.criterion, cell.replicate)
    return (
        "verdict",
        cell.judge,
        cell.prompt,
        cell.first,
        cell.second,
        cell.criterion,
        cell.replicate,
    )


def simulated_reply(request: Request, text: str, tokens: tuple[Token, ...]) -> Reply:
    """Wrap the text of an answer as a provider would."""
    asked = sum(len(turn.text.encode("utf-8", "replace")) for turn in request.messages)
    return Reply(
        text=text,
        usage=Usage(input=asked // BYTES_PER_TOKEN, output=len(text) // BYTES_PER_TOKEN),
        tokens=tokens if request.logprobs > 0 else (),
        served_model="simulated",
        raw=text,
    )


def verdict_token(values: Sequence[str | int], shares: Sequence[float], chosen: int) -> Token:
    """Return the token of a verdict with the exact log-probability of each alternative."""
    words = [str(value) for value in values]
    logprobs = [math.log(share) if share > 0 else _NEGLIGIBLE_LOGPROB for share in shares]
    return Token(words[chosen], logprobs[chosen], dict(zip(words, logprobs, strict=True)))


def plain_token(text: str) -> Token:
    """Return a token that was bound to come."""
    return Token(text, 0.0, {text: 0.0})


def require_finite(*numbers: float) -> None:
    """Refuse parameters that are infinite or not a number."""
    for number in numbers:
        if not math.isfinite(number):
            raise InputError(f"a parameter of a simulated judge is {number}; it must be finite")


def expit(x: float) -> float:
    """Logistic function without overflow."""
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    return math.exp(x) / (1 + math.exp(x))
