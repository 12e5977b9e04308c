# SPDX-License-Identifier: Apache-2.0
"""A digest of a Python function and of all that it refers to, which a compiler makes constants of.

What a name means is followed: values by value, functions by their code, modules by the attributes
that are used. What cannot be followed raises Unknown: then the digest would not tell two functions
apart. Nothing depends on where a file lies, or on a line's number.
"""

from __future__ import annotations

import dis
import hashlib
import types
from collections.abc import Callable, Iterator
from typing import Any

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))


class Unknown(Exception):
    """A value of which no text says all."""


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _names(code: types.CodeType) -> tuple[set[str], set[str]]:
    """The global names that code reads, and the names of attributes."""
    instructions = [one for part in _codes(code) for one in dis.get_instructions(part)]
    return ({one.argval for one in instructions if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")},
            {one.argval for one in instructions if one.opname in ("LOAD_ATTR", "LOAD_METHOD")})


class Digest:
    """Of one function. `special` gives a text for values of a framework, or None.

    `released` are packages whose version is in the key: what is theirs is told by name."""

    def __init__(
        self, function: Any, released: tuple[str, ...],
        special: Callable[[Digest, Any], str | None], with_lines: bool = False,
    ) -> None:
        self._released, self._special, self._with_lines = released, special, with_lines
        self._seen: dict[int, int] = {}
        self._hash = hashlib.sha256()
        self._hash.update(self.function(function).encode())

    def hexdigest(self) -> str:
        """The digest."""
        return self._hash.hexdigest()

    def is_released(self, module: str | None) -> bool:
        """Whether a module belongs to a package whose version is in the key."""
        return (module or "").partition(".")[0] in self._released

    def function(self, function: Any) -> str:
        """A text of a function: equal texts, equal functions."""
        if id(function) in self._seen:
            return f"function {self._seen[id(function)]}"
        self._seen[id(function)] = len(self._seen)
        code, parts = function.__code__, [function.__name__]
        parts += [self._code(one) for one in _codes(code)]
        for cell in function.__closure__ or ():
            try:
                parts.append(self.value(cell.cell_contents))
            except ValueError:
                parts.append("empty")
        parts.append(self.value(function.__defaults__))
        parts.append(self.value(function.__kwdefaults__))
        names, attributes = _names(code)
        for name in sorted(names & function.__globals__.keys()):
            parts.append(f"{name}={self.value(function.__globals__[name], attributes)}")
        return _join("def", parts)

    def _code(self, code: types.CodeType) -> str:
        constants = [self.value(constant) for constant in code.co_consts
                     if not isinstance(constant, types.CodeType)]
        parts = [code.co_code.hex(), repr(code.co_names), repr(code.co_varnames),
                 repr(code.co_freevars), repr(code.co_cellvars), repr(code.co_flags),
                 repr((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)),
                 getattr(code, "co_exceptiontable", b"").hex(), *constants]
        if self._with_lines:  # they are in what is compiled
            parts += [code.co_filename, repr(list(code.co_lines()))]
        return _join("code", parts)

    def value(self, value: Any, used: set[str] | None = None) -> str:
        """A text of a value. Raises Unknown."""
        if isinstance(value, _PLAIN) and type(value) in _PLAIN:
            return f"{type(value).__name__} {value!r}"
        if type(value) in (tuple, list):
            return _join(type(value).__name__, [self.value(one) for one in value])
        if type(value) in (set, frozenset):
            return _join(type(value).__name__, sorted(self.value(one) for one in value))
        if type(value) is dict:
            return _join("dict", [self.value(one) for pair in value.items() for one in pair])
        special = self._special(self, value)
        if special is not None:
            return special
        if isinstance(value, types.ModuleType):
            return self._module(value, used or set())
        if isinstance(value, types.BuiltinFunctionType) and isinstance(
                value.__self__, (types.ModuleType, type(None))):
            return f"builtin {value.__module__}.{value.__qualname__}"
        named = getattr(value, "__qualname__", None)
        if isinstance(value, (type, types.FunctionType)) and named and (
                value.__module__ == "builtins" or self.is_released(value.__module__)):
            return f"{value.__module__}.{named}"
        if isinstance(value, types.FunctionType):
            return self.function(value)
        raise Unknown(f"{type(value).__module__}.{type(value).__qualname__}")

    def _module(self, module: types.ModuleType, used: set[str]) -> str:
        name = module.__name__
        if name in ("math", "cmath", "operator", "builtins") or self.is_released(name):
            return f"module {name}"
        if id(module) in self._seen:
            return f"module {self._seen[id(module)]}"
        self._seen[id(module)] = len(self._seen)
        parts = [f"{attribute}={self.value(getattr(module, attribute), used)}"
                 for attribute in sorted(used) if hasattr(module, attribute)]
        return _join("module", parts)


def _join(kind: str, parts: list[str]) -> str:
    """No two lists have one text."""
    return f"{kind}({' '.join(f'{len(part)}:{part}' for part in parts)})"
