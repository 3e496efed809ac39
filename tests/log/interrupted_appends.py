"""A program whose main thread is interrupted again and again while it appends beside others, each time once, as by
Ctrl-C: nobody waits for ever, and what was acknowledged is there. `interrupted_appends.py <how often>`."""

import faulthandler
import random
import signal
import sys
import threading
import warnings
from types import FrameType

import lithify

HANGS_S = 60


class Interrupts:
    armed = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt


def main() -> None:
    warnings.simplefilter("ignore")  # of coroutines that were interrupted before they began
    faulthandler.dump_traceback_later(HANGS_S, exit=True)
    interrupts, told, stop = Interrupts(), list[tuple[int, bytes]](), threading.Event()
    signal.signal(signal.SIGALRM, interrupts.handle)
    part = lithify.open("memory://interrupted").create_topic("t").partition(0)

    def appends(name: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            value = b"%d.%d" % (name, number)
            told.append((part.append([lithify.Record(b"k", value)]).start, value))

    threads = [threading.Thread(target=appends, args=(name,), daemon=True) for name in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(int(sys.argv[1])):
        try:
            interrupts.armed = True
            signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0002, 0.006))
            while interrupts.armed:
                part.append([lithify.Record(b"k", b"main")])
        except KeyboardInterrupt:
            pass
    stop.set()
    for thread in threads:
        thread.join()
    stored = {record.offset: record.value for record in part.read()}
    assert all(stored[offset] == value for offset, value in told)
    print("whole", len(told) > 0)


main()
