"""What was asked of a store, counted."""

import msgspec

from lithify.store.prices import PRICES_USD

__all__ = ["RequestCounts"]


class RequestCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Requests to a store, by kind, and the object bytes transferred each way.

    Repetitions by the client below the port are not counted.
    """

    creates: int = 0
    gets: int = 0
    reads: int = 0
    puts: int = 0
    output_requests: int = 0  # of streamed objects: start, parts, completion
    heads: int = 0
    lists: int = 0
    deletes: int = 0  # of up to 1,000 keys each
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_copied: int = 0  # of objects that the store itself copied from here: they were retrieved, and came nowhere
    conflicts: int = 0  # of the creates, those that found another body, or their own from an earlier attempt

    @property
    def total(self) -> int:
        """All requests, of any kind."""
        return sum(getattr(self, name) for name in PRICES_USD)

    def __sub__(self, earlier: "RequestCounts") -> "RequestCounts":
        return RequestCounts(**{name: getattr(self, name) - getattr(earlier, name) for name in self.__struct_fields__})

    @property
    def cost_usd(self) -> float:
        """What S3 would charge for these requests at its list prices (without storage and transfer)."""
        return sum(getattr(self, name) * price for name, price in PRICES_USD.items())
