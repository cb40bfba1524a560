"""The fit: known values, two independent routes, and faults that must be named."""

import pickle
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special

from benchtrial.errors import DataError, FitError, NotConverged
from benchtrial.orchestrator.models import fit_oscar
from benchtrial.orchestrator.models.oscar import OscarFit
from benchtrial.orchestrator.models.oscar.cells import group
from benchtrial.orchestrator.models.oscar.likelihood import evaluate

Simulate = Callable[..., pd.DataFrame]
Wins = Callable[..., pd.DataFrame]
Recorded = Callable[[str], pd.DataFrame]

#: Case C54: wins of the row's candidate over the column's.
LEAGUE = [
    ("A", "B", 7), ("A", "C", 8), ("A", "D", 9),
    ("B", "A", 3), ("B", "C", 6), ("B", "D", 8),
    ("C", "A", 2), ("C", "B", 4), ("C", "D", 6),
    ("D", "A", 1), ("D", "B", 2), ("D", "C", 4),
]  # fmt: skip


def plain_bt(table: pd.DataFrame, **options: float) -> OscarFit:
    return fit_oscar(table, terms="", sensitivities=False, **options)


def by_rows(fit: OscarFit, table: pd.DataFrame) -> tuple[float, np.ndarray]:
    """The penalized loss and its gradient from the definition, one row at a time.

    An independent route: no cells, no closed-form derivative of the kernel is shared.
    """
    model, theta = fit.model, fit.minimum.point.theta
    candidates = {label: i for i, label in enumerate(fit.data.candidates)}
    judges = {label: k for k, label in enumerate(fit.data.judges)}
    a = table["first"].map(candidates).to_numpy()
    b = table["second"].map(candidates).to_numpy()
    k = table["judge"].map(judges).to_numpy()
    y = table["outcome"].to_numpy()
    covariates = {"position": np.ones(len(table))}
    if "length" in model.terms:
        ratio = np.log((table["first_length"] + 1) / (table["second_length"] + 1))
        covariates["length"] = (ratio / fit.length_scale).to_numpy()
    if "family" in model.terms:
        own = table["judge_family"]
        covariates["family"] = (
            (table["first_family"] == own).astype(float) - (table["second_family"] == own)
        ).to_numpy()

    def loss(free: np.ndarray) -> float:
        natural = model.natural(free)
        eta = np.exp(natural[model.block("sensitivity")])[k] * (natural[a] - natural[b])
        for name in model.terms:
            eta = eta + natural[model.block(name)][k] * covariates[name]
        ridge = fit.ridge / 2 * free @ free
        if not model.tie:
            return float(np.sum(np.logaddexp(0, eta) - y * eta) + ridge)
        tau = natural[model.block("tie")][k]
        scores = np.stack([eta / 2, -eta / 2, tau])
        chosen = np.select([y == 1, y == 0], [scores[0], scores[1]], scores[2])
        return float(np.sum(special.logsumexp(scores, axis=0) - chosen) + ridge)

    gradient = optimize.approx_fprime(theta, loss, 1e-6)
    return loss(theta), gradient


MODELS = [
    ("", True, "half"),
    ("position", True, "half"),
    ("length", True, "half"),
    ("family", True, "half"),
    ("position+length+family", True, "half"),
    ("position+length+family", False, "half"),
    ("", False, "half"),
    ("position+length+family", False, "davidson"),
    ("position", True, "davidson"),
]


@pytest.mark.parametrize(("terms", "sensitivities", "ties"), MODELS)
def test_the_kernel_agrees_with_the_definition(
    simulate: Simulate, terms: str, sensitivities: bool, ties: str
) -> None:
    table = simulate(60, seed=3)
    table.loc[::7, "outcome"] = 0.5
    fit = fit_oscar(table, terms=terms, sensitivities=sensitivities, ties=ties)
    loss, gradient = by_rows(fit, table)
    assert fit.minimum.point.loss == pytest.approx(loss, rel=1e-12)
    # Finite differences with step 1e-6 of a loss near 200 are good to about 1e-4.
    assert np.abs(gradient).max() < 1e-3
    assert fit.minimum.gradient_per_comparison < 1e-10


