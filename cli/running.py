"""What runs until it is told to leave: a compactor, a collector, an HTTP server, or several of them in one process."""

import logging
from typing import TYPE_CHECKING

import structlog

from lithify.cli.invocation import Invocation
from lithify.cli.logs import set_up_logs
from lithify.events.event_log import log_event
from lithify.store.urls import shown

if TYPE_CHECKING:
    from lithify.admin.http.server import Serving
    from lithify.compactor.compactor import Compactor
    from lithify.events.types import Sink
    from lithify.gc.collector import Collector
    from lithify.log.warehouse import Warehouse

__all__ = ["make_collector", "run_parts"]

log = structlog.wrap_logger(logging.getLogger("lithify.service"))


def make_collector(
    warehouse: "Warehouse", grace_ms: int, events: "Sink" = log_event, *, interval_ms: int = 0, rest_ms: int = 0
) -> "Collector":
    """Of a service. Raises InvalidRequest if the grace period is shorter than writers need."""
    from lithify.admin.garbage import check_grace
    from lithify.gc.collector import Collector

    check_grace(grace_ms, "--gc-grace-ms")
    if grace_ms == 0:
        log.warning("there is no grace period: others who use the warehouse now may get CommitUnknown")
    return Collector(warehouse, grace_ms=grace_ms, interval_ms=interval_ms, rest_ms=rest_ms, events=events)


def run_parts(
    invocation: Invocation,
    compactor: "tuple[Compactor, int, int, bool] | None" = None,
    collector: "tuple[Collector, int, int] | None" = None,
    server: "Serving | None" = None,
) -> None:
    """Run until SIGTERM or SIGINT. Raises Fenced."""
    from lithify.admin.daemon import Collecting, Compacting, Part, leave_on_signals, run_together

    set_up_logs(invocation.log_format, invocation.log_level or "info")
    parts: list[Part] = [Compacting(*compactor)] if compactor is not None else []
    parts += [Collecting(*collector)] if collector is not None else []
    parts += [server] if server is not None else []

    def stop() -> None:
        for part in parts:
            part.stop()

    with leave_on_signals(stop):
        log.info(
            "started", warehouse=shown(invocation.warehouse().url), compacts=bool(compactor), collects=bool(collector)
        )
        if server is not None:
            invocation.output.line(server.url)
        run_together(parts)
    log.info("left")
