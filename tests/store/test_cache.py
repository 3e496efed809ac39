"""The cache of what never changes: bounded, counted, each process's own."""

import os
import pickle
import threading

from lithify.store.cache import Cache


def test_what_was_used_last_stays_and_the_rest_goes() -> None:
    cache = Cache(80_000)
    for name in range(20):
        cache.put(name, str(name), 9_000)
        assert cache.get(0) == "0"
    assert cache.get(19) == "19"
    assert cache.get(1) is None
    counts = cache.counts()
    assert counts.bytes <= 80_000
    assert (counts.entries, counts.hits, counts.misses) == (8, 21, 1)


def test_what_is_too_large_is_not_kept() -> None:
    cache = Cache(80_000)
    cache.put("a", "a", 9_000)
    cache.put("b", "b", 10_001)
    assert (cache.get("a"), cache.get("b")) == ("a", None)


def test_the_same_again_counts_once() -> None:
    cache = Cache()
    for _ in range(3):
        cache.put("a", "a", 600)
    assert cache.counts().bytes == 1_000


def test_threads_share_it() -> None:
    cache = Cache(100_000)

    def work(first: int) -> None:
        for name in range(first, first + 500):
            cache.put(name, name, 1_000)
            assert cache.get(name) in (name, None)

    threads = [threading.Thread(target=work, args=(250 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = cache.counts()
    assert counts.bytes == 1_400 * counts.entries <= 100_000


def test_a_fork_begins_with_an_empty_one() -> None:
    cache = Cache()
    cache.put("a", "a", 600)
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(write, b"%d %d" % (cache.get("a") is None, cache.counts().bytes))
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(read, 100) == b"1 0"
    assert cache.get("a") == "a"


def test_a_pickle_has_nothing_of_it() -> None:
    cache = Cache(80_000)
    cache.put("a", "a", 600)
    other = pickle.loads(pickle.dumps(cache))
    assert (other.bytes_max, other.get("a"), other.counts().bytes) == (80_000, None, 0)