@pytest.mark.parametrize(("terms", "sensitivities", "ties"), MODELS)
@pytest.mark.parametrize("repeats", [True, False])
def test_the_hessian_is_the_derivative_of_the_gradient(
    simulate: Simulate, terms: str, sensitivities: bool, ties: str, repeats: bool
) -> None:
    """Also where every cell holds one record, whose sums must not share its memory."""
    table = simulate(40, seed=4)
    table.loc[::5, "outcome"] = 0.5
    if not repeats:
        table = table.drop_duplicates(["judge", "first", "second"])
    fit = fit_oscar(table, terms=terms, sensitivities=sensitivities, ties=ties)
    length = fit.data.length_ratio / fit.length_scale
    cells = group(fit.data, fit.model, length)
    at = np.random.default_rng(0).normal(0, 0.5, fit.model.size)

    def gradient(theta: np.ndarray) -> np.ndarray:
        return fit.model.gradient(evaluate(cells, fit.model, fit.model.natural(theta)).gradient)

    step = 1e-6
    columns = [
        (gradient(at + step * unit) - gradient(at - step * unit)) / (2 * step)
        for unit in np.eye(fit.model.size)
    ]
    exact = fit.model.hessian(evaluate(cells, fit.model, fit.model.natural(at)).hessian)
    np.testing.assert_allclose(exact, np.stack(columns), rtol=1e-5, atol=1e-5)


def test_parameters_equal_those_of_l_bfgs(simulate: Simulate) -> None:
    table = simulate(500, seed=5)
    fit = fit_oscar(table)

    cells = group(fit.data, fit.model, fit.data.length_ratio / fit.length_scale)

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        at = evaluate(cells, fit.model, fit.model.natural(theta))
        ridge = fit.ridge
        return at.loss + ridge / 2 * theta @ theta, fit.model.gradient(at.gradient) + ridge * theta

    other = optimize.minimize(
        objective, np.zeros(fit.model.size), jac=True, method="L-BFGS-B",
        options={"ftol": 0, "gtol": 1e-6, "maxiter": 5000},
    )  # fmt: skip
    # L-BFGS-B ends with a gradient of 1e-6 on a curvature of a few units.
    np.testing.assert_allclose(other.x, fit.minimum.point.theta, atol=1e-5)


def test_score_contrasts_are_helmerts(simulate: Simulate) -> None:
    """Appendix B.1, written out for three candidates; orthonormal and free of the mean for all."""
    table = simulate(60, seed=3)
    contrasts = fit_oscar(table, terms="").model.helmert
    np.testing.assert_allclose(contrasts.T @ contrasts, np.eye(7), atol=1e-14)
    np.testing.assert_allclose(contrasts.sum(axis=0), 0, atol=1e-14)
    three = fit_oscar(table[table[["first", "second"]].lt(3).all(axis=1)], terms="").model.helmert
    by_hand = [[1 / 2**0.5, 1 / 6**0.5], [-1 / 2**0.5, 1 / 6**0.5], [0, -2 / 6**0.5]]
    np.testing.assert_allclose(three, by_hand, atol=1e-14)


def test_league_of_four_by_hand(wins: Wins) -> None:
    """Case C54: reference values from R's BradleyTerry2, to its printed digits."""
    table = wins(LEAGUE)
    fit = plain_bt(table, ridge=0.0)
    expected = {"A": 1.09166, "B": 0.22129, "C": -0.35100, "D": -0.96195}
    assert fit.scores.to_dict() == pytest.approx(expected, abs=5e-6)
    a_d = fit.log_odds("A", "D", covariance="model")
    a_b = fit.log_odds("A", "B", covariance="model")
    assert (a_d.value, a_d.se) == pytest.approx((2.05361, 0.58610), abs=5e-6)
    assert (a_b.value, a_b.se) == pytest.approx((0.87037, 0.52321), abs=5e-6)
    # Wins minus expected wins, candidate by candidate.
    won = {c: sum(n for w, _, n in LEAGUE if w == c) for c in "ABCD"}
    for label in "ABCD":
        others = [(o, sum(n for w, x, n in LEAGUE if {w, x} == {label, o})) for o in "ABCD"]
        expected_wins = sum(
            n * special.expit(fit.scores[label] - fit.scores[o]) for o, n in others if o != label
        )
        assert won[label] - expected_wins == pytest.approx(0, abs=1e-8)


