"""Compactors that share a cluster: both make progress, an idle one holds no core, and one that gets none says so."""

from pathlib import Path

import pytest

from tests.cluster.daemons import Daemon, Topic, await_idle
from tests.cluster.standalone import Cluster

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("cluster")]


def test_two_compactors_make_progress_side_by_side_and_then_hold_no_core(cluster: Cluster, tmp_path: Path) -> None:
    conf = {"spark.cores.max": "1"}
    topics = [Topic(tmp_path / name) for name in ("one", "two")]
    jobs = [topic.submit() for topic in topics]
    with (
        Daemon(topics[0].url, cluster.url, tmp_path, conf=conf),
        Daemon(topics[1].url, cluster.url, tmp_path, conf=conf),
    ):
        for topic, job in zip(topics, jobs, strict=True):
            topic.await_done(job)
        assert topics[0].job(jobs[0]).started_at < topics[1].job(jobs[1]).completed_at
        assert topics[1].job(jobs[1]).started_at < topics[0].job(jobs[0]).completed_at
        await_idle(cluster)
