"""A fitted OSCAR model: estimates, intervals, predictions and what to make of them.

Scores have no zero and no unit of their own (adding a constant, or trading scale between scores and
sensitivities, changes no prediction), so what can be compared between fits is

* ``q_ij``, the probability that a judge of the panel's average sensitivity prefers i to j with all
  biases set to zero, and its log-odds ``h_ij = mean(gamma) (s_i - s_j)``;
* ``kappa_k = gamma_k RMS(s)``, a judge's sensitivity on the scale of the candidates' spread;
* ``D_k = tanh(position_k / 2)``, its net preference for the first slot between equal responses.

Intervals are Wald intervals on the scale on which the quantity is unbounded (log-odds, log kappa,
the position coefficient), carried over to the scale of the report. A contrast that the records do
not identify is refused; the others are still given.

Source: OSCAR (arXiv 2609.24128), sections 3.3 and 5, appendix A.8.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from benchtrial.errors import DataError, NotIdentified
from benchtrial.orchestrator.models.estimate import Estimate
from benchtrial.orchestrator.models.oscar.arrays import Floats, Ints
from benchtrial.orchestrator.models.oscar.estimates import PointEstimates
from benchtrial.orchestrator.models.oscar.identification import (
    SATURATED,
    Check,
    components,
    design_checks,
    fit_checks,
    gap_check,
    strong_components,
)
from benchtrial.orchestrator.models.oscar.uncertainty import (
    FLAT_SHARE,
    Contrasts,
    Covariance,
    Uncertainty,
    quantile,
)

#: Checks whose failure means that some contrast is not identified.
IDENTIFYING = ("identification", "connectivity", "family")


@dataclass(frozen=True, eq=False)
class OscarFit(PointEstimates):
    """What one fit says, how sure it is, and what it cannot say.

    See the module's docstring for what the estimates mean; the point estimates themselves
    (``scores``, ``sensitivity``, ``kappa``, ``position``, ``length``, ``family``,
    ``net_first_slot``) and ``predict`` come from :class:`PointEstimates`.

    Attributes
    ----------
    named_panel
        The panel as asked for, or None for the default.
    notes
        What was noticed while reading the table and choosing the terms.
    """

    named_panel: tuple[Hashable, ...] | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def panel(self) -> tuple[Hashable, ...]:
        """Judges over which win probabilities average the sensitivity."""
        if self.named_panel is not None:
            return self.named_panel
        judged = np.isin(np.arange(self.model.judges), self.data.judge)
        usable = judged & ~self.data.human & self._sensitivity_identified
        if not usable.any():
            usable = judged
        return tuple(self.data.judges[usable])

    @property
    def mean_sensitivity(self) -> float:
        """Average sensitivity of the panel, which turns score differences into h."""
        return float(self._panel_weights.sum())

    # What holds and what does not --------------------------------------------------------------

    @cached_property
    def checks(self) -> list[Check]:
        """The named checks; see :class:`Check`."""
        scores = self.natural[: self.model.candidates]
        checks = fit_checks(
            self.data,
            self.minimum,
            self._uncertainty.flat,
            self.model.log_sensitivities,
            self.data.clusters,
        )
        checks += design_checks(self.data, self.model.terms)
        if self.model.sensitivities:
            checks.append(gap_check(self.data, scores, self.model.terms))
        return checks

    @property
    def identified(self) -> bool:
        """Whether every contrast of candidates is identified."""
        return all(check.passed for check in self.checks if check.name in IDENTIFYING)

    @property
    def saturated(self) -> dict[Hashable, str]:
        """Judges whose slot decides next to everything, with the reason."""
        reasons = {}
        for judge, preference in self.net_first_slot.items():
            if abs(preference) > SATURATED:
                slot = "first" if preference > 0 else "second"
                reasons[judge] = (
                    f"net {slot}-slot preference {abs(preference):.3f} is above {SATURATED}"
                )
        return reasons

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Everything the reader of this fit should know, in plain words."""
        failed = [f"{check.name}: {check.detail}" for check in self.checks if not check.passed]
        saturated = [f"{judge} is saturated: {why}" for judge, why in self.saturated.items()]
        panel = []
        if self.named_panel is None and self.model.judges > len(self.panel):
            left = [str(judge) for judge in self.data.judges if judge not in self.panel]
            panel = [f"not in the panel: {', '.join(left)} (human, or sensitivity not identified)"]
        repeated = []
        if copies := self.data.repeated:
            repeated = [
                f"{copies} rows repeat the judge, prompt, order and repetition of another row; "
                "they are counted as given (drop them, or number them in a 'repetition' column)"
            ]
        return (*self.notes, *repeated, *failed, *saturated, *panel)

    # Uncertainty -------------------------------------------------------------------------------

    @property
    def covariance(self) -> pd.DataFrame:
        """Prompt-cluster covariance of scores, log-sensitivities and coefficients.

        Rows and columns are labelled (kind, label). NaN where it cannot be computed.
        """
        return self._labelled(self._uncertainty.covariance("cluster"))

    @property
    def model_covariance(self) -> pd.DataFrame:
        """Covariance as if all records were independent; labelled like :attr:`covariance`."""
        return self._labelled(self._uncertainty.covariance("model"))

    def log_odds(
        self, first: Hashable, second: Hashable, *, covariance: Covariance = "cluster"
    ) -> Estimate:
        """Estimate h = mean(gamma) (s_first - s_second), biases set to zero.

        Raises
        ------
        NotIdentified
            If the records do not identify this contrast.
        """
        i, j = self._candidate(first), self._candidate(second)
        table = self._contrasts(np.array([i]), np.array([j]), covariance)
        if not table.identified[0]:
            raise NotIdentified(
                f"{first} against {second} is not identified: {self._why_not(i, j)}"
            )
        strong = strong_components(self.data)
        return Estimate.wald(
            float(table.value[0]),
            float(table.se[0]),
            label=f"{first} - {second}",
            prior_driven=bool(strong[i] != strong[j]),
        )

    def sensitivity_ratio(
        self, first: Hashable, second: Hashable, *, covariance: Covariance = "cluster"
    ) -> Estimate:
        """Estimate log(gamma_first / gamma_second): how much sharper one judge is than another.

        It is log kappa_first - log kappa_second, too: the spread of the candidates cancels.

        Raises
        ------
        DataError
            If the fit does not hold one of the judges.
        NotIdentified
            If the records do not identify both sensitivities, or the fit estimates none.
        """
        k, other = self._judge(first), self._judge(second)
        lacking = {
            label
            for check in self.checks
            if check.name in ("order", "gaps") and not check.passed
            for label in check.labels
        }
        if not self.model.sensitivities or lacking & {first, second}:
            raise NotIdentified(
                f"the sensitivity of {first} against {second} is not identified: a judge must meet "
                "two distinct gaps of quality, in both orders, in a fit with sensitivities"
            )
        block = self.model.block("sensitivity")
        gradient = np.zeros((1, self.model.natural_size))
        gradient[0, block.start + k] += 1.0
        gradient[0, block.start + other] -= 1.0
        value = self.natural[block.start + k] - self.natural[block.start + other]
        se = self._uncertainty.standard_errors(gradient, covariance)[0]
        return Estimate.wald(float(value), float(se), label=f"log {first} / {second}")

    @property
    def pairs(self) -> tuple[tuple[Hashable, Hashable], ...]:
        """All pairs of candidates, in the order of :meth:`win_probability`."""
        i, j = self._all_pairs
        names = self.data.candidates
        return tuple((names[a], names[b]) for a, b in zip(i, j, strict=True))

    def win_probability(
        self, level: float = 0.95, covariance: Covariance = "cluster"
    ) -> pd.DataFrame:
        """Estimate q = P(first preferred) for every pair, with an interval (equation 10).

        Returns
        -------
        DataFrame with columns first, second, q, low, high. A pair that is not identified has NaN.
        """
        i, j = self._all_pairs
        table = self._contrasts(i, j, covariance)
        value = np.where(table.identified, table.value, np.nan)
        half = quantile(level) * table.se
        return pd.DataFrame(
            {
                "first": self.data.candidates[i],
                "second": self.data.candidates[j],
                "q": special.expit(value),
                "low": special.expit(value - half),
                "high": special.expit(value + half),
            }
        )

    def rank_intervals(
        self, level: float = 0.95, covariance: Covariance = "cluster"
    ) -> pd.DataFrame:
        """Give each candidate's rank and the ranks that the data leave open for it.

        With probability ``level`` all true ranks lie in their intervals together (Bonferroni over
        pairs): a candidate is below every other whose contrast with it is clear.

        Returns
        -------
        DataFrame with columns candidate, rank, low, high, best first. Without full identification
        ranks are NaN across groups, because no common order exists.
        """
        i, j = self._all_pairs
        table = self._contrasts(i, j, covariance)
        critical = quantile(1 - (1 - level) / max(1, len(i)))
        clear = table.identified & (np.abs(table.value) > critical * table.se)
        winner = np.where(table.value > 0, i, j)
        loser = np.where(table.value > 0, j, i)
        size = self.model.candidates
        rank = self.scores.rank(ascending=False, method="min")
        if not table.identified.all():
            rank = rank * np.nan
        return (
            pd.DataFrame(
                {
                    "candidate": self.data.candidates,
                    "rank": rank.to_numpy(),
                    "low": 1 + np.bincount(loser[clear], minlength=size),
                    "high": size - np.bincount(winner[clear], minlength=size),
                    "score": self.scores.to_numpy(),
                }
            )
            .sort_values("score", ascending=False, kind="stable")
            .drop(columns="score")
            .reset_index(drop=True)
        )

    def judge_effects(
        self, level: float = 0.95, covariance: Covariance = "cluster"
    ) -> pd.DataFrame:
        """Estimate each judge's kappa, D and coefficients with intervals.

        Returns
        -------
        DataFrame with columns judge, effect, value, low, high; ``effect`` is kappa,
        net_first_slot, or a term. Coefficients fixed at zero and effects that are not identified
        have NaN intervals.
        """
        half = quantile(level)
        tables = []
        if self.model.sensitivities:
            se = self._uncertainty.standard_errors(self._log_kappa_gradient, covariance)
            log_kappa = np.log(self.kappa.to_numpy())
            tables.append(
                self._effect_rows("kappa", *(np.exp(log_kappa + x * se) for x in (0, -half, half)))
            )
        for name in self.model.blocks:
            block = self.model.block(name)
            gradient = np.eye(self.model.natural_size)[block]
            se = self._uncertainty.standard_errors(gradient, covariance)
            se[se == 0] = np.nan
            value = self.natural[block]
            ends = [value + x * se for x in (-half, half)]
            if name == "position":
                tables.append(
                    self._effect_rows("net_first_slot", *(np.tanh(x / 2) for x in (value, *ends)))
                )
            tables.append(self._effect_rows(name, value, *ends))
        if not tables:
            return pd.DataFrame(columns=["judge", "effect", "value", "low", "high"])
        return pd.concat(tables, ignore_index=True)

    # Private -----------------------------------------------------------------------------------

    @cached_property
    def _all_pairs(self) -> tuple[Ints, Ints]:
        i, j = np.triu_indices(self.model.candidates, k=1)
        return i, j

    @cached_property
    def _uncertainty(self) -> Uncertainty:
        return Uncertainty(
            self.data,
            self.model,
            self.natural,
            self.minimum.point,
            self.ridge,
            self.length_contrast,
        )

    @cached_property
    def _log_kappa_gradient(self) -> Floats:
        """Derivative of log kappa_k, one row per judge, natural coordinates."""
        size, scores = self.model.candidates, self.natural[: self.model.candidates]
        gradient = np.zeros((self.model.judges, self.model.natural_size))
        gradient[:, :size] = scores / max(float(scores @ scores), np.finfo(float).tiny)
        block = self.model.block("sensitivity")
        gradient[np.arange(self.model.judges), np.arange(block.start, block.stop)] = 1.0
        return gradient

    @cached_property
    def _sensitivity_identified(self) -> npt.NDArray[np.bool_]:
        if not self.model.sensitivities or not self._uncertainty.flat.shape[1]:
            return np.ones(self.model.judges, dtype=bool)
        gradient = np.eye(self.model.natural_size)[self.model.block("sensitivity")]
        return self._uncertainty.flat_share(gradient) <= FLAT_SHARE

    def _candidate(self, label: Hashable) -> int:
        if label not in self.data.candidates:
            raise DataError(
                f"{label!r} is no candidate of this fit; it holds "
                f"{', '.join(map(str, self.data.candidates))}"
            )
        return int(self.data.candidates.get_indexer(pd.Index([label]))[0])

    def _judge(self, label: Hashable) -> int:
        if label not in self.data.judges:
            raise DataError(
                f"{label!r} is no judge of this fit; it holds "
                f"{', '.join(map(str, self.data.judges))}"
            )
        return int(self.data.judges.get_indexer(pd.Index([label]))[0])

    def _labelled(self, covariance: Floats) -> pd.DataFrame:
        kinds = [("score", label) for label in self.data.candidates]
        for name in ("log_sensitivity", *self.model.blocks):
            kinds += [(name, label) for label in self.data.judges]
        index = pd.MultiIndex.from_tuples(kinds, names=["kind", "label"])
        return pd.DataFrame(covariance, index=index, columns=index)

    @cached_property
    def _panel_weights(self) -> Floats:
        """Derivative of mean(gamma) by v_k."""
        members = self.data.judges.get_indexer(pd.Index(list(self.panel)))
        weights = np.zeros(self.model.judges)
        weights[members] = self.sensitivity.to_numpy()[members] / len(members)
        return weights

    def _contrasts(self, i: Ints, j: Ints, kind: Covariance) -> Contrasts:
        return self._uncertainty.contrasts(i, j, self._panel_weights, kind)

    def _why_not(self, i: int, j: int) -> str:
        group = components(self.data)
        if group[i] != group[j]:
            return (
                "no chain of comparisons links them (compare a candidate of each group with one "
                "of the other)"
            )
        failed = [c.detail for c in self.checks if c.name in ("family", "gaps") and not c.passed]
        return "; ".join(failed) or "these records leave a direction open that moves it"

    def _effect_rows(self, effect: str, value: Floats, low: Floats, high: Floats) -> pd.DataFrame:
        return pd.DataFrame(
            {"judge": self.data.judges, "effect": effect, "value": value, "low": low, "high": high}
        )
