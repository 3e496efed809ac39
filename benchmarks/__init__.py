"""How fast, at what cost, and in how much memory: `python -m benchmarks`."""
