"""Ids, counts and seeds: what is refused, and in which words."""

import numpy as np
import pandas as pd
import pytest

from benchtrial import designs
from benchtrial.designs.checks import as_ids, generator
from benchtrial.errors import DesignError


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([1, "1"], "number 1 .1. and number 2 .'1'. are both written '1'"),
        (["q1", "q2", "q1"], "number 1 .'q1'. and number 3 .'q1'. are both written 'q1'"),
        ([1.0, 2.0], "number 1: 1.0 is a float; an id is a text or an integer"),
        ([True, 2], "number 1: True is a bool; an id is a text or an integer"),
        (["a", None], "number 2: None is a NoneType; an id is a text or an integer"),
        (["a", " "], "number 2: the id is empty"),
        ("abc", "str is not a list of ids"),
        ({"a", "b"}, "set is not a list of ids in a fixed order"),
        (7, "int is not a list of ids"),
        (["a"], "1 given; the nearest valid choice is 2"),
    ],
)
def test_unusable_ids_are_refused_by_every_design(ids, words):
    for design in (
        lambda: designs.random_shuffle(ids, 3, seed=1),
        lambda: designs.williams(ids, 3, seed=1),
        lambda: designs.incomplete_blocks(ids, 2, 3, seed=1),
        lambda: designs.balanced_swaps(ids, ["p"], seed=1),
    ):
        with pytest.raises(DesignError, match=words):
            design()


def test_similar_ids_stay_apart():
    ids = ["q1", "q1 ", "caf\u00e9", "cafe\u0301", "007", "7"]
    schedule = designs.random_shuffle(ids, 4, seed=1)
    assert schedule.items == tuple(ids)
    assert designs.balance(schedule)["replication"].grade == "exact"
    assert len(designs.balance(schedule.to_frame()).position) == len(ids)


def test_ids_come_back_as_plain_python():
    assert as_ids(np.array([3, 1]), "items", least=1) == (3, 1)
    assert type(as_ids(pd.Series([3, 1]), "items", least=1)[0]) is int
    assert type(as_ids(np.array(["a"]), "items", least=1)[0]) is str
    assert as_ids({"a": 1, "b": 2}, "items", least=1) == ("a", "b")


@pytest.mark.parametrize("seed", [None, True, -1, 1.5, "7"])
def test_a_design_needs_a_seed(seed):
    with pytest.raises(DesignError, match="is not a seed"):
        designs.random_shuffle(range(4), 2, seed=seed)


def test_seeds_of_every_kind_agree():
    seeds = [3, np.int64(3), np.random.SeedSequence(3), np.random.default_rng(3)]
    assert len({int(generator(seed).integers(2**62)) for seed in seeds}) == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: designs.random_shuffle(range(4), 0, seed=1), "batches: 0 .* choice is 1"),
        (lambda: designs.random_shuffle(range(4), 2.0, seed=1), "2.0 is not a whole number"),
        (lambda: designs.random_shuffle(range(4), 9, seed=1, size=1), "size .* choice is 2"),
        (lambda: designs.random_shuffle(range(4), 9, seed=1, size=5), "size .* choice is 4"),
        (lambda: designs.random_shuffle(range(9), 2, seed=1, size=4), "all 9 items .* is 3"),
        (lambda: designs.incomplete_blocks(range(4), 1, 9, seed=1), "size .* choice is 2"),
        (lambda: designs.incomplete_blocks(range(4), 5, 9, seed=1), "size .* choice is 4"),
        (lambda: designs.incomplete_blocks(range(30), 10, 2, seed=1), "all 30 items .* is 3"),
        (lambda: designs.balanced_swaps("ab", "p", seed=1), "not a list of ids"),
        (lambda: designs.balanced_swaps(["a", "b"], [], seed=1), "prompts: 0 given.* is 1"),
        (lambda: designs.balanced_swaps(["a", "b"], ["p"], seed=1, repetitions=0), "choice is 1"),
    ],
)
def test_bad_counts_name_the_nearest_valid_choice(call, words):
    with pytest.raises(DesignError, match=words):
        call()
