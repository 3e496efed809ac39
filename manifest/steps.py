"""Neighbouring runs of similar size, which a tier merges. Pure (docs/rfcs/0008)."""

from collections.abc import Iterator, Sequence

from lithify.manifest.units import Unit

__all__ = ["SIMILAR_SIZE_RATIO", "steps"]

# Runs are similar if their sizes differ by at most this factor. The result of merging `runs.tier` of them is larger
# than that, so it is not merged again at once.
SIMILAR_SIZE_RATIO = 2


def steps(runs: Sequence[Unit], *younger: int) -> Iterator[tuple[int, int]]:
    """[first, end) of each stretch of neighbours of similar size, youngest first, in the sizes of `runs` and `younger`.

    A run older than a larger one counts as that large; otherwise a small run between large ones would never be merged.
    So sizes fall in steps from the oldest to the youngest; with fewer than runs.tier on each step, their number is
    bounded.
    """
    sizes = [*(run.bytes for run in runs), *younger]
    end = len(sizes)
    size = smallest = sizes[-1] if sizes else 0
    for at in range(len(sizes) - 1, -1, -1):
        size = max(size, sizes[at])
        if size > SIMILAR_SIZE_RATIO * smallest:
            yield at + 1, end
            smallest, end = size, at + 1
    if sizes:
        yield 0, end
