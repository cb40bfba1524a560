"""Ordinal and real-valued ratings, covariates, and real list-wise scores."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

from benchtrial.errors import DataError, NotIdentified
from benchtrial.orchestrator.models import fit_glmm

REAL = Path(__file__).parents[5] / "shared" / "data" / "batcheval.csv.gz"


def one_by_one(counts: dict[str, list[int]]) -> pd.DataFrame:
    """Ratings that nobody gave in a common context: each is a batch of its own."""
    rows = [
        (system, level)
        for system, numbers in counts.items()
        for level, number in enumerate(numbers, 1)
        for _ in range(number)
    ]
    table = pd.DataFrame(rows, columns=["item", "rating"])
    return table.assign(batch=range(len(table)), position=1)


class TestOrdinal:
    def test_c57_an_unused_level_is_merged_and_said(self) -> None:
        """R: ordinal::clm(rating ~ system), level 4 dropped."""
        ratings = one_by_one({"A": [4, 6, 6, 0, 4], "B": [2, 4, 6, 0, 8]})
        fit = fit_glmm(ratings, response="ordinal", lags=0, cold_start=False, ridge=0.0)
        assert fit.items["B"] - fit.items["A"] == pytest.approx(0.89550, abs=5e-6)
        # Their thresholds take A as the origin; ours sum to zero.
        found = fit.thresholds.to_numpy() - fit.items["A"]
        np.testing.assert_allclose(found, [-1.35890, 0.01567, 1.33022], atol=1e-5)
        assert fit.loglik == pytest.approx(-52.94127, abs=5e-6)
        assert any("level 4.0 is never used" in said for said in fit.warnings)
        assert fit.batch_sd == 0
        assert fit.contrast({"B": 1, "A": -1}).p < 1

    def test_c57_refusals(self) -> None:
        ratings = one_by_one({"A": [4, 6, 6, 0, 4], "B": [2, 4, 6, 0, 8]})
        settings = {
            "response": "ordinal",
            "lags": 0,
            "cold_start": False,
            "levels": [1, 2, 3, 4, 5],
        }
        with pytest.raises(DataError, match=r"rating 6 of item 'A'.*the levels are 1\.0"):
            fit_glmm(ratings.assign(rating=ratings["rating"].replace(5, 6)), **settings)
        with pytest.raises(NotIdentified, match="all 40 ratings are 3"):
            fit_glmm(ratings.assign(rating=3), **settings)
        with pytest.raises(DataError, match="must increase"):
            fit_glmm(ratings, response="ordinal", levels=[3, 2, 1])

    def test_two_levels_are_the_binary_model(self, simulate) -> None:
        ratings = simulate([-0.8, 0.0, 0.4, 1.1], 50, lags=(-0.7,), batch_sd=0.6, seed=3)
        binary, ordinal = fit_glmm(ratings), fit_glmm(ratings, response="ordinal")
        np.testing.assert_allclose(ordinal.vector, binary.vector, atol=1e-6)
        np.testing.assert_allclose(ordinal.covariance, binary.covariance, atol=1e-6)
        assert ordinal.loglik == pytest.approx(binary.loglik)

    def test_turning_the_scale_round_changes_signs_only(self, simulate) -> None:
        """Without lags: the lag of the worst level is zero, so the kernel has a direction."""
        ratings = simulate([-0.8, 0.0, 0.9], 60, batch_sd=0.8, seed=3)
        ratings["rating"] += simulate([-0.5, 0.3, 0.5], 60, seed=4)["rating"]
        fit = fit_glmm(ratings, response="ordinal", lags=0)
        turned = fit_glmm(ratings.assign(rating=2 - ratings["rating"]), response="ordinal", lags=0)
        np.testing.assert_allclose(turned.items, -fit.items, atol=1e-7)
        np.testing.assert_allclose(turned.thresholds, -fit.thresholds.to_numpy()[::-1], atol=1e-7)
        assert turned.batch_sd == pytest.approx(fit.batch_sd, abs=1e-7)

    def test_truth_is_recovered(self) -> None:
        generator = np.random.default_rng(8)
        cuts, theta, beta = np.array([-1.2, 0.1, 1.1]), np.array([-0.9, 0.0, 0.3, 1.0]), 1.0
        rows = []
        for batch in range(800):
            shift, last = 0.7 * generator.normal(), 0.0
            for position, item in enumerate(generator.permutation(4), 1):
                eta = theta[item] + shift + beta * last
                level = int(np.searchsorted(cuts, eta + generator.logistic()))
                rows.append((batch, position, item, level + 1))
                last = level / 3
        ratings = pd.DataFrame(rows, columns=["batch", "position", "item", "rating"])
        fit = fit_glmm(ratings, response="ordinal", cold_start=False)
        truth = [*theta, beta, *cuts[:-1], 0.7]
        assert (np.abs(fit.vector - truth) < 3.5 * fit.standard_errors.to_numpy()).all()
        check = fit.predictive_check(ratings, draws=200, seed=1)
        # 51 quantities at 95 %, strongly dependent: a wrong simulator covers almost none.
        assert check.coverage > 0.8


class TestGaussian:
    @pytest.fixture
    def c49(self) -> pd.DataFrame:
        """6 items x 2 systems x 2 replicates: system A scores 3 and 5, system B 5 and 7."""
        rows = [
            (item, position, system, score)
            for item in range(6)
            for position, (system, score) in enumerate([("A", 3), ("A", 5), ("B", 5), ("B", 7)], 1)
        ]
        return pd.DataFrame(rows, columns=["batch", "position", "item", "rating"])

    def test_c49_variance_at_zero(self, c49) -> None:
        """score ~ system + (1 | item), REML: least squares, and said so."""
        fit = fit_glmm(c49, response="gaussian", lags=0, cold_start=False)
        assert fit.batch_sd == 0.0
        assert fit.items["A"] == pytest.approx(4.0)
        difference = fit.contrast({"B": 1, "A": -1})
        assert difference.value == pytest.approx(2.0)
        assert difference.se == pytest.approx(0.42640, abs=5e-6)
        assert fit.residual_sd**2 == pytest.approx(24 / 22)
        assert any("intervals ignore a spread" in said for said in fit.warnings)
        assert "rating units" in difference.label

    @pytest.fixture
    def scores(self) -> pd.DataFrame:
        generator = np.random.default_rng(4)
        theta = np.array([55.0, 60.0, 63.0, 70.0])
        rows = []
        for batch in range(150):
            shift, last = 4 * generator.normal(), 0.0
            for position, item in enumerate(generator.permutation(4), 1):
                score = theta[item] + shift + 0.3 * last + 6 * generator.normal()
                last = score - 62.0
                rows.append((batch, position, item, score))
        return pd.DataFrame(rows, columns=["batch", "position", "item", "rating"])

    def test_truth_is_recovered(self, scores) -> None:
        fit = fit_glmm(scores, response="gaussian")
        errors = fit.standard_errors
        contrast = fit.contrast({3: 1, 0: -1})
        assert abs(contrast.value - 15.0) < 3 * contrast.se
        assert abs(fit.lags[1] - 0.3) < 3 * errors["lag", 1]
        assert fit.batch_sd == pytest.approx(4, abs=1.2)
        assert fit.residual_sd == pytest.approx(6, abs=0.6)
        assert np.isnan(errors["batch sd", ""])

    def test_restricted_likelihood_by_the_full_covariance(self, scores) -> None:
        """Against the textbook formula with a dense covariance matrix of all ratings."""
        rows = scores[scores["batch"] < 12].reset_index(drop=True)
        fit = fit_glmm(rows, response="gaussian", lags=0)
        design = np.column_stack([np.eye(4)[rows["item"]], rows["position"] == 1])
        same = rows["batch"].to_numpy()[:, None] == rows["batch"].to_numpy()

        def restricted(batch_sd: float, residual_sd: float) -> float:
            covariance = residual_sd**2 * np.eye(len(rows)) + batch_sd**2 * same
            inverse = np.linalg.inv(covariance)
            information = design.T @ inverse @ design
            effects = np.linalg.solve(information, design.T @ inverse @ rows["rating"])
            plain = multivariate_normal(design @ effects, covariance).logpdf(rows["rating"])
            # The constant of the p integrated effects: + p/2 log(2 pi) - 1/2 log |X' V^-1 X|.
            size = design.shape[1]
            return plain - np.linalg.slogdet(information)[1] / 2 + size / 2 * np.log(2 * np.pi)

        best = restricted(fit.batch_sd, fit.residual_sd)
        assert fit.loglik == pytest.approx(best, abs=1e-8)
        for batch_sd, residual_sd in ((0.98, 1), (1.02, 1), (1, 0.98), (1, 1.02)):
            assert restricted(fit.batch_sd * batch_sd, fit.residual_sd * residual_sd) < best

    def test_errors_by_resampling(self, scores) -> None:
        fit = fit_glmm(scores, response="gaussian")
        weights = {3: 1, 0: -1}
        model = fit.contrast(weights)
        assert fit.contrast(weights, covariance="sandwich").se == pytest.approx(model.se, rel=0.25)
        full = fit.bootstrap(150, seed=1)
        assert full.contrast(weights).se == pytest.approx(model.se, rel=0.3)
        quick = fit.bootstrap(150, seed=1, one_step=True)
        assert quick.contrast(weights).se == pytest.approx(full.contrast(weights).se, rel=0.1)

    def test_bad_input(self, scores, c49) -> None:
        with pytest.raises(DataError, match="1 ratings could not be read"):
            fit_glmm(
                scores.assign(rating=scores["rating"].where(scores.index > 0)), response="gaussian"
            )
        with pytest.raises(NotIdentified, match="all 600 ratings are 5"):
            fit_glmm(scores.assign(rating=5.0), response="gaussian")
        with pytest.raises(NotIdentified, match="lag 4"):
            fit_glmm(scores, response="gaussian", lags=4)
        fixed = c49[~c49["position"].isin([2, 4])]
        with pytest.raises(NotIdentified, match="cold start cannot be told apart"):
            fit_glmm(fixed.assign(rating=np.arange(12.0)), response="gaussian", lags=0)


class TestCovariates:
    def test_a_covariate_that_varies_within_items(self, simulate) -> None:
        ratings = simulate(np.linspace(-1, 1, 5), 300, batch_sd=0.5, seed=6)
        ratings["late"] = (ratings["position"] > 3).astype(float)
        fit = fit_glmm(ratings, covariates=["late"])
        # Nothing depends on the position here.
        assert abs(fit.covariates["late"]) < 3 * fit.standard_errors["covariate", "late"]

    def test_a_property_of_items_is_refused_by_name(self, simulate) -> None:
        ratings = simulate(np.linspace(-1, 1, 5), 30, seed=6)
        ratings["length"] = ratings["item"].str[-1].astype(int)
        with pytest.raises(NotIdentified, match="covariate 'length' cannot be told apart"):
            fit_glmm(ratings, covariates=["length"])


@pytest.mark.skipif(
    not REAL.exists(), reason="the recorded scores batcheval.csv.gz are not beside the repository"
)
def test_real_list_wise_scores() -> None:
    """Scores of one criterion by a real judge, as ordinal levels and as accepted or not."""
    table = pd.read_csv(REAL)
    table = table[table["dataset"] == "batcheval_fed_dialog"]
    table = table[(table["criterion"] == "overall") & (table["judge"] == "gpt-4")]
    ratings = pd.DataFrame(
        {
            "batch": table["round"].astype(str) + "/" + table["batch_id"].astype(str),
            "position": table["position"],
            "item": table["item_id"],
            "rating": table["score"].where(table["valid"] == 1).round(),
        }
    )
    fit = fit_glmm(ratings, response="ordinal")
    assert fit.gradient_norm < 1e-8
    assert fit.standard_errors["lag", 1] > 0
    middle = ratings["rating"].median()
    accepted = (ratings["rating"] > middle).where(ratings["rating"].notna()).astype(float)
    assert fit_glmm(ratings.assign(rating=accepted)).converged
