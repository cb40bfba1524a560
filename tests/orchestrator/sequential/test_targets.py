"""What answers the targets read from verdicts, and how they phrase them."""

from itertools import combinations
from math import exp, log, nan

import pytest

from benchtrial.errors import StoppingError
from benchtrial.orchestrator.models.estimate import Estimate
from benchtrial.orchestrator.sequential import (
    Best,
    Difference,
    Ranking,
    Screening,
    StoppingPlan,
    TopK,
    require_known,
    take_look,
)


def look_at(target, scores, se, *, clock=0.5, final=False, history=(), rope=0.1, unknown=()):
    """Take a look at candidates whose scores are given, with one standard error for all pairs."""
    estimates = {
        (a, b): Estimate.wald(scores[a] - scores[b], nan if {a, b} & set(unknown) else se)
        for a, b in target.pairs()
    }
    plan = StoppingPlan(target=target, rope=rope, futility=None)
    return take_look(plan, list(history), estimates, clock=clock, final=final)


class TestBest:
    TARGET = Best(("a", "b", "c"))

    def test_it_needs_every_pair(self):
        assert self.TARGET.pairs() == (("a", "b"), ("a", "c"), ("b", "c"))

    @pytest.mark.parametrize("winner", ["a", "b", "c"])
    def test_a_leader_ahead_of_all_is_best(self, winner):
        scores = dict.fromkeys("abc", 0.0) | {winner: 1.0}
        decision = look_at(self.TARGET, scores, 0.2).decision
        assert (decision.state, decision.winner, decision.answer) == ("decided", winner, (winner,))
        assert f"{winner} beats every other; closest: {winner} - " in decision.sentence

    def test_one_open_rival_keeps_the_study_going(self):
        decision = look_at(self.TARGET, {"a": 1.0, "b": 0.8, "c": 0.0}, 0.2).decision
        assert decision.state == "continue"
        assert decision.answer == ("a", "b")
        assert "the best may be a or b; closest: a - b = +0.200" in decision.sentence

    def test_a_top_set_without_differences_is_a_tie(self):
        decision = look_at(self.TARGET, {"a": 1.0, "b": 0.99, "c": 0.0}, 0.02).decision
        assert (decision.state, decision.winner) == ("equivalent", None)
        assert decision.answer == ("a", "b")
        assert "a and b beat the others and are practically the same" in decision.sentence

    def test_everybody_the_same_is_a_tie_of_all(self):
        decision = look_at(self.TARGET, {"a": 0.0, "b": 0.01, "c": 0.0}, 0.02).decision
        assert decision.state == "equivalent"
        assert decision.answer == ("a", "b", "c")
        assert decision.sentence.startswith("look 1, 50% of the study: a, b and c are practically")

    def test_nobody_wins_against_someone_who_cannot_be_estimated(self):
        decision = look_at(self.TARGET, {"a": 5.0, "b": 0.0, "c": 0.0}, 0.2, unknown="c").decision
        assert decision.state == "continue"
        assert decision.answer == ("a", "c")

    def test_budget_spent_reports_the_top_set(self):
        look = look_at(self.TARGET, {"a": 1.0, "b": 0.8, "c": 0.0}, 0.2, final=True)
        assert look.decision.state == "inconclusive-budget"
        assert look.decision.answer == ("a", "b")


class TestTopK:
    TARGET = TopK(("a", "b", "c", "d"), 2)

    def test_a_set_ahead_of_all_others(self):
        scores = {"a": 0.0, "b": 2.0, "c": 0.1, "d": 2.1}
        decision = look_at(self.TARGET, scores, 0.2).decision
        assert decision.state == "decided"
        assert decision.winner is None
        assert decision.answer == ("b", "d")
        assert "the top 2 are d and b, each ahead of all others; closest: b - c" in (
            decision.sentence
        )

    def test_the_order_inside_does_not_matter_but_the_cut_does(self):
        decision = look_at(self.TARGET, {"a": 3.0, "b": 1.0, "c": 0.9, "d": -1.0}, 0.2).decision
        assert decision.state == "continue"
        assert decision.answer == ("a",)
        assert "in the top 2 for sure: a; possibly: b and c; closest: b - c" in decision.sentence

    def test_a_tie_at_the_cut(self):
        scores = {"a": 3.0, "b": 1.0, "c": 0.99, "d": -1.0}
        decision = look_at(self.TARGET, scores, 0.02).decision
        assert decision.state == "equivalent"
        assert decision.answer == ("a",)
        assert "b and c, at the cut, are practically the same" in decision.sentence

    def test_top_1_is_best(self):
        scores = {"a": 0.0, "b": 2.0, "c": 0.1, "d": 0.3}
        decision = look_at(TopK(("a", "b", "c", "d"), 1), scores, 0.2).decision
        assert (decision.state, decision.winner) == ("decided", "b")

    @pytest.mark.parametrize("k", [0, 4, -1])
    def test_an_impossible_k(self, k):
        with pytest.raises(StoppingError, match="k goes from 1 to 3"):
            TopK(("a", "b", "c", "d"), k)


