"""From the tables of verdicts to the estimates that a look needs.

These functions know nothing of ledgers or judges, so that a recorded table from anywhere is decided
by exactly the code that decides a running campaign.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from math import nan
from typing import Self

import pandas as pd

from benchtrial.errors import DataError, FitError, NotIdentified
from benchtrial.orchestrator.ledger import Covariates
from benchtrial.orchestrator.models import (
    Estimate,
    GLMMPanel,
    OscarFit,
    fit_glmm_panel,
    fit_oscar,
)
from benchtrial.orchestrator.sequential import (
    Best,
    Difference,
    Futility,
    Ranking,
    Screening,
    StoppingPlan,
    Target,
    TopK,
)
from benchtrial.orchestrator.study import AnalysisSpec, StoppingSpec, Study, sha256_of

Pair = tuple[str, str]
# A sandwich around p parameters needs about three clusters for each before it can be trusted.
PROMPTS_PER_PARAMETER = 3
# A judge whose verdicts move by less than this, in log-odds per standard deviation of the
# candidates' scores, sees next to nothing of their quality.
BLIND = 0.1
# Where judges counted alike point the other way, a contrast is left this far from zero, in errors:
# its interval is wide, and finite.
LEAST_AGREEMENT = 0.1
# Reasons of a rating that the judge did give; the others mean that it gave none.
EMITTED = ("ambiguous", "out_of_range", "unparseable")
NOT_ESTIMABLE = Estimate(value=nan, se=nan, low=nan, high=nan, p=nan)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the verdicts say so far.

    Parameters
    ----------
    estimates
        One estimate for each contrast of the target; ``NOT_ESTIMABLE`` where there is none yet.
    fit
        The fitted model, None where the data do not carry it yet.
    saturated
        Why no judge of the panel discriminates any more, or None.
    unidentified
        Why the contrasts cannot be estimated from these data, or None.
    warnings
        What the fit has to say about itself.
    too_early
        Why no look but the last may use the estimates yet, or None.
    """

    estimates: Mapping[Pair, Estimate]
    fit: GLMMPanel | OscarFit | None = None
    saturated: str | None = None
    unidentified: str | None = None
    warnings: tuple[str, ...] = ()
    too_early: str | None = None

    def at_look(self, *, final: bool) -> Self:
        """Return what a look may use: everything at the last one, before that what is sound."""
        if final:
            return self
        if self.too_early:
            unknown = dict.fromkeys(self.estimates, NOT_ESTIMABLE)
            return replace(self, estimates=unknown, saturated=None, unidentified=None)
        return replace(self, unidentified=None)


def stopping_plan(study: Study) -> StoppingPlan:
    """Freeze what the study says about stopping."""
    stopping = study.stopping
    return StoppingPlan(
        rule=stopping.rule,
        alpha=stopping.alpha,
        rope=stopping.rope,
        futility=Futility() if stopping.futility else None,
        optimal_information=stopping.optimal_information,
        target=_target(study),
    )


def _target(study: Study) -> Target:
    wanted = study.stopping.target
    match wanted.kind:
        case "difference" if wanted.a is not None and wanted.b is not None:
            return Difference(wanted.a, wanted.b)
        case "top-k" if wanted.k is not None:
            return TopK(tuple(contenders(study)), wanted.k)
        case "ranking":
            return Ranking(tuple(contenders(study)), wanted.multiplicity)
        case "screening":
            reference = study.reference
            judges = tuple(judge.id for judge in study.judges if judge.id != reference)
            return Screening(judges, reference, wanted.keep)
        case _:
            return Best(tuple(contenders(study)))


def contenders(study: Study) -> list[str]:
    """Whoever can win: the candidates, the groups, or the items where there are no groups."""
    if study.kind == "pairs":
        return [candidate.id for candidate in study.candidates]
    if study.stopping.target.kind == "difference":
        return list(dict.fromkeys(item.group for item in study.items if item.group is not None))
    return [item.id for item in study.items]


