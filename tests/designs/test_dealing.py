"""Dealing and developing: meetings counted against brute force."""

import numpy as np

from benchtrial.designs.dealing import _best_exchange, deal, develop, polish, turn_step


def meetings(batches, pool):
    met = np.zeros((pool, pool), dtype=int)
    for batch in batches:
        met[np.ix_(batch, batch)] += 1
    np.fill_diagonal(met, 0)
    return met


def squares(batches, pool):
    return int((meetings(batches, pool) ** 2).sum()) // 2


def dealt(pool, size, batches, seed):
    rng = np.random.default_rng(seed)
    return deal(np.zeros(pool, dtype=int), np.full((batches, 1), size), [], rng)


def test_a_deal_avoids_second_meetings():
    # Random batches would hold about 80 pairs that meet twice.
    assert meetings(dealt(3000, 10, 600, seed=1), 3000).max() == 1


def test_a_deal_continues_earlier_batches():
    rng = np.random.default_rng(1)
    before = [np.array([0, 1, 2]), np.array([3, 4, 5])]
    later = deal(np.zeros(6, dtype=int), np.full((2, 1), 3), before, rng)
    # Six items in two batches of three: two of one earlier batch have to meet again, not three.
    assert meetings([*before, *later], 6).max() == 2
    assert {len({*batch.tolist()} & {0, 1, 2}) for batch in later} == {1, 2}


def test_an_exchange_is_the_best_there_is():
    rng = np.random.default_rng(2)
    for trial in range(30):
        batches = [rng.permutation(9)[:4] for _ in range(5)]
        strata = rng.integers(0, 2, size=9) if trial % 2 else np.zeros(9, dtype=int)
        start = squares(batches, 9)
        results = {}
        for i in set(batches[0].tolist()) - set(batches[1].tolist()):
            for j in set(batches[1].tolist()) - set(batches[0].tolist()):
                if strata[i] == strata[j]:
                    swapped = [batch.copy() for batch in batches]
                    swapped[0][swapped[0] == i] = j
                    swapped[1][swapped[1] == j] = i
                    results[int(i), int(j)] = squares(swapped, 9)
        inside = np.zeros((2, 9), dtype=bool)
        inside[0, batches[0]] = inside[1, batches[1]] = True
        found = _best_exchange(*inside, strata, meetings(batches, 9))
        best = min(results.values(), default=start)
        assert found is None if best >= start else results[found] == best


def test_polishing_keeps_replication_and_lowers_the_sum():
    rng = np.random.default_rng(3)
    batches = [rng.permutation(20)[:6] for _ in range(20)]
    polished = polish(batches, np.zeros(20, dtype=int), [], rng)
    counts = [np.bincount(np.concatenate(some), minlength=20) for some in (batches, polished)]
    assert (counts[0] == counts[1]).all()
    assert all(len(set(batch.tolist())) == 6 for batch in polished)
    assert squares(polished, 20) < squares(batches, 20)
    assert [batch.tolist() for batch in batches] != [batch.tolist() for batch in polished]


def test_the_smallest_shift_that_fits_is_taken():
    assert turn_step(30, 10, 30) == 1
    assert turn_step(30, 10, 29) == 2
    assert turn_step(30, 10, 14) == 5
    assert turn_step(30, 10, 2) is None
    assert turn_step(31, 10, 30) is None


def test_turns_make_up_for_one_another():
    developed = develop(30, 10, 95, 1, np.random.default_rng(4))
    assert len(developed) == 90
    met = meetings(developed, 30)[~np.eye(30, dtype=bool)]
    # Three turns chosen apart from one another would be 4 or more apart.
    assert np.ptp(met) <= 2


def test_longer_shifts_show_every_item_equally_often():
    for step in (2, 5, 10):
        developed = develop(30, 10, 30, step, np.random.default_rng(5))
        assert len(developed) == 30
        assert (np.bincount(np.concatenate(developed)) == 10).all()
