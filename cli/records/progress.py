"""What is said of an import when something ends it."""

import shlex

import msgspec

from lithify.manifest.words import counted

__all__ = ["Progress"]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far an import came, and how it goes on."""

    appended: int  # records that this run appended
    already_there: int  # that an earlier run had
    unknown: int  # that may have been appended
    source_id: str
    skip: int | None  # with which --skip it goes on; None: with the one that was given
    passed_over: int  # how many of the first records this run passed over
    forgotten: bool = False  # a partition that had some of it knows nothing of it any more
    told: bool = False  # the error says already how it goes on

    def fields(self) -> dict[str, object]:
        kept = msgspec.structs.asdict(self).items()
        return {name: value for name, value in kept if name not in ("forgotten", "told")}

    def __str__(self) -> str:
        if not self.appended + self.already_there + self.unknown:
            return "Nothing was appended"
        told = f"{counted(self.appended, 'record')} {'was' if self.appended == 1 else 'were'} appended"
        if self.already_there:
            told += f", {self.already_there} were there already"
        if self.unknown:
            told += f", {self.unknown} may have been"
        if self.told:
            return told
        if self.forgotten and self.skip is None:
            return f"{told}; compare the log with the source before you go on"
        # SUBTLE! Always by the name. A bad line is mended, and the file has another name: with --skip alone the first
        # rows would count as passed over there, although they are in. And always with the number where it is exact:
        # it holds where the name is not remembered any more. Test: tests/properties/test_imports.py
        skip = self.passed_over if self.skip is None else self.skip
        how = f"--source-id {shlex.quote(self.source_id)}" + (f" --skip {skip}" if skip else "")
        return f"{told}; go on with {how}, which appends what is missing and nothing twice"