def covariates(study: Study) -> Covariates:
    """Collect what the study knows about those who are judged, for the ledger's tables."""
    families = {one.id: one.family for one in study.candidates}
    judge_families = {spec.id: spec.family for spec in study.judges}
    known = bool(families) and all([*families.values(), *judge_families.values()])
    return Covariates(
        items={
            item.id: {"group": item.group, **item.covariates}
            if study.groups
            else dict(item.covariates)
            for item in study.items
        },
        lengths={
            (prompt, one.id): len(text)
            for one in study.candidates
            for prompt, text in one.responses.items()
        },
        families=families if known else {},
        judge_families=judge_families if known else {},
        rubrics={one.id: sha256_of(one.rubric) for one in study.criteria},
    )


def as_emitted(ratings: pd.DataFrame, missing: pd.DataFrame) -> pd.DataFrame:
    """Add to a table of ratings the ones that were emitted but cannot be read, as NaN.

    They carry no value, but they stood before others: the model sums over what they may have been.
    A batch of which nothing can be read says nothing and stays out.
    """
    if "batch" not in missing:
        return ratings
    unread = missing[(missing["state"] == "invalid") & missing["reason"].isin(EMITTED)]
    batch = ["judge", "batch", "criterion", "repetition"]
    columns = [*batch, "position", "item"]
    readable = ratings[batch].drop_duplicates()
    unread = unread[columns].merge(readable, on=batch)
    if unread.empty:
        return ratings
    table = pd.concat([ratings, unread.astype({"batch": int, "position": int})])
    return table.sort_values([*batch, "position"], kind="stable", ignore_index=True)


def weigh(study: Study, table: pd.DataFrame, plan: StoppingPlan) -> Evidence:
    """Fit the study's model to its table so far and estimate the target's contrasts."""
    if study.kind == "batch":
        groups = pd.Series({item.id: item.group for item in study.items}, dtype=object)
        return weigh_ratings(table, study.analysis, study.stopping, groups, plan.target.pairs())
    return weigh_comparisons(table, study.analysis, study.stopping, plan.target.pairs())


def weigh_ratings(
    ratings: pd.DataFrame,
    analysis: AnalysisSpec,
    stopping: StoppingSpec,
    groups: pd.Series,
    pairs: tuple[Pair, ...],
) -> Evidence:
    """Fit the Markov GLMM, a model for each judge, and average the panel's contrasts."""
    unknown = dict.fromkeys(pairs, NOT_ESTIMABLE)
    too_few = _too_few_ratings(ratings, stopping)
    if too_few:
        return Evidence(unknown, warnings=(too_few,))
    panel = list(stopping.panel or ratings["judge"].unique())
    monotone = _all_saturated({name: _one_rating(ratings, name) for name in panel})
    if monotone:
        return Evidence(unknown, saturated=monotone)
    try:
        fit = fit_glmm_panel(ratings, lags=analysis.lags, ridge=analysis.ridge)
        if stopping.target.kind == "difference":
            estimates = {
                (a, b): fit.group_difference(groups.dropna(), a, b, panel=panel) for a, b in pairs
            }
        else:
            estimates = {(a, b): fit.contrast({a: 1.0, b: -1.0}, panel=panel) for a, b in pairs}
    except (FitError, DataError) as error:
        return Evidence(unknown, unidentified=str(error))
    saturated = {name: fit[name].saturation for name in panel}
    return Evidence(
        estimates,
        fit,
        saturated=_all_saturated(saturated),
        warnings=tuple(fit.warnings),
    )


