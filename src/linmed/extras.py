"""What parts of linmed need beyond NumPy, and the error that says how to get it."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

PACKAGES = {
    "log": ("pyarrow",),
    "ope": ("pyarrow", "scipy"),
    "paper": ("pyarrow", "scipy", "matplotlib"),
    "plot": ("matplotlib",),
}
"""By the extra of pyproject.toml that installs them."""


def require(what: str, extra: str, *packages: str) -> None:
    """Raise an error that names what is missing of an extra, or of these packages, and how to install it.

    >>> from linmed.extras import require
    >>> require("linmed.ope", "ope")
    """
    for package in packages or PACKAGES[extra]:
        if not _is_there(package):
            raise ImportError(f"{what} needs {package}: pip install 'linmed[{extra}]'", name=package)


class Later:
    """A module of another package, imported when something of it is first asked for.

    >>> from linmed.extras import Later
    >>> Later("pyarrow", "a table of Arrow", "log").int64()
    DataType(int64)
    """

    def __init__(self, module: str, what: str, extra: str) -> None:
        self._module, self._what, self._extra = module, what, extra

    def __getattr__(self, name: str) -> Any:
        require(self._what, self._extra, self._module.partition(".")[0])
        return getattr(import_module(self._module), name)


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # it was taken out of sys.modules by putting None there
        return False
