"""Draw functions from the dropout posterior: switch on the dropout of a model and nothing else.

Predictions do so in a twin of the model (`gumdrop.prediction.twins`). `sampling` and `draw` do so in the model itself,
since what is called inside them may be any part of it; then they belong to one thread, and others are refused in words.
"""

import contextlib
import functools
import itertools
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from gumdrop.functional.devices import sent
from gumdrop.functional.noise import uniform_noise
from gumdrop.layers import ConcreteDropout, bernoulli_factors, check_rates, drawn_once, inner_dropout
from gumdrop.prediction.switches import ELSEWHERE, Attribute, FastPath, Randomness, switched
from gumdrop.prediction.twins import Restart, twin_of

__all__ = ["MaskNoise", "Stochastic", "draw", "drawing_twin", "sampling"]

Model = TypeVar("Model", bound=nn.Module)


class MaskNoise:
    """Noise for the dropout of a model, from one generator for each site, so that sites do not interleave."""

    def __init__(
        self,
        learned: list[ConcreteDropout],
        plain: Sequence[nn.Module],
        seed: int | None,
        *,
        shared: bool,
        pinned: bool,
        owner: int | None = None,
    ) -> None:
        self._owner = owner
        self.was_used = False
        sites = [*learned, *plain]
        master = torch.Generator()
        self.seed = master.seed() if seed is None else seed
        master.manual_seed(self.seed)
        seeds = torch.randint(2**62, (len(sites),), generator=master).tolist()
        self._streams = [torch.Generator().manual_seed(each) for each in seeds]
        self._generators: dict[int, torch.Generator] = {}
        self.serve(sites)
        self._shared = shared
        self._pinned: dict[tuple[int, int, tuple[int, ...]], Tensor] | None = {} if pinned else None
        self._uses: defaultdict[int, Iterator[int]] = defaultdict(itertools.count)

    def serve(self, sites: Sequence[nn.Module]) -> None:
        """Draw for other modules, too: those of a twin, in the order of its model's."""
        self._generators |= {id(site): stream for site, stream in zip(sites, self._streams, strict=True)}

    def restart(self) -> None:
        """Count the uses of each ``nn.Dropout`` from 0 again: another pass over the model begins."""
        self._uses.clear()

    def renew(self) -> None:
        """Release the pinned masks: the next call draws another function."""
        if self._pinned is not None:
            self._pinned.clear()

    def check_thread(self) -> None:
        """Refuse to draw for another thread than the one that it belongs to, if it belongs to one."""
        if self._owner not in (None, threading.get_ident()):
            raise RuntimeError(ELSEWHERE)

    def __call__(self, site: nn.Module, rows: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Noise of one use of a dropout module."""
        self.check_thread()
        self.was_used = True
        generator = self._generators[id(site)]
        size = (1 if self._shared else rows, *shape)
        if self._pinned is None:
            fresh = functools.partial(uniform_noise, size, dtype=dtype, generator=generator)
            return drawn_once(site.use, (rows, id(self)), fresh) if isinstance(site, ConcreteDropout) else fresh()
        # A learned mask is a draw of one weight, however often that is used; an nn.Dropout is new at every use.
        use = 0 if isinstance(site, ConcreteDropout) else next(self._uses[id(site)])
        key = (id(site), use, shape)
        if key not in self._pinned:
            self._pinned[key] = uniform_noise(size, dtype=dtype, generator=generator)
        return self._pinned[key]

    def rows(self, site: ConcreteDropout, count: int) -> Tensor:
        """Noise of the next draws of a site, shape (count, K): what as many calls would give, one for each draw."""
        dtype = torch.promote_types(site.scaled_logit.dtype, torch.float32)
        return uniform_noise((count, site.num_units), dtype=dtype, generator=self._generators[id(site)])

    def state(self) -> list[Tensor]:
        """Where the generators stand."""
        return [generator.get_state() for generator in self._streams]

    def restore(self, state: list[Tensor]) -> None:
        """Set the generators back to a state of before."""
        for generator, each in zip(self._streams, state, strict=True):
            generator.set_state(each)


def _mask_site(noise: MaskNoise, site: ConcreteDropout, rows: int) -> Tensor:
    dtype = torch.promote_types(site.scaled_logit.dtype, torch.float32)
    return noise(site, rows, (site.num_units,), dtype)


class _PlainForward:
    """Forward of an ``nn.Dropout*`` with the masks of a draw; a copy of the module has its own forward again."""

    def __init__(self, noise: MaskNoise, site: _DropoutNd) -> None:
        self.noise, self.site = noise, site

    def __call__(self, input: Tensor) -> Tensor:
        """Drop units of the input."""
        site, x = self.site, input
        batched = x.ndim > {nn.Dropout1d: 2, nn.Dropout2d: 2, nn.Dropout3d: 4}.get(type(site), 1)
        if not batched:
            x = x.unsqueeze(0)
        trailing = tuple(x.shape[1:])
        if not isinstance(site, nn.Dropout):  # whole channels
            trailing = (trailing[0],) + (1,) * (len(trailing) - 1)
        keep = sent(self.noise(site, len(x), trailing, torch.float32), x.device) >= site.p
        x = x * keep / (1 - site.p) if site.p < 1 else torch.zeros_like(x)
        return x if batched else x.squeeze(0)

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial, (type(self.site).forward, self.site)


class Stochastic(NamedTuple):
    """The modules of a model, and those that drop."""

    modules: list[nn.Module]
    learned: list[ConcreteDropout]
    plain: list[_DropoutNd]
    inside: list[nn.Module]
    """Those that cannot be given masks."""

    @classmethod
    def of(cls, model: nn.Module, *, maskless: bool) -> "Stochastic":
        """Look for them; ``maskless`` says whether dropout counts that cannot be given masks."""
        modules = list(model.modules())
        found = cls(
            modules,
            [m for m in modules if isinstance(m, ConcreteDropout)],
            [m for m in modules if isinstance(m, (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)) and m.p > 0],
            [m for m in modules if maskless and inner_dropout(m)],
        )
        if not any(found[1:]):
            raise ValueError(
                "`model` has no dropout that can be drawn, so all draws would be the same; convert it with "
                "`gumdrop.learn_dropout(model)`"
            )
        return found

    @property
    def only_learned(self) -> bool:
        """Whether learned sites are all that drops."""
        return not (self.plain or self.inside)

    def switched_on(self, noise: MaskNoise) -> Iterable[tuple[nn.Module, str, Any]]:
        """Give what the attributes of the modules are while noise makes their masks."""
        inside = set(self.inside)
        for module in self.modules:
            yield module, "training", module in inside
        for site in self.learned:
            yield site, "factor_source", bernoulli_factors(functools.partial(_mask_site, noise))
        for dropout in self.plain:
            # Not a hook: hooks of nested contexts would add up, and compiled models do not look for new ones.
            yield dropout, "forward", _PlainForward(noise, dropout)


def drawing_twin(model: nn.Module, noise: MaskNoise) -> tuple[nn.Module, list[ConcreteDropout]]:
    """Build a twin of a model whose dropout is on.

    Args:
        model: A converted model, or one with plain ``nn.Dropout*``; it stays as it is.
        noise: That of the model's masks, which serves the twin from now on.

    Returns:
        The twin, and its sites in the order of the model's.
    """
    twin = twin_of(model)
    found = Stochastic.of(twin, maskless=True)
    noise.serve([*found.learned, *found.plain])
    for module, name, value in found.switched_on(noise):
        vars(module)[name] = value
    return twin, found.learned


@contextlib.contextmanager
def _masked(model: nn.Module, seed: int | None, *, shared: bool, pinned: bool, maskless: bool) -> Iterator[None]:
    """Switch on the dropout of a model and nothing else; restore every flag and the caller's random state."""
    found = Stochastic.of(model, maskless=maskless)
    check_rates(found.learned, model)
    owner = threading.get_ident()
    noise = MaskNoise(found.learned, found.plain, seed, shared=shared, pinned=pinned, owner=owner)
    changes: list[tuple[Any, Any]] = [
        *((generator, noise.seed) for generator in Randomness.of(model)),
        (FastPath(), False),  # the fused path of transformer layers would skip their dropout
        *((Attribute(module, name), value) for module, name, value in found.switched_on(noise)),
    ]
    with switched(changes, owner):
        hook = model.register_forward_pre_hook(Restart(noise.check_thread, noise.restart))
        try:
            yield
        finally:
            hook.remove()


@contextlib.contextmanager
def sampling(model: Model, *, seed: int | None = None, shared: bool = True) -> Iterator[Model]:
    """Context in which each call of a model draws fresh Bernoulli masks.

    Dropout sites and ``nn.Dropout*`` modules are switched on and nothing else: all other modules, batch
    normalisation among them, are in eval. On leaving, every flag is as it was, and so is torch's random state.
    Dropout that a model's own code applies with ``torch.nn.functional.dropout`` is not reached.

    Args:
        model: A converted model, or one with plain ``nn.Dropout*``.
        seed: Makes the draws reproducible; different ones each time if None.
        shared: One mask for all rows of a call, rather than one for each row.

    Yields:
        The model.

    Raises:
        ValueError: If nothing in the model is stochastic.

    Example:
        >>> from gumdrop import learn_dropout
        >>> model = learn_dropout(nn.Linear(8, 1), p=0.5)
        >>> x = torch.ones(1, 8)
        >>> with sampling(model, seed=0):
        ...     bool(model(x) == model(x))
        False
    """
    with _masked(model, seed, shared=shared, pinned=False, maskless=True):
        yield model


@contextlib.contextmanager
def draw(model: Model, *, seed: int | None = None) -> Iterator[Model]:
    """Context in which a model is one function drawn from the posterior: the same masks for every input.

    A mask of an ``nn.Dropout`` belongs to one input shape and one use of the module; another shape, and a second
    use in the same pass over the model, gets a mask of its own. Dropout inside attention weights and between the
    layers of an unconverted recurrent module has no mask that can be kept, and is off.

    Args:
        model: A converted model, or one with plain ``nn.Dropout*``.
        seed: Names the function; another one each time if None.

    Yields:
        The model.

    Raises:
        ValueError: If nothing in the model has masks that can be kept.

    Example:
        >>> from gumdrop import learn_dropout
        >>> model = learn_dropout(nn.Linear(8, 1), p=0.5)
        >>> x = torch.ones(1, 8)
        >>> with draw(model, seed=0):
        ...     bool(model(x) == model(x))
        True
    """
    with _masked(model, seed, shared=True, pinned=True, maskless=False):
        yield model
