"""Exact tails of the binomial and the Poisson distribution, and what tests make of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, inf, lgamma, log, log1p

ALPHA = 0.05
_NOTHING = 1e-17
"""A term that adds nothing to a sum."""


def binomial_tail(count: int, trials: int, share: float) -> float:
    """The probability of so many successes or more."""
    if count <= 0 or count > trials or not 0 < share < 1:
        return float(count <= 0 or (share >= 1 and count <= trials))

    def log_chance(k: int) -> float:
        if k > trials:
            return -inf
        ways = lgamma(trials + 1) - lgamma(k + 1) - lgamma(trials - k + 1)
        return ways + k * log(share) + (trials - k) * log1p(-share)

    return _tail(count, trials * share, log_chance)


def poisson_tail(count: int, mean: float) -> float:
    """The probability of so many events or more."""
    if count <= 0 or mean <= 0:
        return float(count <= 0)
    return _tail(count, mean, lambda k: k * log(mean) - mean - lgamma(k + 1))


def _tail(count: int, mean: float, log_chance: Callable[[int], float]) -> float:
    """The probability of so many or more: a sum away from the peak, whose terms get smaller and smaller."""
    step, k = (1, count) if count > mean else (-1, count - 1)
    total = 0.0
    while k >= 0 and (term := exp(log_chance(k))) > _NOTHING * total:
        total += term
        k += step
    return min(1.0, total) if step > 0 else max(0.0, 1 - total)


def poisson_interval(count: int) -> tuple[float, float]:
    """The means between which the one lies that so many events came of: its exact 95 % interval."""
    high = count + 10.0 + 10 * count**0.5
    low = _where(lambda mean: poisson_tail(count, mean) > ALPHA / 2, high) if count else 0.0
    return low, _where(lambda mean: 1 - poisson_tail(count + 1, mean) < ALPHA / 2, high)


def _where(holds: Callable[[float], bool], high: float) -> float:
    """The least number from 0 to `high` for which it holds; it holds for all greater ones."""
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return (low + high) / 2


def holm(chances: Sequence[float]) -> list[float]:
    """The probabilities, corrected for their number: those below ALPHA have in all a false one with at most ALPHA."""
    corrected, worst = [1.0] * len(chances), 0.0
    for rank, place in enumerate(sorted(range(len(chances)), key=lambda at: chances[at])):
        worst = max(worst, min(1.0, chances[place] * (len(chances) - rank)))
        corrected[place] = worst
    return corrected


def rates_differ(
    count: int, exposure: float, other_count: int, other_exposure: float, clustering: float = 1.0
) -> float:
    """The probability of a difference between two rates as large as this by chance: exact, two-sided, given all events.

    Events that come `clustering` at once are so many fewer events.
    """
    if exposure <= 0 or other_exposure <= 0:
        return 1.0
    one, other = round(count / clustering), round(other_count / clustering)
    both, share = one + other, exposure / (exposure + other_exposure)
    more = binomial_tail(one, both, share)
    fewer = binomial_tail(other, both, 1 - share)
    return min(1.0, 2 * min(more, fewer))
