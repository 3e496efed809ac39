"""What storage and requests cost, at the list prices of S3 in us-east-1: the one table for metrics, explanations, the
policy and the cost page (docs/cost-of-homes.md). Transfer out of the region is not included. Pure."""

from typing import NamedTuple

__all__ = [
    "CLASSES",
    "DAY_MS",
    "FREE",
    "GB",
    "MONTH_DAYS",
    "PRICES_USD",
    "REQUESTS",
    "STANDARD",
    "Prices",
    "request_usd",
]

GB = 1 << 30  # as S3 bills it
MONTH_DAYS = 30
DAY_MS = 86_400_000


class Prices(NamedTuple):
    """Of one storage class, in dollars."""

    stored_gb_month: float
    put: float  # of one PUT, COPY, POST or LIST; a refused conditional one costs the same
    get: float  # of one GET or HEAD
    retrieved_gb: float = 0.0
    days_min: int = 0  # an object that is deleted earlier costs its storage for the rest


FREE = Prices(0.0, 0.0, 0.0)
"""A disk of one's own, and whatever has no prices here."""

STANDARD = Prices(0.023, 0.005 / 1000, 0.0004 / 1000)
CLASSES = {
    "STANDARD": STANDARD,
    "STANDARD_IA": Prices(0.0125, 0.01 / 1000, 0.001 / 1000, 0.01, 30),
    "ONEZONE_IA": Prices(0.01, 0.01 / 1000, 0.001 / 1000, 0.01, 30),
    "INTELLIGENT_TIERING": Prices(0.0125, 0.005 / 1000, 0.0004 / 1000),  # what was not read for 30 days
    "GLACIER_IR": Prices(0.004, 0.02 / 1000, 0.01 / 1000, 0.03, 90),
    "EXPRESS_ONEZONE": Prices(0.11, 0.00113 / 1000, 0.00003 / 1000, 0.0006),
}

_PUTS = frozenset({"creates", "puts", "output_requests", "lists"})
REQUESTS = ("creates", "puts", "output_requests", "lists", "gets", "reads", "heads", "deletes")
"""The kinds of requests, by their names in RequestCounts."""


def request_usd(prices: Prices, request: str) -> float:
    """What one request of that kind costs. Deletions are free."""
    if request == "deletes":
        return 0.0
    return prices.put if request in _PUTS else prices.get


PRICES_USD = {request: request_usd(STANDARD, request) for request in REQUESTS}
"""What one request of each kind to the warehouse costs, as if it were S3 Standard."""
