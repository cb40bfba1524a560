"""A judge that rates batches by the Markov generalized linear mixed model.

    logit P(Y_tj >= c) = theta[v(t,j)] + sum_k beta_k S[t,j-k] + gamma 1{j = 1} + sigma z_t - tau_c,

where S = Y / (C - 1) is an earlier rating scaled to [0, 1]; a binary rating has the one threshold
tau_1 = 0, and S = Y. Before the first rating there is nothing: its lags are zero.

Source: "Trustworthy Method Comparison with AI Judges", section 2.1, equations 1 and 2; the
thresholds are the cumulative logit extension of them.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchtrial.adapters.judge import BatchCell, Capabilities, RatingsAnswer, Reply, Request, Token
from benchtrial.adapters.simulated.draws import (
    CAPABILITIES,
    NORMAL,
    cell_parts,
    expit,
    plain_token,
    require_finite,
    simulated_reply,
    uniforms,
    verdict_token,
)
from benchtrial.adapters.structured import rating_keys
from benchtrial.adapters.tokens import input_bytes
from benchtrial.errors import InputError


@dataclass(frozen=True, slots=True)
class MarkovParameters:
    """Parameters of a batch judge, apart from the qualities of the items.

    Parameters
    ----------
    lags
        beta_1, beta_2, …: effect of the rating given one, two, … places before.
    cold_start
        gamma: effect of standing first.
    batch_sd
        sigma: standard deviation of the random intercept of a batch.
    """

    lags: tuple[float, ...] = ()
    cold_start: float = 0.0
    batch_sd: float = 0.0


# The judges whose fitted parameters the GLMM paper prints (section 5 and supplement E for the lags
# and gamma of Claude, section 2.2 for the variances). It prints no gamma for Gemini but calls its
# position profile nearly flat; -0.25 makes it so for items accepted about half of the time. For its
# third judge, GPT-5.4-mini, it prints a batch variance of 1.173 and no coefficients, so there is no
# preset.
PAPER_JUDGES: Mapping[str, MarkovParameters] = {
    "gemini-2.5-flash": MarkovParameters((-0.529,), -0.25, math.sqrt(0.446)),
    "gemini-2.5-flash lag-3": MarkovParameters((-0.529, -0.090, -0.179), -0.25, math.sqrt(0.446)),
    "claude-haiku-4.5": MarkovParameters((-1.055,), 1.879, math.sqrt(0.418)),
    "claude-haiku-4.5 lag-3": MarkovParameters((-1.055, -0.380, -0.311), 1.879, math.sqrt(0.418)),
}


class SimulatedBatchJudge:
    """Rates the items of a batch in displayed order by the Markov GLMM.

    Parameters
    ----------
    qualities
        theta of each item id.
    lags, cold_start, batch_sd
        beta, gamma and sigma; see ``MarkovParameters``.
    thresholds
        tau_1 < tau_2 < …, one fewer than there are ratings: a single 0 for a binary rating.
    seed
        Names the stream of draws. The random intercept is a function of seed, judge and batch.

    Raises
    ------
    InputError
        If a parameter is not finite, ``batch_sd`` is negative or the thresholds do not increase.
    """

    def __init__(
        self,
        qualities: Mapping[str, float],
        *,
        lags: Sequence[float] = (),
        cold_start: float = 0.0,
        batch_sd: float = 0.0,
        thresholds: Sequence[float] = (0.0,),
        seed: int = 0,
    ) -> None:
        require_finite(*qualities.values(), *lags, cold_start, batch_sd, *thresholds)
        if batch_sd < 0:
            raise InputError(f"batch_sd is {batch_sd}; a standard deviation cannot be negative")
        if any(low >= high for low, high in pairwise(thresholds)):
            raise InputError(f"thresholds {list(thresholds)} must increase strictly")
        self._qualities = dict(qualities)
        self._lags = tuple(lags)
        self._cold_start = cold_start
        self._batch_sd = batch_sd
        self._thresholds = tuple(thresholds)
        self._seed = seed

    @property
    def capabilities(self) -> Capabilities:
        """Structured answers, log-probabilities, and any sampling parameter (without effect)."""
        return CAPABILITIES

    def input_tokens_at_most(self, request: Request) -> int:
        """Bound the reported input tokens."""
        return input_bytes(request)

    def batch_effect(self, judge: str, batch: int) -> float:
        """Random intercept sigma z_t of a batch."""
        (u,) = uniforms(1, self._seed, "batch", judge, batch)
        return self._batch_sd * NORMAL.inv_cdf(u)

    def acceptance(self, cell: BatchCell, ratings: Sequence[int]) -> tuple[float, ...]:
        """P(Y >= 1), P(Y >= 2), … at the position after ``ratings``, given them and the batch."""
        position = len(ratings)
        item = cell.items[position]
        if item not in self._qualities:
            raise InputError(f"judge {cell.judge!r}: no quality is given for item {item!r}")
        top = len(self._thresholds)
        eta = self._qualities[item] + self.batch_effect(cell.judge, cell.batch)
        if position == 0:
            eta += self._cold_start
        for beta, rating in zip(self._lags, reversed(ratings), strict=False):
            eta += beta * rating / top
        return tuple(expit(eta - threshold) for threshold in self._thresholds)

    async def ask(self, request: Request) -> Reply:
        """Rate the batch of ``request.cell``.

        Raises
        ------
        InputError
            If the request is not for a batch, or its scale does not have one rating more than the
            judge has thresholds.
        """
        cell, answer = request.cell, request.answer
        if not (isinstance(cell, BatchCell) and isinstance(answer, RatingsAnswer)):
            raise InputError(f"judge {request.cell.judge!r} rates batches; this is no batch")
        values = self._values(answer, judge=cell.judge)
        draws = uniforms(len(cell.items), self._seed, *cell_parts(cell))
        ratings: list[int] = []
        tokens: list[Token] = []
        quote = '"' if answer.labels else ""
        for key, u in zip(rating_keys(answer), draws, strict=True):
            above = self.acceptance(cell, ratings)
            ratings.append(sum(u < p for p in above))
            shares = [high - low for high, low in zip((1.0, *above), (*above, 0.0), strict=True)]
            opening = f"{quote}, " if tokens else "{"
            tokens.append(plain_token(f'{opening}"{key}": {quote}'))
            tokens.append(verdict_token(values, shares, ratings[-1]))
        chosen = [values[rating] for rating in ratings]
        text = json.dumps(dict(zip(rating_keys(answer), chosen, strict=True)), ensure_ascii=False)
        return simulated_reply(request, text, (*tokens, plain_token(quote + "}")))

    async def close(self) -> None:
        """Nothing to release."""

    def _values(self, answer: RatingsAnswer, *, judge: str) -> tuple[str | int, ...]:
        """Return the legal ratings from worst to best."""
        values: tuple[str | int, ...] = answer.labels
        if not values and answer.scale is not None and answer.integer:
            low, high = answer.scale
            values = tuple(range(math.ceil(low), math.floor(high) + 1))
        if len(values) != len(self._thresholds) + 1:
            raise InputError(
                f"judge {judge!r} has {len(self._thresholds)} thresholds and so gives "
                f"{len(self._thresholds) + 1} different ratings, but the answer allows "
                f"{len(values) or 'any number'}"
            )
        return values
