"""A judge that compares pairs by the OSCAR model.

    p = P(A) + P(tie)/2 = expit(gamma (s_a - s_b) + beta_pos + beta_len L + beta_fam F),

with L the log ratio of the lengths over its scale and F the family contrast, both in displayed
order.

Source: OSCAR, arXiv 2609.24128, equations 1 and 2, and appendix G.1 for the noise that the verdicts
on one prompt share.
"""

import json
import math
from collections.abc import Mapping

from benchtrial.adapters.judge import Capabilities, ChoiceAnswer, PairCell, Reply, Request
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
from benchtrial.adapters.tokens import input_bytes
from benchtrial.errors import InputError


class SimulatedPairJudge:
    """Compares two responses by the OSCAR model.

    Parameters
    ----------
    scores
        s of each candidate id.
    sensitivity
        gamma of this judge, positive.
    position, length, family
        beta_pos, beta_len and beta_fam of this judge.
    tie
        Probability of a tie between equals without any bias, at most 1/2. In general
        P(tie) = 4 p (1 - p) ``tie``, half of it taken from either side, so that the slot-A score
        keeps its mean p exactly. Where the answer has no label for a tie, none is given.
    lengths
        Prompt id to candidate id to the length of the response in characters.
    length_scale
        s_L: standard deviation of the log ratio of lengths, by which the length contrast is
        divided.
    families, judge_family
        Family of each candidate id, and of this judge.
    prompt_correlation
        Share of the (Gaussian) noise that all verdicts on one prompt have in common, over judges of
        the same seed too; the probabilities p hold whatever it is.
    seed
        Names the stream of draws.

    Raises
    ------
    InputError
        If a parameter is not finite or outside its range.
    """

    def __init__(
        self,
        scores: Mapping[str, float],
        *,
        sensitivity: float = 1.0,
        position: float = 0.0,
        length: float = 0.0,
        family: float = 0.0,
        tie: float = 0.0,
        lengths: Mapping[str, Mapping[str, int]] | None = None,
        length_scale: float = 1.0,
        families: Mapping[str, str] | None = None,
        judge_family: str | None = None,
        prompt_correlation: float = 0.0,
        seed: int = 0,
    ) -> None:
        require_finite(*scores.values(), sensitivity, position, length, family, length_scale)
        if sensitivity <= 0 or length_scale <= 0:
            raise InputError("sensitivity and length_scale must be positive")
        if not 0 <= tie <= 0.5:
            raise InputError(f"tie is {tie}; it must lie between 0 and 1/2")
        if not 0 <= prompt_correlation <= 1:
            raise InputError(f"prompt_correlation is {prompt_correlation}; it lies between 0 and 1")
        if length and lengths is None:
            raise InputError("a length effect needs the lengths of the responses")
        if family and (families is None or judge_family is None):
            raise InputError("a family effect needs families and judge_family")
        self._scores = dict(scores)
        self._sensitivity = sensitivity
        self._position, self._length, self._family = position, length, family
        self._tie = tie
        self._lengths = lengths or {}
        self._length_scale = length_scale
        self._families = families or {}
        self._judge_family = judge_family
        self._prompt_correlation = prompt_correlation
        self._seed = seed

    @property
    def capabilities(self) -> Capabilities:
        """Structured answers, log-probabilities, and any sampling parameter (without effect)."""
        return CAPABILITIES

    def input_tokens_at_most(self, request: Request) -> int:
        """Bound the reported input tokens."""
        return input_bytes(request)

    def win_probability(self, cell: PairCell) -> float:
        """Tie-adjusted probability p that slot A wins this comparison."""
        for candidate in (cell.first, cell.second):
            if candidate not in self._scores:
                raise InputError(f"judge {cell.judge!r}: no score is given for {candidate!r}")
        eta = self._sensitivity * (self._scores[cell.first] - self._scores[cell.second])
        eta += self._position + self._length * self._length_contrast(cell)
        return expit(eta + self._family * self._family_contrast(cell))

    async def ask(self, request: Request) -> Reply:
        """Compare the two responses of ``request.cell``.

        Raises
        ------
        InputError
            If the request is not for a pair, or names an unknown candidate.
        """
        cell, answer = request.cell, request.answer
        if not (isinstance(cell, PairCell) and isinstance(answer, ChoiceAnswer)):
            raise InputError(f"judge {request.cell.judge!r} compares pairs; this is no pair")
        p = self.win_probability(cell)
        tie = 4 * p * (1 - p) * self._tie if len(answer.labels) > 2 else 0.0
        # In the order A, tie, B, so that a larger draw never favours A.
        u = self._draw(cell)
        chosen = 0 if u < p - tie / 2 else 2 if u < p + tie / 2 else 1
        shares = [p - tie / 2, 1 - p - tie / 2, tie, *([0.0] * len(answer.labels))]
        tokens = (
            plain_token('{"winner": "'),
            verdict_token(answer.labels, shares[: len(answer.labels)], chosen),
            plain_token('"}'),
        )
        text = json.dumps({"winner": answer.labels[chosen]}, ensure_ascii=False)
        return simulated_reply(request, text, tokens)

    async def close(self) -> None:
        """Nothing to release."""

    def _length_contrast(self, cell: PairCell) -> float:
        if not self._length:
            return 0.0
        try:
            lengths = self._lengths[cell.prompt]
            first, second = lengths[cell.first], lengths[cell.second]
        except KeyError as error:
            raise InputError(
                f"judge {cell.judge!r}: no length is given for {error.args[0]!r} "
                f"(prompt {cell.prompt!r}, {cell.first!r} and {cell.second!r})"
            ) from None
        return math.log((first + 1) / (second + 1)) / self._length_scale

    def _family_contrast(self, cell: PairCell) -> int:
        if self._judge_family is None:
            return 0
        own = [self._families.get(c) == self._judge_family for c in (cell.first, cell.second)]
        return own[0] - own[1]

    def _draw(self, cell: PairCell) -> float:
        (own,) = uniforms(1, self._seed, *cell_parts(cell))
        if self._prompt_correlation == 0:
            return own
        (shared,) = uniforms(1, self._seed, "prompt", cell.prompt)
        common = math.sqrt(self._prompt_correlation) * NORMAL.inv_cdf(shared)
        return NORMAL.cdf(common + math.sqrt(1 - self._prompt_correlation) * NORMAL.inv_cdf(own))
