from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchtrial.adapters import Price, Usage
from benchtrial.errors import InputError


def test_each_part_of_the_input_has_its_own_price() -> None:
    price = Price(Decimal("2.5"), Decimal(10), Decimal("0.25"), Decimal("3.125"))
    usage = Usage(1000, 50, cached_input=900, cache_writes=95, reasoning=30)
    # 5 x 2.5 + 900 x 0.25 + 95 x 3.125 + 50 x 10 = 12.5 + 225 + 296.875 + 500, per million
    assert price.cost(usage) == Decimal("0.001034375")


def test_without_prices_for_a_cache_it_costs_like_any_input() -> None:
    price = Price(Decimal(3), Decimal(15))
    assert price.cost(Usage(1000, 0, cached_input=900, cache_writes=50)) == Decimal("0.003")
    assert Price(Decimal(3), Decimal(15), cached_input=Decimal(0)).cost(
        Usage(1000, 0, cached_input=1000)
    ) == Decimal(0)


@given(
    input_=st.integers(0, 10**9),
    output=st.integers(0, 10**9),
    cached=st.integers(0, 10**9),
    written=st.integers(0, 10**9),
    prices=st.lists(st.decimals(0, 1000, places=4), min_size=4, max_size=4),
)
def test_no_usage_within_the_bounds_costs_more_than_the_worst_case(
    input_: int, output: int, cached: int, written: int, prices: list[Decimal]
) -> None:
    price = Price(*prices)
    usage = Usage(input_, output, cached_input=cached, cache_writes=written)
    assert 0 <= price.cost(usage) <= price.worst_case(input_, output)


def test_no_digit_is_lost() -> None:
    price = Price(Decimal("0.0000001"), Decimal(0))
    assert price.cost(Usage(1, 0)) * 10**13 == 1
    assert sum((price.cost(Usage(1, 0)) for _ in range(1000)), Decimal(0)) == Decimal("1e-10")


@pytest.mark.parametrize("value", [0.1, "0.1", Decimal("0.1")])
def test_a_price_may_be_written_in_any_way(value: Any) -> None:
    assert Price(value, 0).input == Decimal("0.1")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-1, "x", "", None, float("nan"), float("inf"), "Infinity"])
def test_a_price_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="price of input"):
        Price(value, Decimal(1))