def test_ties_count_one_half_once(wins: Wins) -> None:
    """A tie is half a win for each, once: not a win for both, which counts it twice."""
    table = wins([("A", "B", 6), ("B", "A", 2)])
    ties = pd.DataFrame(
        {"judge": "judge", "prompt": range(100, 104), "first": "A", "second": "B", "outcome": 0.5}
    )
    fit = plain_bt(pd.concat([table, ties]), ridge=0.0)
    assert fit.log_odds("A", "B").value == pytest.approx(np.log((6 + 2) / (2 + 2)))


def test_sensitivity_is_attenuated_without_position() -> None:
    """Both orders of every pair: leaving position out shrinks kappa by about 1 - D^2.

    Small gaps, 40,000 records per judge: the ratio has a standard error near 0.03.
    """
    rng = np.random.default_rng(6)
    scores, position = np.array([-0.3, -0.1, 0.1, 0.3]), np.array([0.0, 1.0, -2.0])
    rows = 120_000
    judge, first = rng.integers(0, 3, rows), rng.integers(0, 4, rows)
    second = (first + rng.integers(1, 4, rows)) % 4
    p = special.expit(scores[first] - scores[second] + position[judge])
    table = pd.DataFrame(
        {"judge": judge, "prompt": np.arange(rows), "first": first, "second": second}
    )
    table["outcome"] = (rng.random(rows) < p).astype(float)
    j, jp = fit_oscar(table, terms=""), fit_oscar(table, terms="position")
    np.testing.assert_allclose(j.kappa / jp.kappa, 1 - np.tanh(position / 2) ** 2, atol=0.1)
    np.testing.assert_allclose(jp.net_first_slot, np.tanh(position / 2), atol=0.03)


def test_the_truth_is_recovered(simulate: Simulate) -> None:
    fit = fit_oscar(simulate(8000, seed=7, dependence=0.0), length_scale=1.5)
    # Standard errors at 40,000 independent records are below 0.05 for every coordinate.
    np.testing.assert_allclose(fit.position, [0.9, -0.7, 0.5, 1.0, -0.4], atol=0.15)
    np.testing.assert_allclose(fit.length, [0.3, 0.5, 0.4, 0.35, 0.55], atol=0.15)
    np.testing.assert_allclose(fit.family, [0.18, -0.12, 0.22, 0.1, -0.15], atol=0.15)
    np.testing.assert_allclose(fit.sensitivity, np.exp([0, 0.2, -0.3, 0.35, -0.15]), atol=0.25)
    np.testing.assert_allclose(fit.scores, np.linspace(-0.85, 0.85, 8), atol=0.15)
    assert fit.net_first_slot[0] == pytest.approx(np.tanh(0.45), abs=0.06)


def test_kappa_and_d_do_not_depend_on_the_reference(simulate: Simulate) -> None:
    table = simulate(300, seed=8)
    fits = [fit_oscar(table, ridge=0.0, reference=judge) for judge in range(5)]
    for fit in fits[1:]:
        np.testing.assert_allclose(fit.kappa, fits[0].kappa, rtol=1e-7)
        np.testing.assert_allclose(fit.net_first_slot, fits[0].net_first_slot, rtol=1e-6)
        pd.testing.assert_frame_equal(fit.win_probability(), fits[0].win_probability(), rtol=1e-6)
    assert fits[2].sensitivity[2] == 1.0


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_row_order_and_labels_do_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = 200
    first = rng.integers(0, 4, rows)
    table = pd.DataFrame(
        {
            "judge": rng.integers(0, 3, rows),
            "prompt": rng.integers(0, 30, rows),
            "first": first,
            "second": (first + rng.integers(1, 4, rows)) % 4,
            "outcome": rng.choice([0.0, 0.5, 1.0], rows),
            "repetition": np.arange(rows),
        }
    )
    fit = fit_oscar(table, terms="position")
    shuffled = fit_oscar(table.sample(frac=1, random_state=0), terms="position")
    np.testing.assert_allclose(shuffled.scores, fit.scores, atol=1e-9)
    # Swapping every display (slots and outcomes) changes the sign of position and nothing else.
    mirrored = table.rename(columns={"first": "second", "second": "first"})
    mirrored["outcome"] = 1 - mirrored["outcome"]
    turned = fit_oscar(mirrored, terms="position")
    np.testing.assert_allclose(turned.scores, fit.scores, atol=1e-8)
    np.testing.assert_allclose(turned.position, -fit.position, atol=1e-8)
    np.testing.assert_allclose(fit.scores.sum(), 0, atol=1e-12)


