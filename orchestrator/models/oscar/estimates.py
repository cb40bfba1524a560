"""Point estimates and predictions of an OSCAR fit, labelled by the user's own ids."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from benchtrial.errors import DataError
from benchtrial.orchestrator.models.oscar.arrays import Floats
from benchtrial.orchestrator.models.oscar.covariance import slot_a_probability
from benchtrial.orchestrator.models.oscar.identification import components
from benchtrial.orchestrator.models.oscar.model import Model
from benchtrial.orchestrator.models.oscar.newton import Minimum
from benchtrial.orchestrator.models.oscar.table import Comparisons, encode_like


@dataclass(frozen=True, eq=False)
class PointEstimates:
    """Where the fit ended, in the terms of the user.

    Attributes
    ----------
    data, model, ridge, minimum, length_scale
        The records, the coordinates, the penalty, the optimiser's trace and the divisor of L.
    """

    data: Comparisons
    model: Model
    ridge: float
    minimum: Minimum
    length_scale: float

    @cached_property
    def natural(self) -> Floats:
        """Scores, log-sensitivities and coefficients as one vector.

        Groups that were never compared have a zero of their own.
        """
        natural = self.model.natural(self.minimum.point.theta)
        group = components(self.data)
        scores = natural[: self.model.candidates]
        scores -= (np.bincount(group, scores) / np.bincount(group))[group]
        return natural

    @cached_property
    def scores(self) -> "pd.Series[float]":
        """Candidate scores; they sum to zero."""
        return pd.Series(
            self.natural[: self.model.candidates], index=self.data.candidates, name="score"
        )

    @cached_property
    def sensitivity(self) -> "pd.Series[float]":
        """Judge sensitivities gamma; that of the reference judge is one."""
        return self._by_judge(np.exp(self._judges("sensitivity").to_numpy()), "sensitivity")

    @cached_property
    def kappa(self) -> "pd.Series[float]":
        """Scale-invariant sensitivities gamma RMS(s), by judge."""
        return (self.sensitivity * self._rms).rename("kappa")

    @property
    def position(self) -> "pd.Series[float]":
        """Position coefficients; positive favours the first slot. Zero if not in the model."""
        return self._judges("position")

    @property
    def length(self) -> "pd.Series[float]":
        """Length coefficients per standard deviation of the log ratio. Zero if not in the model."""
        return self._judges("length")

    @property
    def family(self) -> "pd.Series[float]":
        """Coefficients of one's own family. Zero if not in the model."""
        return self._judges("family")

    @property
    def tie(self) -> "pd.Series[float]":
        """Davidson's tie parameters tau. Zero if not in the model."""
        return self._judges("tie")

    @property
    def net_first_slot(self) -> "pd.Series[float]":
        """D = tanh(position / 2): P(A) - P(B) between equally good responses, by judge."""
        return self._by_judge(np.tanh(self.position.to_numpy() / 2), "net_first_slot")

    @property
    def terms(self) -> str:
        """The terms that were fitted, joined by ``+``."""
        return "+".join(self.model.terms)

    @property
    def reference(self) -> Hashable:
        """The judge whose sensitivity is one."""
        label: Hashable = self.data.judges[self.model.reference]
        return label

    @property
    def loglik(self) -> float:
        """Log-likelihood (quasi-likelihood where ties or probabilities are fractional)."""
        theta = self.minimum.point.theta
        return -(self.minimum.point.loss - self.ridge / 2 * float(theta @ theta))

    @property
    def length_contrast(self) -> Floats | None:
        """L of each record, or None without a length term."""
        if "length" not in self.model.terms or self.data.length_ratio is None:
            return None
        contrast: Floats = self.data.length_ratio / self.length_scale
        return contrast

    def predict(self, comparisons: pd.DataFrame) -> Floats:
        """Predict the slot-A score of each row, biases included.

        Raises
        ------
        DataError
            If a judge or candidate is new to the fit, or a column that a term needs is missing.
        """
        return self.predict_encoded(encode_like(comparisons, self.data))

    def predict_encoded(self, data: Comparisons) -> Floats:
        """Predict for records in the codes of this fit."""
        length = None
        if "length" in self.model.terms:
            if data.length_ratio is None:
                raise DataError("the length term needs the columns first_length, second_length")
            length = data.length_ratio / self.length_scale
        return slot_a_probability(data, self.model, self.natural, length)

    def carried_to(self, data: Comparisons, model: Model) -> Floats:
        """Express these estimates in the free coordinates of another model, for a warm start."""
        natural = np.zeros(model.natural_size)
        candidate = self.data.candidates.get_indexer(data.candidates)
        judge = self.data.judges.get_indexer(data.judges)
        scores = np.where(candidate < 0, 0.0, self.natural[: self.model.candidates][candidate])
        if model.sensitivities:
            log = np.where(judge < 0, 0.0, self.natural[self.model.block("sensitivity")][judge])
            scores *= np.exp(log[model.reference])
            natural[model.block("sensitivity")] = log - log[model.reference]
        natural[: model.candidates] = scores
        for name in set(model.blocks) & set(self.model.blocks):
            values = self.natural[self.model.block(name)][judge]
            natural[model.block(name)] = np.where(judge < 0, 0.0, values)
        return model.gradient(natural)

    @cached_property
    def _rms(self) -> float:
        return float(np.sqrt(np.mean(self.natural[: self.model.candidates] ** 2)))

    def _judges(self, name: str) -> "pd.Series[float]":
        if name == "sensitivity" or name in self.model.blocks:
            values = self.natural[self.model.block(name)]
        else:
            values = np.zeros(self.model.judges)
        return self._by_judge(values, name)

    def _by_judge(self, values: Floats, name: str) -> "pd.Series[float]":
        return pd.Series(values, index=self.data.judges, name=name)
