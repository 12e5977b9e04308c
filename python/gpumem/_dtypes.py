# SPDX-License-Identifier: Apache-2.0
"""Types of elements, without NumPy: by name, by typestr, or as NumPy's, torch's or Python's own."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing costs more than the rest of this package
if TYPE_CHECKING:
    from typing import Any

# DLPack's type codes
_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6
_FLOAT8 = {
    "float8_e3m4": 7, "float8_e4m3": 8, "float8_e4m3b11fnuz": 9, "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11, "float8_e5m2": 12, "float8_e5m2fnuz": 13, "float8_e8m0fnu": 14,
}  # fmt: skip
_LETTERS = {"i": _INT, "u": _UINT, "f": _FLOAT, "c": _COMPLEX, "b": _BOOL}
_WORDS = {"int": _INT, "uint": _UINT, "float": _FLOAT, "complex": _COMPLEX}
_PYTHON = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}
_SIZES = {_INT: (8, 16, 32, 64), _UINT: (8, 16, 32, 64), _FLOAT: (16, 32, 64),
          _COMPLEX: (32, 64, 128)}  # fmt: skip


class DType:
    """The type of a buffer's elements: its name, as NumPy or ml_dtypes has it ("float32",
    "bfloat16"), DLPack's code, and bits."""

    __slots__ = ("name", "code", "bits")

    def __init__(self, name: str, code: int, bits: int) -> None:
        self.name, self.code, self.bits = name, code, bits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DType) and (self.code, self.bits) == (other.code, other.bits)

    def __hash__(self) -> int:
        return hash((self.code, self.bits))

    def __repr__(self) -> str:
        return f"DType({self.name!r})"

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.bits // 8

    @property
    def typestr(self) -> str | None:
        """As in the array interfaces: "<f4". None for types that have none, such as bfloat16."""
        letters = {code: letter for letter, code in _LETTERS.items()}
        if self.code not in letters:
            return None
        return f"{'<' if self.itemsize > 1 else '|'}{letters[self.code]}{self.itemsize}"

    def __str__(self) -> str:
        return self.name


def of_code(code: int, bits: int, lanes: int = 1) -> DType:
    """The type with DLPack's code, bits and lanes. BufferError for one that is not known here."""
    if lanes == 1:
        if code == _BOOL and bits == 8:
            return DType("bool", code, bits)
        if code == _BFLOAT and bits == 16:
            return DType("bfloat16", code, bits)
        for name, number in _FLOAT8.items():
            if code == number and bits == 8:
                return DType(name, code, bits)
        for word, number in _WORDS.items():
            if code == number and bits in _SIZES[number]:
                return DType(f"{word}{bits}", code, bits)
    raise BufferError(f"DLPack's type code {code} with {bits} bits and {lanes} lanes is not known")


_cache: dict[str, DType] = {}


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def _find(text: str) -> DType | None:
    if text in ("bool", "b1"):
        return of_code(_BOOL, 8)
    if text == "bfloat16":
        return of_code(_BFLOAT, 16)
    if text in _FLOAT8:
        return of_code(_FLOAT8[text], 8)
    for word, code in _WORDS.items():
        n = _number(text[len(word):]) if text.startswith(word) else 0
        if n in _SIZES[code]:
            return of_code(code, n)
    code, n = _LETTERS.get(text[:1], _BOOL), 8 * _number(text[1:])
    return of_code(code, n) if n in _SIZES.get(code, ()) else None


def _parse(text: str) -> DType | None:
    text = text.lstrip("<=|")
    found = _cache.get(text) or _find(text)
    if found is not None:
        _cache[text] = found
    return found


def _text(dtype: Any) -> str:
    if isinstance(dtype, str):
        return dtype
    if isinstance(dtype, type):
        return _PYTHON.get(dtype, dtype.__name__)
    # NumPy's has a name; torch's is "torch.float32".
    return getattr(dtype, "name", None) or str(dtype).rpartition(".")[2]


def parse(dtype: Any) -> DType:
    """The DType of "float32", "f4", "<f4", float, a NumPy dtype or its type, or a torch.dtype."""
    if isinstance(dtype, DType):
        return dtype
    text = _text(dtype)
    if text[:1] == ">" and sys.byteorder == "little":
        raise TypeError(f"{text} is big-endian, which no GPU reads")
    found = _parse(text)
    if found is None:
        raise TypeError(f"{dtype!r} is no type of elements that is known here")
    return found
