"""One number with what is known about its error: the common currency of the models.

Every model hands its contrasts to the stopping rules as an :class:`Estimate`. The interval and the
test are Wald's on the scale of the value, which for both model families is the log-odds scale.
"""

from dataclasses import dataclass
from math import erfc, isfinite, nan, sqrt
from typing import Self

from scipy.special import stdtrit

#: Standard normal quantile of a two-sided 95 % interval.
Z_95 = 1.959963984540054


@dataclass(frozen=True)
class Estimate:
    """A contrast on the log-odds scale.

    Attributes
    ----------
    value
        The point estimate.
    se
        Its standard error; NaN where the data do not give one (yet).
    low, high
        Ends of the two-sided 95 % interval.
    p
        Two-sided Wald p-value against zero.
    label
        What was estimated, in the user's own ids.
    prior_driven
        Whether the value leans on the ridge because the likelihood alone has no finite maximum
        (an item accepted always or never, a candidate that never lost). Such an estimate is shown
        and never stops a study.
    """

    value: float
    se: float
    low: float
    high: float
    p: float
    label: str = ""
    prior_driven: bool = False

    @classmethod
    def wald(cls, value: float, se: float, *, label: str = "", prior_driven: bool = False) -> Self:
        """Build an estimate from a value and its standard error.

        A standard error that is not a positive finite number gives no interval and no p-value.
        """
        if not (isfinite(value) and isfinite(se) and se > 0):
            return cls(value, se, nan, nan, nan, label, prior_driven)
        return cls(
            value=value,
            se=se,
            low=value - Z_95 * se,
            high=value + Z_95 * se,
            p=erfc(abs(value) / se / sqrt(2)),
            label=label,
            prior_driven=prior_driven,
        )

    def from_few(self, degrees: int) -> Self:
        """Allow for a standard error that was itself estimated from few clusters.

        A sandwich from G independent clusters, around p parameters, is taken as Student's t with
        ``degrees`` = G - p degrees of freedom. The standard error is widened by the ratio of the
        97.5 % quantiles, so that rules for normal estimates hold: for a single 5 % test, and nearly
        for the bounds of a sequence of looks.
        """
        if degrees < 1:
            return type(self).wald(
                self.value, nan, label=self.label, prior_driven=self.prior_driven
            )
        widened = self.se * float(stdtrit(degrees, 0.975)) / Z_95
        return type(self).wald(
            self.value, widened, label=self.label, prior_driven=self.prior_driven
        )
