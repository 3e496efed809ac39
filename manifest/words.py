"""Numbers in sentences for people. Pure."""

__all__ = ["counted", "span_text"]

_STEPS_MS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def span_text(span_ms: int) -> str:
    """A span of time: 3.5 h."""
    for step, unit in _STEPS_MS:
        if abs(span_ms) >= step:
            return f"{span_ms / step:.1f} {unit}"
    return f"{span_ms} ms"


def counted(count: int, noun: str) -> str:
    """1 segment, 2 segments."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