def weigh_comparisons(
    comparisons: pd.DataFrame,
    analysis: AnalysisSpec,
    stopping: StoppingSpec,
    pairs: tuple[Pair, ...],
) -> Evidence:
    """Fit OSCAR and estimate what the target asks for.

    That is the log-odds with which the panel prefers one candidate to another; for a screening,
    the logarithm of how much more sensitive one judge is than another.
    """
    unknown = dict.fromkeys(pairs, NOT_ESTIMABLE)
    if comparisons.empty:
        return Evidence(unknown, warnings=("no valid verdict yet",))
    try:
        fit = fit_oscar(
            comparisons,
            terms=None if analysis.terms is None else "+".join(analysis.terms),
            ridge=analysis.ridge,
            reference=stopping.reference,
            panel=stopping.panel,
        )
        prompts = comparisons["prompt"].nunique()
        degrees = prompts - fit.model.size
        if stopping.target.kind == "screening":
            estimates = {pair: _sharpness(fit, *pair).from_few(degrees) for pair in pairs}
        else:
            alike = fit_oscar(
                comparisons, terms=fit.terms, sensitivities=False, ridge=analysis.ridge
            )
            estimates = {
                (a, b): _held_to(fit.log_odds(a, b), alike.log_odds(a, b)).from_few(degrees)
                for a, b in pairs
            }
    except (FitError, DataError) as error:
        return Evidence(unknown, unidentified=str(error))
    saturated = {name: fit.saturated.get(name) for name in fit.panel}
    return Evidence(
        estimates,
        fit,
        saturated=_all_saturated(saturated),
        warnings=(*fit.warnings, *_blind_panel(fit)),
        too_early=_too_few_prompts(prompts, fit.model.size, stopping),
    )


def _sharpness(fit: OscarFit, judge: str, reference: str) -> Estimate:
    """Compare two judges; not yet, where one is not heard or the reference sees next to nothing."""
    kappa = fit.kappa
    if judge not in kappa.index or reference not in kappa.index or kappa[reference] < BLIND:
        return NOT_ESTIMABLE
    try:
        return fit.sensitivity_ratio(judge, reference)
    except NotIdentified:
        return NOT_ESTIMABLE


def _held_to(estimate: Estimate, alike: Estimate) -> Estimate:
    """Let a contrast stand out no further than it does when all judges count alike.

    Between equal candidates nothing identifies the judges' sensitivities: the fit favours the
    judges who happen to lean one way, and the delta method does not know that it chose. With equal
    sensitivities there is nothing to choose, and under equality that model is true.
    """
    z, z_alike = (one.value / one.se if one.se > 0 else 0.0 for one in (estimate, alike))
    agreed = max(z_alike if z > 0 else -z_alike, LEAST_AGREEMENT)
    if not agreed < abs(z):
        return estimate
    return Estimate.wald(
        estimate.value,
        abs(estimate.value) / agreed,
        label=estimate.label,
        prior_driven=estimate.prior_driven,
    )


def _too_few_prompts(prompts: int, parameters: int, stopping: StoppingSpec) -> str | None:
    wanted = max(stopping.first_look.prompts, PROMPTS_PER_PARAMETER * parameters)
    if prompts >= wanted:
        return None
    return f"the first look comes after {wanted} prompts; so far {prompts}"


def _blind_panel(fit: OscarFit) -> tuple[str, ...]:
    """Warn that no judge of the panel tells the candidates apart."""
    kappa = dict(fit.kappa.items())
    sharpest = max((kappa[judge] for judge in fit.panel), default=BLIND)
    if sharpest >= BLIND:
        return ()
    return (
        f"no judge of the panel tells the candidates apart (sensitivity kappa at most "
        f"{sharpest:.2f}): that they look alike says as much about the judges as about the "
        "candidates",
    )


def _too_few_ratings(ratings: pd.DataFrame, stopping: StoppingSpec) -> str | None:
    if ratings.empty:
        return "no valid rating yet"
    batches = int(ratings.groupby("judge")["batch"].nunique().min())
    answers = int(ratings.groupby(["judge", "item"]).size().min())
    first = stopping.first_look
    if batches >= first.batches or answers >= first.answers:
        return None
    return (
        f"the first look comes after {first.batches} batches or {first.answers} answers per item; "
        f"so far {batches} and {answers}"
    )


def _one_rating(ratings: pd.DataFrame, judge: Hashable) -> str | None:
    given = ratings.loc[ratings["judge"] == judge, "rating"].unique()
    return f"gave the rating {given[0]:g} to everything" if len(given) == 1 else None


def _all_saturated(reasons: Mapping[Hashable, str | None]) -> str | None:
    if not reasons or not all(reasons.values()):
        return None
    return "; ".join(f"{judge}: {reason}" for judge, reason in reasons.items())
