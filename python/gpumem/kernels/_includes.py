# SPDX-License-Identifier: Apache-2.0
"""Which headers a CUDA source reads, by content.

Directives are read as text: one that a condition or a comment leaves out counts too, which makes a
key too narrow and never wrong. A name that only the preprocessor knows cannot be followed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator

_INCLUDE = re.compile(r"(?:(?:#|%:|\?\?=)(?:\s|/\*.*?\*/)*include(?:_next)?"
                      r"|__has_include(?:_next)?\s*\()"
                      r"(?:[ \t]|/\*.*?\*/)*"
                      r"(?:<([^>\n]+)>|\"([^\"\n]+)\"|(\S+))")
_WITH_VALUE = ("-I", "--include-path", "-isystem", "-include", "--pre-include")
_OTHER_FILES = ("--options-file", "-optf", "--use-pch", "--create-pch", "--pch-dir")


class Unknown(Exception):
    """What a source reads cannot be known."""


def split_options(options: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
    """(folders of headers, headers that are read first, other options). Raises Unknown."""
    folders: list[str] = []
    first: list[str] = []
    others: list[str] = []
    rest = iter(options)
    for option in rest:
        name = next((n for n in sorted(_WITH_VALUE, key=len, reverse=True)
                     if option.startswith(n)), None)
        if name is None:
            if option.startswith(_OTHER_FILES):
                raise Unknown(option)
            others.append(option)
            continue
        value = option[len(name):].lstrip("=").strip() or next(rest, "")
        (first if name in ("-include", "--pre-include") else folders).append(value)
    return folders, first, others


def includes_none(text: str) -> bool:
    """Whether a text has no such directive at all."""
    return _INCLUDE.search(text.replace("\\\n", "")) is None


def names(text: str, is_strict: bool = True) -> Iterator[tuple[str, bool]]:
    """(name, is in quotes) of each directive, and of what is asked to be there. Raises Unknown."""
    for angled, quoted, other in _INCLUDE.findall(text.replace("\\\n", "")):
        if not other:
            yield (quoted, True) if quoted else (angled, False)
        elif is_strict:
            raise Unknown(f"#include {other}")


class Reader:
    """Follows the includes of one compilation.

    `stamps` are folders whose headers are known by one text each (a release's own), not one by
    one. They are followed all the same, since an earlier folder may hold what they include."""

    def __init__(self, folders: list[str], stamps: dict[str, str]) -> None:
        self.folders = [os.path.abspath(folder) for folder in folders]
        self.stamps = {os.path.join(os.path.abspath(folder), ""): stamp
                       for folder, stamp in stamps.items()}
        self.has_foreign = any(self._stamp(folder) is None for folder in self.folders)
        self.found: dict[str, str] = {}  # path: its name and digest, or its folder's stamp

    def _stamp(self, path: str) -> str | None:
        path = os.path.join(path, "")
        return next((stamp for folder, stamp in self.stamps.items() if path.startswith(folder)),
                    None)

    def _find(self, name: str, beside: str | None) -> str | None:
        for folder in ([beside] if beside else []) + self.folders:
            path = os.path.normpath(os.path.join(folder, name))
            if os.path.isfile(path):
                return path
        return None

    def read(self, text: str, folder: str | None = None) -> None:
        """Follows what a text includes, and what that includes. Raises Unknown."""
        todo = [(name, folder if quoted else None) for name, quoted in names(text)]
        while todo:
            name, beside = todo.pop()
            path = self._find(name, beside)
            # One that is missing and comes later is found then, which changes the digest.
            if path is not None and path not in self.found:
                todo += self._note(name, path)

    def _note(self, name: str, path: str) -> list[tuple[str, str | None]]:
        stamp = self._stamp(path)
        self.found[path] = stamp or ""
        if stamp is not None and not self.has_foreign:
            return []
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as error:
            raise Unknown(f"{path}: {error.strerror}") from None
        text = data.decode("utf-8", "replace")
        if stamp is None:
            self.found[path] = f"{name} {hashlib.sha256(data).hexdigest()}"
        return [(one, os.path.dirname(path) if quoted else None)
                for one, quoted in names(text, is_strict=stamp is None)]

    def digest(self) -> str:
        """Of all that was found, in whatever folder it lies."""
        return hashlib.sha256("\n".join(sorted(set(self.found.values()))).encode()).hexdigest()


def stamp_of_folder(folder: str) -> str:
    """One text for the headers of a toolkit: their names and sizes, and what cuda.h says."""
    digest = hashlib.sha256()
    try:
        with os.scandir(folder) as entries:
            for name, size in sorted((entry.name, entry.stat().st_size) for entry in entries
                                     if entry.is_file()):
                digest.update(f"{name} {size}\n".encode())
        with open(os.path.join(folder, "cuda.h"), "rb") as file:
            digest.update(file.read())
    except OSError as error:
        digest.update(error.strerror.encode())
    return digest.hexdigest()
