"""A Ceph RGW of its own, on loopback: an S3 server with users and bucket policies, by the programs of tests/debian.py.

One monitor, one OSD that keeps everything in memory, one gateway. They end with the process that started them, whatever
becomes of it.
"""

import socket
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lithify.store.driver import monotonic_ms, pause
from tests.debian import ROOT, program
from tests.endpoint import Endpoint
from tests.processes import running

__all__ = ["Rgw", "running_rgw"]

START_MS = 120_000
COMMAND_S = 120

# crc: radosgw waits for ever for a secure connection that nobody has keys for. The paxos times: a start in two seconds,
# not in thirteen. tcp_nodelay: without it each small reply waits 40 ms for the ACK of its head.
_CONF = """
[global]
fsid = {fsid}
mon host = v2:127.0.0.1:{monitor}
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind msgr1 = false
auth cluster required = none
auth service required = none
auth client required = none
ms mon client mode = crc
ms mon cluster mode = crc
ms mon service mode = crc
run dir = {folder}
admin socket = {folder}/$name.asok
log file = {folder}/$name.log
pid file = {folder}/$name.pid
{plugins}
osd class load list = *
osd class default list = *
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 2000
mon data avail crit = 1
mon data avail warn = 1
[mon]
paxos propose interval = 0.05
paxos min wait = 0.01
mon data = {folder}/mon
mon cluster log file = {folder}/cluster.log
[osd]
osd data = {folder}/osd
osd objectstore = memstore
memstore device bytes = {memory_bytes}
osd op num shards = 2
osd op num threads per shard = 1
[client.rgw]
keyring = {folder}/keyring
rgw data = {folder}/rgw
rgw frontends = beast endpoint=127.0.0.1:{gateway} tcp_nodelay=1
rgw thread pool size = 64
rgw enable usage log = false
rgw run sync thread = false
debug rgw = 0
"""


class Rgw:
    """The gateway of a cluster in `folder`."""

    def __init__(self, folder: Path, gateway: int) -> None:
        self.endpoint_url = f"http://127.0.0.1:{gateway}"
        self._folder = folder

    def user(self, name: str) -> Endpoint:
        """A new user, who may make buckets and use these; and reach those of others as their policies say."""
        key, secret = f"{name}-key", f"{name}-secret"
        keys = [f"--access-key={key}", f"--secret-key={secret}"]
        self.run(
            "radosgw-admin", "user", "create", f"--uid={name}", f"--display-name={name}", *keys, "-n", "client.rgw"
        )
        return Endpoint(self.endpoint_url, key, secret)

    def command(self, name: str, *words: str) -> tuple[list[str], dict[str, str]]:
        found = program(name)
        environment = {**found.environment, "CEPH_CONF": str(self._folder / "ceph.conf")}
        unpacked = ROOT / "usr/lib/python3/dist-packages"  # ceph itself is a Python program
        if unpacked.exists():
            environment["PYTHONPATH"] = str(unpacked)
        return [found.path, *words], environment

    def run(self, name: str, *words: str) -> str:
        command, environment = self.command(name, *words)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=COMMAND_S, check=False)
        assert done.returncode == 0, f"{name} {' '.join(words)}: {done.stderr[-2_000:]}"
        return done.stdout

    @contextmanager
    def running(self, name: str, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
        """A daemon. The kernel kills it if we die without having done so."""
        command, environment = self.command(name, *words)
        with (self._folder / f"{name}.out").open("wb") as out:
            mortal = ["setpriv", "--pdeathsig", "KILL", *command]
            with running(mortal, env=environment, stdout=out, stderr=out) as process:
                yield process

    def told(self) -> str:
        """What its daemons said last."""
        return "\n".join(
            f"{file.name}: {file.read_text(errors='replace')[-800:]}" for file in self._folder.glob("*.out")
        )


@contextmanager
def running_rgw(folder: Path, *, memory_bytes: int = 2 << 30) -> Iterator[Rgw]:
    """Its files are in `folder`, and its data in memory, up to `memory_bytes`."""
    monitor, gateway = _free_port(), _free_port()
    fsid, osd = str(uuid.uuid4()), str(uuid.uuid4())
    for name in ("mon", "osd", "rgw"):
        (folder / name).mkdir(parents=True)
    places = {"monitor": monitor, "gateway": gateway, "memory_bytes": memory_bytes}
    text = _CONF.format(folder=folder, fsid=fsid, plugins=_plugins(), **places)
    (folder / "ceph.conf").write_text(text)
    rgw = Rgw(folder, gateway)
    caps = ["--cap", "mon", "allow *", "--cap", "osd", "allow *"]
    rgw.run("ceph-authtool", "--create-keyring", str(folder / "keyring"), "--gen-key", "-n", "client.rgw", *caps)
    address = f"[v2:127.0.0.1:{monitor}]"
    rgw.run("monmaptool", "--create", "--addv", "a", address, "--fsid", fsid, str(folder / "monmap"))
    rgw.run("ceph-mon", "--mkfs", "-i", "a", "--monmap", str(folder / "monmap"))
    with ExitStack() as daemons:
        daemons.enter_context(rgw.running("ceph-mon", "-i", "a", "-f"))
        rgw.run("ceph", "--connect-timeout", "60", "osd", "new", osd, "0")
        rgw.run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        daemons.enter_context(rgw.running("ceph-osd", "-i", "0", "-f"))
        rgw.run("radosgw-admin", "user", "list", "-n", "client.rgw")  # makes its pools, so waits for the OSD
        process = daemons.enter_context(rgw.running("radosgw", "-n", "client.rgw", "-f"))
        _await(rgw, gateway, process)
        yield rgw


def _plugins() -> str:
    """Where they are, if they are not where Debian installs them."""
    (found,) = ROOT.glob("usr/lib/*-linux-gnu/ceph") if ROOT.exists() else (None,)
    if found is None:
        return ""
    lines = {
        "plugin dir": found,
        "erasure code dir": found / "erasure-code",
        "osd class dir": found.parent / "rados-classes",
    }
    return "\n".join(f"{name} = {path}" for name, path in lines.items())


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def _await(rgw: Rgw, port: int, process: "subprocess.Popen[bytes]") -> None:
    end_ms = monotonic_ms() + START_MS
    while monotonic_ms() < end_ms and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return
        except OSError:
            pause(50)
    raise AssertionError(f"no gateway on port {port}: {rgw.told()}")
