"""Compiled code that notices dropout.

`torch.compile` does not look whether a module has hooks when it decides which of the compiled versions of a forward to
run. So what it compiled for a plain model would serve a converted one of the same class, without its dropout.
"""

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

SETTINGS = "torch._dynamo.config"


def guard_hooks() -> None:
    """Have `torch.compile` look for hooks from now on, and forget what it compiled without; it is not loaded for it."""
    settings: Any = sys.modules.get(SETTINGS)
    if settings is None:
        if _WhenLoaded not in sys.meta_path:
            sys.meta_path.insert(0, _WhenLoaded)
    elif settings.skip_nnmodule_hook_guards:
        settings.skip_nnmodule_hook_guards = False
        sys.modules["torch._dynamo"].reset()


class _WhenLoaded:
    """Finder of modules that changes the settings of the compiler as soon as they are loaded."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find the settings, for once."""
        if name != SETTINGS:
            return None
        sys.meta_path.remove(_WhenLoaded)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        load = spec.loader.exec_module

        def load_and_set(module: Any) -> None:
            load(module)
            module.skip_nnmodule_hook_guards = False

        spec.loader.exec_module = load_and_set  # type: ignore[method-assign]
        return spec
