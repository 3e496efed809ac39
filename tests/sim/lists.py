"""Run lists, as docs/formats.md has them: they are put back into the manifests that name them, so that whoever judges a
manifest sees all its runs. By the stored JSON alone; nothing here asks the product."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
import xxhash

from tests.sim.judge.layout import Json, load

__all__ = ["Lists", "with_runs"]


def with_runs(manifest: Json, bodies: Mapping[str, bytes]) -> Json:
    """The manifest, with the runs that its lists list. `bodies`: of these, by id."""
    runs: list[Json] = []
    for each in manifest.get("lists", ()):
        for run in load(bodies[each["id"]])["runs"]:
            segments = [{**ref, "added_at": ref.get("added_at") or each["added_at"]} for ref in run["segments"]]
            _add(runs, {**run, "segments": segments})
    for run in manifest.get("runs", ()):
        _add(runs, run)
    return {**manifest, "runs": runs}


def _add(runs: list[Json], run: Json) -> None:
    """What was divided becomes one again."""
    if runs and runs[-1]["id"] == run["id"]:
        run = {**run, "segments": [*runs.pop()["segments"], *run["segments"]]}
    runs.append(run)


class Lists:
    """Those of one partition: which there are, and what names them."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}  # by id, of all that ever were
        self._named: dict[int, frozenset[str]] = {}  # by manifest
        self._head: Json = {}

    def stored(self, list_id: str, body: bytes) -> str | None:
        known = self._bodies.setdefault(list_id, body)
        return None if known == body else f"run list {list_id} is written twice, and not the same (P23)"

    def whole(self, number: int, body: bytes, there: Callable[[str], bool]) -> tuple[bytes, str | None]:
        """A manifest that was just created, with all its runs; and what is wrong with its lists. `there`: whether one
        is in the store, by its id."""
        manifest = load(body)
        wrong = next(self._wrong(self._head, manifest, there), None)
        if wrong is not None:
            return body, f"manifest {number} {wrong} (P23)"
        self._head = manifest
        self._named[number] = frozenset(each["id"] for each in manifest.get("lists", ()))
        if not manifest.get("lists"):
            return body, None
        return msgspec.json.encode(with_runs(manifest, self._bodies)), None

    def _wrong(self, previous: Json, manifest: Json, there: Callable[[str], bool]) -> Iterator[str]:
        was, now = ({each["id"]: each for each in one.get("lists", ())} for one in (previous, manifest))
        were, are = ({each["id"]: each for each in one.get("retired_lists", ())} for one in (previous, manifest))
        yield from self._named_wrongly(was, now, manifest["id"], there)
        for name in now:
            if name in were or name in are:
                yield f"names list {name}, which is retired"
        for name, each in was.items():
            expected = {key: each[key] for key in ("id", "bytes", "added_at")} | {"retired_at": manifest["id"]}
            if name not in now and are.get(name) != expected:
                yield f"does not say that list {name} is retired"
        yield from _retired_wrongly(were, are, was, manifest, there)
        if (now or are) and manifest["format"] != 3:
            yield f"has lists, and format {manifest['format']}"

    def _named_wrongly(
        self, was: Mapping[str, Json], now: Mapping[str, Json], number: int, there: Callable[[str], bool]
    ) -> Iterator[str]:
        for name, each in now.items():
            body = self._bodies.get(name, b"")
            if not there(name):
                yield f"names list {name}, which is not there"
            if (len(body), xxhash.xxh3_64_hexdigest(body)) != (each["bytes"], each["xxh3"]):
                yield f"names list {name}, and it is another"
            if name in was and each != was[name]:
                yield f"changes list {name}"
            if name not in was and each["added_at"] != number:
                yield f"dates list {name} {each['added_at']}"
            if sum(len(run["segments"]) for run in load(body)["runs"]) != each["segments"]:
                yield f"counts {each['segments']} segments in list {name}"

    def deleted(self, list_id: str, dead: int, pins: Iterable[int]) -> str | None:
        """Whoever reads a manifest that is not dead, or pinned, needs what it names."""
        naming = {number for number, names in self._named.items() if list_id in names}
        needing = {number for number in naming if number > dead} | naming.intersection(pins)
        if needing:
            return f"run list {list_id} is deleted, and manifest {max(needing)} names it (P23)"
        return None

    def left_over(self, list_ids: Iterable[str], pins: Iterable[int]) -> str | None:
        """At rest."""
        if self._head.get("retired_lists"):
            return f"run list {self._head['retired_lists'][0]['id']} is retired long after its grace period (P23)"
        kept = frozenset[str]().union(*(self._named.get(number, ()) for number in (self._head.get("id", 0), *pins)))
        return next((f"run list {each} is left behind (P23)" for each in list_ids if each not in kept), None)


def _retired_wrongly(
    were: Mapping[str, Json],
    are: Mapping[str, Json],
    was: Mapping[str, Json],
    manifest: Json,
    there: Callable[[str], bool],
) -> Iterator[str]:
    if any(each != are.get(name, each) for name, each in were.items()) or are.keys() - were.keys() - was.keys():
        yield "changes what is retired"
    pins = [each["manifest"] for each in manifest.get("checkpoints", ())]
    for name, each in were.items():
        kept = any(each["added_at"] <= pin < each["retired_at"] for pin in pins)
        if name not in are and there(name) and not kept:
            yield f"forgets list {name}, and it is there"
