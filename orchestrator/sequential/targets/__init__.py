"""What a study wants to know, and when the verdicts on its contrasts add up to an answer.

A target names the contrasts that have to be estimated, says how they share alpha, and reads an
answer from their verdicts:

* ``Difference``: one contrast.
* ``Best``: one candidate ahead of every other. No correction for the number of contrasts is needed:
  the claim needs *all* contrasts of the winner at once, so that a false claim needs a true equal or
  better to be excluded, which has probability alpha / 2 (intersection-union test; Berger 1982). The
  argument is exact for a candidate named in advance; for a leader that the data chose it rests on
  simulation, the worst case being a two-way tie with error 2 * alpha / 2.
* ``TopK``: a set of k ahead of all others, by the same argument over its k (M - k) contrasts.
* ``Ranking``: the whole order. Every pair is a claim of its own, so that the family of all pairs is
  controlled: Holm's procedure on group-sequential bounds, or simulated max-|Z| bounds.
* ``Screening``: which judges are sensitive enough to keep, by Holm over the judges.
"""

from benchtrial.orchestrator.sequential.targets.base import Family, Target, require_known
from benchtrial.orchestrator.sequential.targets.families import Ranking, Screening
from benchtrial.orchestrator.sequential.targets.leaders import Best, Difference, TopK

__all__ = [
    "Best",
    "Difference",
    "Family",
    "Ranking",
    "Screening",
    "Target",
    "TopK",
    "require_known",
]
