"""The rounds of a study: whole questions, evenly dealt, the same every time."""

from collections import Counter

from benchtrial.orchestrator.campaign.planning import rounds


def test_batches_are_dealt_evenly_and_all_judges_see_the_same_orders(batch_study):
    study = batch_study()
    twin = study.judges[0].model_copy(update={"id": "twin"})
    study = study.model_copy(update={"judges": (study.judges[0], twin)})
    planned = rounds(study)
    assert [len(one) for one in planned] == [10] * 8
    for question in (question for one in planned for question in one):
        first, second = question.cells
        assert {first.judge, second.judge} == {"markov", "twin"}
        assert first.items == second.items


def test_every_pair_is_asked_in_both_orders_in_one_question(pair_study):
    planned = rounds(pair_study())
    cells = [cell for one in planned for question in one for cell in question.cells]
    assert len(cells) == 3 * 20 * 3 * 2 * 2  # pairs, prompts, repetitions, judges, orders
    shown = Counter((c.judge, c.prompt, c.first, c.second, c.replicate) for c in cells)
    assert set(shown.values()) == {1}
    for question in (question for one in planned for question in one):
        orders = Counter((c.judge, frozenset((c.first, c.second))) for c in question.cells)
        assert orders == dict.fromkeys(orders, 2)
        assert {c.judge for c in question.cells} == {"front", "back"}


def test_rounds_differ_by_at_most_one_question_and_none_is_empty(pair_study):
    study = pair_study(stopping={"target": {"kind": "best"}, "rounds": 7})
    sizes = [len(one) for one in rounds(study)]
    assert len(sizes) == 7
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) == 180


def test_williams_rounds_end_where_squares_end(batch_study):
    study = batch_study(
        design={"kind": "williams", "batches": 40},
        stopping={"target": {"kind": "difference", "a": "good", "b": "poor"}, "rounds": 20},
    )
    sizes = [len(one) for one in rounds(study)]
    assert sizes == [8] * 5  # one square of eight batches a round: no round splits a square


def test_the_plan_is_a_function_of_the_study(batch_study, pair_study):
    for make in (batch_study, pair_study):
        assert rounds(make()) == rounds(make())
        assert rounds(make()) != rounds(make(seed=12))