class TestRanking:
    TARGET = Ranking(("a", "b", "c"))

    def test_a_whole_order(self):
        decision = look_at(self.TARGET, {"a": 0.0, "b": 4.0, "c": 2.0}, 0.2).decision
        assert (decision.state, decision.winner) == ("decided", "b")
        assert decision.answer == ("b", "c", "a")
        assert "the order is b > c > a" in decision.sentence

    def test_an_order_with_a_tie(self):
        decision = look_at(self.TARGET, {"a": 0.0, "b": 4.0, "c": 0.01}, 0.02).decision
        assert decision.state == "equivalent"
        assert "1 of 3 pairs are practically the same: a = c" in decision.sentence

    def test_ranks_that_are_still_possible(self):
        look = look_at(self.TARGET, {"a": 0.0, "b": 4.0, "c": 0.2}, 0.2)
        assert look.decision.state == "continue"
        assert self.TARGET.ranks(look.contrasts) == {"b": (1, 1), "c": (2, 3), "a": (2, 3)}
        assert "1 of 3 pairs are undecided; ranks: b 1, c 2-3, a 2-3" in look.decision.sentence

    def test_decided_pairs_stay_decided(self):
        first = look_at(self.TARGET, {"a": 0.0, "b": 4.0, "c": 0.2}, 0.2)
        second = look_at(
            self.TARGET, {"a": 0.0, "b": 0.1, "c": 0.2}, 0.19, clock=0.6, history=[first]
        )
        decided = {contrast.pair: contrast for contrast in second.contrasts}["a", "b"]
        assert decided.verdict == "second"
        assert not decided.tested
        assert decided.value == pytest.approx(-0.1)
        assert decided.low == first.contrasts[0].low

    def test_an_unknown_way_to_share_alpha(self):
        with pytest.raises(StoppingError, match="choose 'holm' or 'max-z'"):
            Ranking(("a", "b"), family="fdr")


class TestScreening:
    TARGET = Screening(("sharp", "blunt", "middling"), "reference", keep=0.5)

    def look(self, ratios, se, **options):
        scores = {name: log(ratio) for name, ratio in ratios.items()} | {"reference": 0.0}
        return look_at(self.TARGET, scores, se, **options)

    def test_judges_are_kept_and_dropped_by_the_threshold(self):
        decision = self.look({"sharp": 1.2, "blunt": 0.1, "middling": 0.5}, 0.02).decision
        assert decision.state == "equivalent"
        assert decision.answer == ("sharp",)
        assert (
            "at 50% of the sensitivity of reference: keep: sharp; drop: blunt; on the threshold: "
            "middling"
        ) in decision.sentence

    def test_all_clear(self):
        decision = self.look({"sharp": 1.2, "blunt": 0.1, "middling": 0.2}, 0.1).decision
        assert decision.state == "decided"
        assert "drop: blunt and middling" in decision.sentence

    def test_a_judge_that_cannot_be_estimated_is_undecided(self):
        ratios = {"sharp": 1.2, "blunt": 0.1, "middling": 0.2}
        decision = self.look(ratios, 0.1, unknown=["middling"]).decision
        assert decision.state == "continue"
        assert "undecided: middling" in decision.sentence

    def test_the_threshold_is_a_ratio(self):
        assert exp(Screening(("a",), "b", keep=0.25).null) == pytest.approx(0.25)
        with pytest.raises(StoppingError, match="keep is 0"):
            Screening(("a",), "b", keep=0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Difference("a", "a"), "a cannot be compared with itself"),
        (lambda: Best(("a",)), "at least 2 ids and has 1"),
        (lambda: Best(("a", "b", "a")), "a cannot be compared with itself"),
        (lambda: Ranking(()), "at least 2 ids and has 0"),
        (lambda: Screening(("a", "b"), "b"), "b cannot be compared with itself"),
    ],
)
def test_impossible_targets(make, message):
    with pytest.raises(StoppingError, match=message):
        make()


def test_an_unknown_candidate_is_named_with_its_nearest_neighbour():
    require_known(Best(("gpt", "claude")), ["claude", "gpt", "gemini"])
    with pytest.raises(StoppingError, match=r"names 'cluade', which .* did you mean 'claude'"):
        require_known(Difference("gpt", "cluade"), ["claude", "gpt"])
    with pytest.raises(StoppingError, match="known are claude and gpt"):
        require_known(Difference("gpt", "xyz"), ["gpt", "claude"])


def test_every_target_names_each_contrast_once():
    for target in (Best(tuple("abcd")), TopK(tuple("abcd"), 2), Ranking(tuple("abcd"))):
        assert target.pairs() == tuple(combinations("abcd", 2))
