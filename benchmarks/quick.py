"""The command line of a benchmark that stands alone: its own words, and --quick."""

import argparse

__all__ = ["asks_quick"]


def asks_quick(name: str, text: str | None) -> bool:
    """Whether `python -m benchmarks.NAME` is asked for tiny data and few turns. `text`: what its help says."""
    parser = argparse.ArgumentParser(
        f"python -m benchmarks.{name}", description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="tiny data, one turn or two: does it work?")
    return parser.parse_args().quick
