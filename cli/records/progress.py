"""What is reported about an import that ends early."""

import shlex

import msgspec

from lithify.manifest.words import counted

__all__ = ["Progress"]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far an import came, and how to continue it."""

    appended: int  # records that this run appended
    already_there: int  # that an earlier run had appended
    unknown: int  # that may have been appended
    source_id: str
    skip: int | None  # the --skip to continue with; None: the one that was given
    passed_over: int  # how many of the first records this run skipped
    forgotten: bool = False  # a partition that had some of it has forgotten it
    told: bool = False  # the error already says how to continue
    repeatable: bool = False  # the same command finds the same source again, and nothing is wrong with that

    def fields(self) -> dict[str, object]:
        kept = msgspec.structs.asdict(self).items()
        return {name: value for name, value in kept if name not in ("forgotten", "told", "repeatable")}

    def __str__(self) -> str:
        if not self.appended + self.already_there + self.unknown:
            return "Nothing was appended"
        told = f"{counted(self.appended, 'record')} {'was' if self.appended == 1 else 'were'} appended"
        if self.already_there:
            told += f", {self.already_there} already in the log"
        if self.unknown:
            told += f", {self.unknown} possibly appended"
        if self.told:
            return told
        if self.forgotten and self.skip is None:
            return f"{told}; it is not known where to continue: compare the log with the source first"
        if self.repeatable:
            return f"{told}; run the same command again: it continues where it stopped"
        # SUBTLE! Always by the name: if a bad line is repaired, the file gets another name, and with --skip alone the
        # first rows would count as skipped, although they are stored. And always with the number if it is exact: it
        # is right even if the name has been forgotten. Test: tests/properties/test_imports.py
        skip = self.passed_over if self.skip is None else self.skip
        how = f"--source-id {shlex.quote(self.source_id)}" + (f" --skip {skip}" if skip else "")
        return f"{told}; to append the rest without duplicates, run the command again with {how}"
