"""Parts of a forward that gradient checkpointing runs again, inside of what surrounded them the first time.

`torch.utils.checkpoint` brings back the random state and autocasting for the second run. The pass that a part is of,
and the modules around it that watch functions, are gumdrop's own, and are brought back here: what a part is to be run
again by is wrapped where PyTorch takes it, once for the process. Without anything to bring back nothing is wrapped.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils import checkpoint

Around = Callable[[], contextlib.AbstractContextManager[object]]
_KEEPERS: list[Callable[[], Around | None]] = []


def keeps_around(keeper: Callable[[], Around | None]) -> Callable[[], Around | None]:
    """Register what gives, as a part begins, the context to run it again in; None if nothing surrounds it."""
    _KEEPERS.append(keeper)
    return keeper


def _kept(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap what a part is run again by."""
    around = [each for keeper in _KEEPERS if (each := keeper()) is not None]
    return functools.partial(_run_again, function, around) if around else function


def _run_again(function: Callable[..., Any], around: list[Around], *args: Any, **kwargs: Any) -> Any:
    with contextlib.ExitStack() as stack:
        for context in around:
            stack.enter_context(context())
        return function(*args, **kwargs)


def _first_run(ctx: Any, run_function: Callable[..., Any], *args: Any) -> Any:
    again = _kept(run_function)
    output = _FORWARD(ctx, run_function, *args)
    ctx.run_function = again
    return output


def _surrounded(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Iterator[None]:
    return _GENERATOR(_kept(function), *args, **kwargs)


_FORWARD = checkpoint.CheckpointFunction.forward
_GENERATOR: Callable[..., Iterator[None]] = checkpoint._checkpoint_without_reentrant_generator
checkpoint.CheckpointFunction.forward = staticmethod(_first_run)  # type: ignore[method-assign]
checkpoint._checkpoint_without_reentrant_generator = _surrounded  # type: ignore[assignment]