@pytest.mark.parametrize("kind", ["int64", "Int64", "int8", "str", "category", "object"])
def test_labels_of_any_kind_give_the_same_fit(simulate: Simulate, kind: str) -> None:
    table = simulate(60, seed=9)
    expected = fit_oscar(table, terms="position").scores.to_numpy()
    columns = ["judge", "prompt", "first", "second"]
    labelled = table.astype(dict.fromkeys(columns, kind))
    fit = fit_oscar(labelled, terms="position")
    np.testing.assert_allclose(fit.scores, expected, atol=1e-10)
    best = table["first"].astype(kind)[table["first"] == 7].iloc[0]
    assert fit.scores.loc[best] == pytest.approx(expected[7])


def test_multiplicities_stand_for_copies(simulate: Simulate) -> None:
    """A bootstrap draw by weights equals one by copied prompts, covariance included."""
    table = simulate(80, seed=9)
    drawn = np.random.default_rng(0).integers(0, 80, 80)
    copies = pd.concat([table[table["prompt"] == p].assign(prompt=n) for n, p in enumerate(drawn)])
    weights = pd.Series(drawn).value_counts().astype(float)
    weighted = fit_oscar(table, weights=weights, length_scale=1.5)
    copied = fit_oscar(copies, length_scale=1.5)
    np.testing.assert_allclose(weighted.scores, copied.scores, atol=1e-9)
    np.testing.assert_allclose(weighted.covariance, copied.covariance, atol=1e-9)


def test_a_fit_can_be_sent_to_another_process(simulate: Simulate) -> None:
    fit = fit_oscar(simulate(60, seed=10), terms="position")
    again = pickle.loads(pickle.dumps(fit))  # noqa: S301  (written one line above)
    pd.testing.assert_frame_equal(again.win_probability(), fit.win_probability())


def test_a_warm_start_ends_where_a_cold_one_does(simulate: Simulate) -> None:
    table = simulate(300, seed=10)
    cold = fit_oscar(table)
    warm = fit_oscar(table, start=fit_oscar(table[table["prompt"] < 295]))
    np.testing.assert_allclose(warm.scores, cold.scores, atol=1e-9)
    assert warm.minimum.iterations < cold.minimum.iterations


def test_a_large_table_is_summed_as_exactly(simulate: Simulate) -> None:
    """110,000 records take several blocks of the kernel."""
    fit = fit_oscar(simulate(22_000, seed=11))
    assert fit.minimum.gradient_per_comparison < 1e-10


def test_separation_is_finite_and_named(wins: Wins) -> None:
    """A candidate that never lost has a finite score from the ridge, and is listed."""
    fit = plain_bt(wins([("A", "B", 6), ("B", "C", 3), ("C", "B", 3)]))
    assert np.isfinite(fit.scores).all()
    assert fit.log_odds("A", "B").prior_driven
    assert not fit.log_odds("B", "C").prior_driven
    check = next(c for c in fit.checks if c.name == "strong_connectivity")
    assert not check.passed
    assert check.labels == ("A",)


def test_separation_without_a_ridge_is_named_too(wins: Wins) -> None:
    try:
        fit = plain_bt(wins([("A", "B", 6)]), ridge=0.0)
    except NotConverged:
        return
    assert fit.log_odds("A", "B").prior_driven


