"""One likelihood for several judges: shared items, a kernel of each judge's own.

The judges of a panel may agree on what is good and still differ in memory, in leniency and in how
much their batches vary. The joint model shares the item effects and gives every judge a level,
lags, a cold start and a batch deviation of its own. It is worth its assumption where judges are
few-spoken: each learns about the items from the others. If the judges do not agree on the items,
the separate fits are the honest ones, and their disagreement is a finding.

Each judge's part of the joint fit is handed out as a fit of its own, a linear map of the joint
parameters; a bootstrap draws a batch together with all judges that saw it.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from benchtrial.orchestrator.models.glmm.engine import (
    Core,
    describe,
    gradient_norm,
    require_ridge,
    separated_items,
)
from benchtrial.orchestrator.models.glmm.model import Model, Name, Response
from benchtrial.orchestrator.models.glmm.newton import maximize
from benchtrial.orchestrator.models.glmm.result import GLMMFit
from benchtrial.orchestrator.models.glmm.table import RatingTable

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class JointFit:
    """The optimum of the joint likelihood and how each judge reads it.

    Parameters
    ----------
    core
        Joint parameters and data.
    tables
        Ratings of each judge.
    ridge, response
        Settings of the fit.
    """

    core: Core
    tables: tuple[RatingTable, ...]
    ridge: float
    response: Response

    @property
    def judges(self) -> tuple[Hashable, ...]:
        """The judges, in the order of their tables."""
        return tuple(table.judge for table in self.tables)

    def view(self, judge: Hashable) -> GLMMFit:
        """Return the side of one judge."""
        j = self.judges.index(judge)
        like, optimum, table = self.core.model.likelihood, self.core.optimum, self.tables[j]
        batches = like.batch_judge == j
        fit = self._fit((judge,), *self._map(j))
        loglik = float(like.weights[batches] @ optimum.posterior.evidence[batches])
        fit = replace(fit, loglik=loglik, judge=judge, batches=len(table.batches))
        return describe(fit, table, estimable=bool(self.core.model.free[like.effects + j]))

    def mean_view(self, judges: Sequence[Hashable]) -> GLMMFit:
        """Return the items as ``judges`` see them on average."""
        maps = [self._map(self.judges.index(judge)) for judge in judges]
        names = [name for name in maps[0][0] if name[0] == "item"]
        transform = np.mean([rows[: len(names)] for _, rows in maps], axis=0)
        return self._fit(tuple(judges), tuple(names), transform)

    def _fit(
        self, judges: tuple[Hashable, ...], names: tuple[Name, ...], transform: Floats
    ) -> GLMMFit:
        like, optimum = self.core.model.likelihood, self.core.optimum
        return GLMMFit(
            names=names,
            vector=transform @ optimum.parameters,
            loglik=optimum.posterior.loglik,
            iterations=optimum.iterations,
            gradient_norm=gradient_norm(optimum, list(self.tables)),
            warnings=(),
            judge=None,
            response=self.response,
            ridge=self.ridge,
            scale=self.core.model.scale,
            acceptance=float("nan"),
            separated=separated_items(list(self.tables), self.core.model.scale, like.weights),
            ratings=sum(int((~np.isnan(table.value)).sum()) for table in self.tables),
            batches=len(like.weights),
            unit=self.tables[0].block_name,
            engine=JointView(self, judges, transform),
        )

    def refit(self, *, ridge: float) -> "JointFit":
        """Fit again from the present estimates with another ridge."""
        penalty = np.where(self.core.model.penalty > 0, ridge, 0.0)
        model = replace(self.core.model, penalty=penalty, start=self.core.fresh_start)
        return fit_joint(model, self.tables, ridge, self.response)

    def _map(self, j: int) -> tuple[tuple[Name, ...], Floats]:
        """Return the names of judge ``j``'s parameters and their map from the joint ones."""
        judge = self.tables[j].judge
        names: list[Name] = []
        rows: list[Floats] = []
        unit = np.eye(len(self.core.model.names))
        shift = np.zeros(len(unit))
        for i, (part, label) in enumerate(self.core.model.names):
            if part == "judge" and label == judge:
                shift = unit[i]
        for i, (part, label) in enumerate(self.core.model.names):
            if part == "item":
                names.append((part, label))
                rows.append(unit[i] + shift)
            elif part in {"covariate", "threshold"}:
                names.append((part, label))
                rows.append(unit[i])
            elif part == "lag" and isinstance(label, tuple) and label[0] == judge:
                names.append((part, label[1]))
                rows.append(unit[i])
            elif part in {"cold start", "batch sd"} and label == judge:
                names.append((part, ""))
                rows.append(unit[i])
        return tuple(names), np.array(rows)


@dataclass(frozen=True, eq=False)
class JointView:
    """One side of a joint fit, of a judge or of several on average: a linear map of the core."""

    joint: JointFit
    judges: tuple[Hashable, ...]
    transform: Floats

    @property
    def free_parameters(self) -> int:
        """Number of estimated parameters that this side involves."""
        return int(self.joint.core.optimum.free[(self.transform != 0).any(axis=0)].sum())

    @property
    def units(self) -> int:
        """Number of batches or blocks that a bootstrap draws from, over all judges."""
        return self.joint.core.units

    @cached_property
    def inverse_information(self) -> Floats:
        """Covariance of the parameters of this side."""
        return self.mapped(self.joint.core.inverse_information)

    @cached_property
    def sandwich(self) -> Floats:
        """Covariance robust to dependence within batches, across their judges."""
        return self.mapped(self.joint.core.sandwich)

    def mapped(self, covariance: Floats) -> Floats:
        """Map a covariance of the joint parameters; a deviation held at zero keeps its NaN."""
        known = np.nan_to_num(covariance)
        mapped = self.transform @ known @ self.transform.T
        held = (self.transform[:, ~self.joint.core.optimum.free] != 0).any(axis=1)
        mapped[held, :] = mapped[:, held] = np.nan
        return np.asarray(mapped)

    def replicate(self, drawn: Floats) -> Floats:
        """Refit all judges with each batch counted as often as it was drawn."""
        return np.asarray(self.transform @ self.joint.core.replicate(drawn))

    def one_step(self, drawn: Floats) -> Floats:
        """Take one Newton step towards ``replicate``."""
        return np.asarray(self.transform @ self.joint.core.one_step(drawn))

    def refit(self, *, ridge: float) -> GLMMFit:
        """Fit all judges with another ridge and return the same side."""
        joint = self.joint.refit(ridge=ridge)
        return joint.view(*self.judges) if len(self.judges) == 1 else joint.mean_view(self.judges)


def fit_joint(
    model: Model, tables: Sequence[RatingTable], ridge: float, response: Response
) -> JointFit:
    """Maximise the joint likelihood of several judges."""
    separated = separated_items(list(tables), model.scale, model.likelihood.weights)
    require_ridge(separated, ridge)
    optimum = maximize(model.likelihood, model.penalty, model.start, free=model.free)
    labels = [label for table in tables for label in (table.block_labels[b] for b in table.blocks)]
    codes = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    blocks = np.array([codes[label] for label in labels], dtype=np.intp)
    return JointFit(Core(model, optimum, blocks), tuple(tables), ridge, response)
