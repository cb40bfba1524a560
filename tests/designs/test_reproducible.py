"""The same seed gives the same design in every process, whatever its hash seed."""

import hashlib
import os
import subprocess
import sys

import numpy as np

from benchtrial import designs

ITEMS = [f"item {number}" for number in range(12)]

KNOWN = {
    "shuffle": "3f8512fc1fc460b9",
    "dealt": "5294ee331f6c9123",
    "williams": "c9e475b0570622c5",
    "carryover": "949300f22b3b2ad0",
    "blocks": "05592d68c845df56",
    "developed": "b4b704375821e78e",
    "mixed": "470ddd772a03ae4e",
    "grown": "c5cf6e4a4757d0d8",
    "swaps": "bda618f6de456348",
    "circulant": "88da7897de4ff685",
    "grown swaps": "1965ef444017810f",
}


def every_design():
    running = designs.incomplete_blocks(ITEMS, 4, 9, seed=3)
    swaps = designs.balanced_swaps(ITEMS[:5], range(4), seed=4, judges=["x", "y"], repetitions=2)
    groups = {item: item[-1] in "02468" for item in ITEMS}
    return {
        "shuffle": designs.random_shuffle(ITEMS, 5, seed=1),
        "dealt": designs.random_shuffle(ITEMS, 5, seed=1, size=5),
        "williams": designs.williams(ITEMS, 2, seed=2),
        "carryover": designs.carryover(ITEMS[:9], 2, seed=2),
        "blocks": running,
        "developed": designs.incomplete_blocks(ITEMS, 4, 13, seed=3),
        "mixed": designs.mixed_blocks(groups, 4, 9, seed=3),
        "grown": designs.grow_blocks(running, [*ITEMS, "new"], 4, 9, seed=3),
        "swaps": swaps,
        "circulant": designs.balanced_swaps(ITEMS, ["p"], seed=4, pairs="circulant:4"),
        "grown swaps": designs.grow_swaps(swaps, ITEMS[:6], range(5), seed=5, repetitions=2),
    }


def fingerprints():
    return {
        name: hashlib.sha256(schedule.to_frame().to_csv(index=False).encode()).hexdigest()[:16]
        for name, schedule in every_design().items()
    }


def test_another_process_draws_the_same_designs():
    script = (
        "import importlib.util as u; "
        f"s = u.spec_from_file_location('again', {__file__!r}); m = u.module_from_spec(s); "
        "s.loader.exec_module(m); print(m.fingerprints())"
    )
    for hash_seed in ("1", "2"):
        printed = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert printed.strip() == repr(fingerprints())


def test_these_designs_never_change():
    # Drawn once and kept: whoever changes an algorithm changes running studies, and says so.
    assert fingerprints() == KNOWN


def test_a_generator_moves_on():
    rng = np.random.default_rng(1)
    first = designs.random_shuffle(ITEMS, 3, seed=rng)
    second = designs.random_shuffle(ITEMS, 3, seed=rng)
    assert first.orders == designs.random_shuffle(ITEMS, 3, seed=1).orders
    assert first.orders != second.orders