def test_no_more_prompts_than_parameters_keeps_position_only(simulate: Simulate) -> None:
    table = simulate(20, seed=12)
    fit = fit_oscar(table)
    assert fit.terms == "position"
    assert any("fitted with position only" in warning for warning in fit.warnings)


def test_too_few_prompts_give_no_cluster_interval(simulate: Simulate) -> None:
    """With 12 prompts for some 16 parameters a sandwich would promise far too much."""
    fit = fit_oscar(simulate(12, seed=12), terms="position")
    assert np.isnan(fit.log_odds(7, 0).se)
    assert np.isfinite(fit.log_odds(7, 0, covariance="model").se)
    assert any("no cluster covariance" in warning for warning in fit.warnings)


def test_absent_columns_are_said(simulate: Simulate) -> None:
    table = simulate(100, seed=13).drop(columns=["first_length", "second_length"])
    fit = fit_oscar(table)
    assert fit.terms == "position+family"
    assert any("without length" in warning for warning in fit.warnings)


def test_columns_without_variation_are_fixed_at_zero(simulate: Simulate) -> None:
    table = simulate(200, seed=14)
    table.loc[table["judge"] == 1, ["first_length", "second_length"]] = 100
    fit = fit_oscar(table)
    assert fit.length[1] == 0
    assert any("length coefficient fixed at 0 for 1" in warning for warning in fit.warnings)


def test_probabilities_are_outcomes_with_cluster_covariance_only(simulate: Simulate) -> None:
    table = simulate(200, seed=15)
    table["outcome"] = 0.1 + 0.8 * table["outcome"]
    fit = fit_oscar(table)
    assert np.isfinite(fit.log_odds(7, 0).se)
    with pytest.raises(FitError, match="cluster"):
        fit.win_probability(covariance="model")
    with pytest.raises(DataError, match="davidson"):
        fit_oscar(table, ties="davidson")


def test_ledger_tables_with_missing_verdicts_are_fitted_and_counted(simulate: Simulate) -> None:
    table = simulate(100, seed=16)
    table.loc[table["judge"] == 2, "outcome"] = np.nan
    fit = fit_oscar(table)
    assert 2 not in fit.kappa.index
    assert any("100 of 500 rows have no verdict" in warning for warning in fit.warnings)
    assert any("no valid verdict from 2" in warning for warning in fit.warnings)


def test_humans_never_enter_the_panel(simulate: Simulate) -> None:
    table = simulate(100, seed=17)
    table["kind"] = np.where(table["judge"] == 4, "human", "model")
    fit = fit_oscar(table)
    assert fit.panel == (0, 1, 2, 3)
    gamma, scores = fit.sensitivity, fit.scores
    expected = gamma[[0, 1, 2, 3]].mean() * (scores[7] - scores[0])
    assert fit.log_odds(7, 0).value == pytest.approx(expected)
    frozen = fit_oscar(table, panel=[0, 1])
    expected = frozen.sensitivity[[0, 1]].mean() * (frozen.scores[7] - frozen.scores[0])
    assert frozen.log_odds(7, 0).value == pytest.approx(expected)


