"""Names of a package that are imported when they are first used."""

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any


def names_on_use(
    package: str, modules: Mapping[str, Collection[str]], rooms: Collection[str] = ()
) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose names, by module, cost time to import (PEP 562).

    torch takes a second to load, pandas and scikit-learn another one, and who asks for a version or names a file that
    is not there should not wait for them. Type checkers do not look into this: the package imports the same names
    under `typing.TYPE_CHECKING`.

    Example:
        >>> get = names_on_use("json", {"json.decoder": ["JSONDecoder"]}, rooms=["encoder"])
        >>> get("JSONDecoder"), get("encoder")
        (<class 'json.decoder.JSONDecoder'>, <module 'json.encoder' from ...>)
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name in rooms:
            return import_module(f"{package}.{name}")
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
