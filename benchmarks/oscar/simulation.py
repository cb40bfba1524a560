"""Section 7 and table G2 of the OSCAR paper, with four times its replications.

    python benchmarks/oscar/simulation.py [--replications 400]

Draws from the design of appendix G.1 and compares coverage and errors with the figures that the
paper prints. A figure that rests on 100 replications in the paper and on more here is called equal
if the difference is below 2.5 standard errors of the difference. Also the two exact population
numbers of appendix A.3. About ten minutes on one core.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy import special, stats
from sections import table, write

from benchtrial.orchestrator.models import OscarFit, fit_oscar, population_sensitivity
from benchtrial.orchestrator.models.oscar import encode

SCORES = np.linspace(-0.85, 0.85, 8)
SENSITIVITIES = np.exp([0.0, 0.2, -0.3, 0.35, -0.15])
POSITION = np.array([0.9, -0.7, 0.5, 1.0, -0.4])
LENGTH = np.array([0.3, 0.5, 0.4, 0.35, 0.55])
FAMILY = np.array([0.18, -0.12, 0.22, 0.1, -0.15])
VERBOSITY = np.where(np.arange(8) % 2 == 0, 0.8, -0.8) + 0.25 * SCORES
LENGTH_SCALE = 1.5
ONE, OTHER = np.triu_indices(8, 1)
TRUE_Q = special.expit(SENSITIVITIES.mean() * (SCORES[ONE] - SCORES[OTHER]))
TRUE_KAPPA = SENSITIVITIES * np.sqrt(np.mean(SCORES**2))
PAPER_REPLICATIONS = 100
TERMS = {"OSCAR": "position+length+family", "J": "", "J+P": "position", "J+L": "length"}

#: What the paper prints: (metric, N, c, rho) -> value, coverage in percent.
PAPER = {
    ("rmse q OSCAR", 10_000): 0.0237,
    ("rmse q J", 10_000): 0.1158,
    ("rmse q J+L", 10_000): 0.0534,
    ("rmse kappa OSCAR", 1_000): 0.1434,
    ("rmse kappa OSCAR", 10_000): 0.0381,
    ("rmse kappa J+P", 10_000): 0.0457,
    ("rmse kappa J", 10_000): 0.1908,
    ("tau OSCAR", 1_000): 0.834,
    ("tau OSCAR", 10_000): 0.988,
    ("top-1 OSCAR", 10_000): 0.96,
    ("top-1 J+L", 10_000): 0.12,
}
G2 = {
    (0.0, 0.6): ("no bias", 96.3, 83.6, 95.6),
    (1.0, 0.0): ("no dependence", 95.4, 95.0, 38.1),
    (0.0, 0.0): ("neither", 93.9, 93.9, 93.6),
}


def draw(judgments: int, bias: float, dependence: float, rng: np.random.Generator) -> pd.DataFrame:
    prompts = judgments // 5
    first = rng.integers(0, 8, prompts)
    second = (first + rng.integers(1, 8, prompts)) % 8
    less_verbose = VERBOSITY[first] < VERBOSITY[second]
    swap = less_verbose & (rng.random(prompts) < 0.7)
    first, second = np.where(swap, second, first), np.where(swap, first, second)
    length = VERBOSITY[first] - VERBOSITY[second] + rng.normal(0, 0.8, prompts)
    length = length / LENGTH_SCALE
    shared = rng.normal(size=prompts)
    judge = np.repeat(np.arange(5), prompts)
    a, b, L = np.tile(first, 5), np.tile(second, 5), np.tile(length, 5)
    F = (a % 3 == judge % 3).astype(float) - (b % 3 == judge % 3)
    eta = SENSITIVITIES[judge] * (SCORES[a] - SCORES[b])
    eta = eta + bias * (POSITION[judge] + LENGTH[judge] * L + FAMILY[judge] * F)
    noise = np.sqrt(dependence) * np.tile(shared, 5)
    noise = noise + np.sqrt(1 - dependence) * rng.normal(size=len(eta))
    return pd.DataFrame(
        {
            "judge": judge,
            "prompt": np.tile(np.arange(prompts), 5),
            "first": a,
            "second": b,
            "outcome": (special.ndtr(noise) < special.expit(eta)).astype(float),
            "first_length": np.exp(10 + 0.75 * L) - 1,
            "second_length": np.exp(10 - 0.75 * L) - 1,
            "first_family": a % 3,
            "second_family": b % 3,
            "judge_family": judge % 3,
        }
    )


def coverage(fit: OscarFit, kind: str) -> float:
    table = fit.win_probability(covariance=kind)
    return 100 * float((table["low"].le(TRUE_Q) & table["high"].ge(TRUE_Q)).mean())


def measure(judgments: int, bias: float, dependence: float, seed: np.random.SeedSequence) -> dict:
    data = encode(draw(judgments, bias, dependence, np.random.default_rng(seed)))
    found = {}
    for name, terms in TERMS.items():
        fit = fit_oscar(data, terms=terms, length_scale=LENGTH_SCALE)
        scores = fit.scores.to_numpy()
        q = special.expit(fit.mean_sensitivity * (scores[ONE] - scores[OTHER]))
        found[f"rmse q {name}"] = np.sqrt(np.mean((q - TRUE_Q) ** 2))
        found[f"rmse kappa {name}"] = np.sqrt(np.mean((fit.kappa - TRUE_KAPPA) ** 2))
        found[f"tau {name}"] = stats.kendalltau(scores, SCORES).statistic
        found[f"top-1 {name}"] = float(scores.argmax() == 7)
        if name == "OSCAR":
            found["cluster"], found["model"] = coverage(fit, "cluster"), coverage(fit, "model")
        if name == "J":
            found["J cluster"] = coverage(fit, "cluster")
    return found


def replicate(
    judgments: int, bias: float, dependence: float, replications: int
) -> tuple[pd.Series, pd.Series]:
    """Mean and standard deviation of every metric."""
    seeds = np.random.SeedSequence([judgments, int(bias), int(10 * dependence)]).spawn(replications)
    rows = pd.DataFrame([measure(judgments, bias, dependence, seed) for seed in seeds])
    return rows.mean(), rows.std()


def verdict(value: float, deviation: float, paper: float, replications: int) -> str:
    error = deviation * np.sqrt(1 / replications + 1 / PAPER_REPLICATIONS)
    z = (value - paper) / error if error > 0 else 0.0
    return f"{paper} ({z:+.1f} s.e.)"


def population() -> str:
    forty = population_sensitivity(np.arange(1, 201) / 200, 1.0, first=0.4)
    figure = population_sensitivity(np.linspace(-1, 1, 401), 4.0)
    return (
        f"Exact population fits: the 40:60 example gives {forty:.5f} (paper 0.528), figure 1(b) at "
        f"position effect 4 gives {figure:.5f} (paper 0.077)."
    )


def main_setting(replications: int, say: Callable[[str], None]) -> str:
    sizes = (1_000, 2_500, 5_000, 10_000)
    results = {}
    for size in sizes:
        results[size] = replicate(size, 1.0, 0.6, replications)
        say(f"N={size}")
    covered = []
    for size in sizes:
        mean, spread = results[size]
        cells = [
            f"{mean[k]:.1f} ± {spread[k] / np.sqrt(replications):.1f}"
            for k in ("cluster", "model", "J cluster")
        ]
        off = abs(mean["cluster"] - 95) / (spread["cluster"] / np.sqrt(replications))
        covered.append([f"{size:,}", *cells, f"{off:.1f}"])
    text = table(
        [
            "N",
            "OSCAR cluster (%)",
            "OSCAR model-based (%)",
            "J cluster (%)",
            "cluster: s.e. from 95",
        ],
        covered,
    )
    text += "\n\nThe paper: cluster 94.4 to 95.2, model-based 82.8 to 84.1, J 55.3 to 36.3.\n\n"
    names = [
        f"{metric} {model}"
        for metric in ("rmse q", "rmse kappa", "tau", "top-1")
        for model in TERMS
    ]
    rows = []
    for name in names:
        cells = []
        for size in sizes:
            mean, spread = results[size]
            cell = f"{mean[name]:.4f}"
            if (name, size) in PAPER:
                cell += "; paper " + verdict(
                    mean[name], spread[name], PAPER[name, size], replications
                )
            cells.append(cell)
        rows.append([name, *cells])
    return text + table(["", *(f"N={size:,}" for size in sizes)], rows)


def controls(replications: int, say: Callable[[str], None]) -> str:
    rows = []
    for (bias, dependence), (label, *paper) in G2.items():
        mean, spread = replicate(2_500, bias, dependence, replications)
        say(label)
        cells = [
            f"{mean[key]:.1f}; paper {verdict(mean[key], spread[key], value, replications)}"
            for key, value in zip(("cluster", "model", "J cluster"), paper, strict=True)
        ]
        rows.append([label, bias, dependence, *cells])
    columns = ["control", "c", "rho", "OSCAR cluster (%)", "OSCAR model-based (%)", "J cluster (%)"]
    return table(columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--replications", type=int, default=400)
    replications = parser.parse_args().replications
    start = time.perf_counter()

    def say(what: str) -> None:
        print(f"{time.perf_counter() - start:6.0f} s  {what}", flush=True)

    body = "\n\n".join(
        [
            population(),
            f"Main setting (c = 1, rho = 0.6), {replications} replications:",
            main_setting(replications, say),
            f"Controls of table G2 (N = 2,500), {replications} replications:",
            controls(replications, say),
        ]
    )
    write("Simulations of section 7", "python benchmarks/oscar/simulation.py", body)


if __name__ == "__main__":
    main()