def _with(table: pd.DataFrame, **values: object) -> pd.DataFrame:
    changed = table.copy()
    for column, value in values.items():
        changed[column] = changed[column].astype(object)
        changed.loc[3, column] = value
    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": 1.5}, r"outside \[0, 1\] in row 3"),
        ({"outcome": -0.5}, r"outside \[0, 1\] in row 3"),
        ({"outcome": "A"}, "must hold numbers"),
        ({"first": 1, "second": 1}, "compared with itself in row 3"),
        ({"judge": None}, "'judge' is empty in row 3"),
        ({"first_family": "other"}, "has two families"),
        ({"first_length": -1}, "negative in row 3"),
    ],
)
def test_faulty_rows_are_named(simulate: Simulate, change: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        fit_oscar(_with(simulate(30, seed=18), **change))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"terms": "postion"}, "'postion' is no term"),
        ({"ties": "ignore"}, "choose 'half' or 'davidson'"),
        ({"ridge": -1.0}, "ridge"),
        ({"reference": "nobody"}, "judged nothing"),
        ({"panel": ["nobody"]}, "judged nothing"),
        ({"length_scale": 0.0}, "above 0"),
    ],
)
def test_faulty_arguments_are_named(
    simulate: Simulate, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        fit_oscar(simulate(60, seed=18), **arguments)


def test_an_unknown_family_costs_the_family_term_only(simulate: Simulate) -> None:
    table = _with(simulate(60, seed=18), judge_family=None)
    fit = fit_oscar(table)
    assert fit.terms == "position+length"
    assert any(
        "without family (column 'judge_family' is empty in row 3)" in w for w in fit.warnings
    )
    with pytest.raises(DataError, match="'judge_family' is empty in row 3"):
        fit_oscar(table, terms="position+family")


def test_people_need_no_family(simulate: Simulate) -> None:
    table = simulate(60, seed=18)
    people = table["judge"] == 4
    table["kind"] = np.where(people, "human", "model")
    table["judge_family"] = table["judge_family"].astype(object).where(~people, None)
    fit = fit_oscar(table)
    assert fit.terms == "position+length+family"
    assert fit.family[4] == 0


def test_faulty_tables_are_named(simulate: Simulate) -> None:
    table = simulate(30, seed=18)
    with pytest.raises(DataError, match="lacks the column"):
        fit_oscar(table.drop(columns="prompt"))
    with pytest.raises(DataError, match="no verdict"):
        fit_oscar(table.assign(outcome=np.nan))
    with pytest.raises(DataError, match="several criteria"):
        fit_oscar(table.assign(criterion=np.arange(len(table)) % 2))
    with pytest.raises(DataError, match="cannot fit length"):
        fit_oscar(table.drop(columns="first_length"), terms="position+length")


def test_what_merely_deserves_attention_is_a_named_warning(simulate: Simulate) -> None:
    table = simulate(60, seed=19)
    assert any("rows repeat" in w for w in fit_oscar(pd.concat([table, table])).warnings)
    one_judge = fit_oscar(table[table["judge"] == 0], terms="position")
    assert any("one judge only" in w for w in one_judge.warnings)
    one_prompt = fit_oscar(table.assign(prompt=0, repetition=range(len(table))), terms="position")
    assert any("one prompt only" in w for w in one_prompt.warnings)
    assert np.isnan(one_prompt.log_odds(7, 0).se)
    assert np.isfinite(one_prompt.log_odds(7, 0, covariance="model").se)


def test_prediction_keeps_the_biases(simulate: Simulate) -> None:
    table = simulate(100, seed=20)
    fit = fit_oscar(table)
    prediction = fit.predict(table)
    assert prediction.shape == (len(table),)
    # Stationarity in the position coefficient: predictions add up to outcomes, but for the ridge.
    of_judge = table["judge"] == 3
    excess = table["outcome"][of_judge].sum() - prediction[of_judge].sum()
    assert excess == pytest.approx(fit.ridge * fit.position[3], abs=1e-8)
    with pytest.raises(DataError, match="nobody"):
        fit.predict(table.head(1).assign(judge="nobody"))


def test_known_values_of_the_recorded_mt_bench_verdicts(recorded: Recorded) -> None:
    """The OSCAR paper's MT-Bench: table D1 and the change of leader and of the bottom three."""
    table = recorded("xu_mtbench")
    j, jp = fit_oscar(table, terms=""), fit_oscar(table, terms="position")
    assert j.scores.idxmax() == "claude-v1"
    assert jp.scores.idxmax() == "gpt-4"
    discrepancy = np.log(j.kappa / jp.kappa) - np.log(1 - jp.net_first_slot**2)
    assert np.median(np.abs(discrepancy)) == pytest.approx(0.0580, abs=5e-5)
    bottom = [set(fit.kappa.nsmallest(3).index) for fit in (j, jp)]
    assert len(bottom[0] & bottom[1]) == 1


def test_opposite_biases_of_a_recorded_panel(recorded: Recorded) -> None:
    table = recorded("prd_vicuna80")
    preference = fit_oscar(table, terms="position").net_first_slot
    assert preference["bard"] > 0.5
    assert preference["claude"] < -0.2
