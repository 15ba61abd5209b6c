"""What the compiled core asks of the C library: no function whose last bit depends on the system."""

import re
import struct
from pathlib import Path

import pytest

from linmed.core import core

# Rounded differently from one C library to the next; fma, sqrt, floor, ldexp, frexp, … are exact everywhere.
INEXACT = (
    "exp|exp2|exp10|pow10|expm1|log|log2|log10|log1p|logb|pow|sin|cos|tan|sincos|asin|acos|atan|atan2|sinh|cosh|tanh|asinh"
    "|acosh|atanh|sinpi|cospi|erf|erfc|lgamma|tgamma|gamma|cbrt|hypot|rsqrt|j0|j1|jn|y0|y1|yn"
)
PATTERN = re.compile(rf"(?:__|_ZGV\w+_)?(?:{INEXACT})[fl]?(?:_r|_finite|_r_finite)?")


def imported(path: Path) -> list[str]:
    """The names of a shared library of 64 bits, little-endian, that others must define."""
    raw = path.read_bytes()
    assert raw[:6] == b"\x7fELF\x02\x01"
    at, size, count = struct.unpack_from("<Q", raw, 40)[0], *struct.unpack_from("<HH", raw, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", raw, at + i * size) for i in range(count)]
    names = []
    for _, kind, _, _, offset, length, link, _, _, entry in sections:
        if kind != 11:  # SHT_DYNSYM
            continue
        strings = sections[link][4]
        for place in range(offset, offset + length, entry):
            name, _, _, section = struct.unpack_from("<IBBH", raw, place)
            if section == 0 and name:
                start = strings + name
                names.append(raw[start : raw.index(b"\0", start)].decode())
    return names


@pytest.mark.linux
def test_no_function_of_the_c_library_is_asked_for_a_rounded_number():
    names = imported(Path(core.__file__))
    assert "memcpy" in names
    assert "PyErr_SetString" in names
    assert [name for name in names if PATTERN.fullmatch(name)] == []


def test_the_pattern_knows_such_names():
    for name in ("exp", "expf", "pow", "__exp_finite", "_ZGVdN4v_exp", "sincos", "lgamma_r", "logl", "tanh"):
        assert PATTERN.fullmatch(name), name
    for name in ("fma", "sqrt", "expand", "ldexp", "frexp", "floor", "memcpy", "logger"):
        assert not PATTERN.fullmatch(name), name
