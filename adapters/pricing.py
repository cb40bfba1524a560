"""Tokens into money, exactly.

Prices are decimals per million tokens in whatever currency the user keeps accounts in. Nothing here
is a float: a budget in money is kept to the last digit, and an unknown price is not a price of zero
but no ``Price`` at all.
"""

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from benchtrial.adapters.judge import Usage
from benchtrial.errors import InputError

# Prices are per 10**6 tokens.
_MILLION_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a judge per million tokens.

    Parameters
    ----------
    input, output
        Price of input tokens and of output tokens (reasoning is output).
    cached_input
        Price of input tokens read from a prompt cache; by default that of input.
    cache_writes
        Price of input tokens written to a prompt cache; by default that of input.

    Raises
    ------
    InputError
        If a price is not a finite number of at least zero.
    """

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    cache_writes: Decimal | None = None

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached_input", "cache_writes"):
            value = getattr(self, name)
            if value is not None or name in {"input", "output"}:
                object.__setattr__(self, name, _price(name, value))

    def cost(self, usage: Usage) -> Decimal:
        """Money for ``usage``: each part of the input at its own price, all output at one."""
        cached = min(usage.cached_input, usage.input)
        written = min(usage.cache_writes, usage.input - cached)
        cached_price = self.input if self.cached_input is None else self.cached_input
        written_price = self.input if self.cache_writes is None else self.cache_writes
        total = (
            (usage.input - cached - written) * self.input
            + cached * cached_price
            + written * written_price
            + usage.output * self.output
        )
        return total.scaleb(-_MILLION_DIGITS)

    def worst_case(self, input_tokens: int, output_tokens: int) -> Decimal:
        """Most that so many tokens can cost: every input token at the dearest of its prices."""
        dearest = max(self.input, self.cached_input or self.input, self.cache_writes or self.input)
        total = input_tokens * dearest + output_tokens * self.output
        return total.scaleb(-_MILLION_DIGITS)


def _price(name: str, value: object) -> Decimal:
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        amount = Decimal("NaN")
    if not (amount.is_finite() and amount >= 0):
        raise InputError(
            f"price of {name} is {value!r}; write a number of at least 0 per million tokens"
        )
    return amount
