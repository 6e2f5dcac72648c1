"""Draw functions from the dropout posterior: switch on the dropout of a model and nothing else."""

import contextlib
import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from gumdrop.functional import uniform_noise
from gumdrop.layers import ConcreteDropout, check_rates

__all__ = ["MaskNoise", "draw", "masked", "sampling"]

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
        only_learned: bool,
    ) -> None:
        self.only_learned = only_learned
        sites = [*learned, *plain]
        master = torch.Generator()
        self.seed = master.seed() if seed is None else seed
        master.manual_seed(self.seed)
        seeds = torch.randint(2**62, (len(sites),), generator=master).tolist()
        self._generators = {id(site): torch.Generator().manual_seed(s) for site, s in zip(sites, seeds, strict=True)}
        self._shared = shared
        self._pinned: dict[tuple[int, int, tuple[int, ...]], Tensor] | None = {} if pinned else None
        self._uses: defaultdict[int, Iterator[int]] = defaultdict(itertools.count)

    def restart(self) -> None:
        """Count the uses of each ``nn.Dropout`` from 0 again: another pass over the model begins."""
        self._uses.clear()

    def renew(self) -> None:
        """Release the pinned masks: the next call draws another function."""
        if self._pinned is not None:
            self._pinned.clear()

    def __call__(self, site: nn.Module, rows: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Noise of one use of a dropout module."""
        generator = self._generators[id(site)]
        size = (1 if self._shared else rows, *shape)
        if self._pinned is None:
            return uniform_noise(size, dtype=dtype, generator=generator)
        # A learned mask is a draw of one weight, however often that is used; an nn.Dropout is new at every use.
        use = 0 if isinstance(site, ConcreteDropout) else next(self._uses[id(site)])
        key = (id(site), use, shape)
        if key not in self._pinned:
            self._pinned[key] = uniform_noise(size, dtype=dtype, generator=generator)
        return self._pinned[key]

    def rows(self, site: ConcreteDropout, count: int) -> Tensor:
        """Noise of the next draws of a site, shape (count, K): what as many calls would give, one for each draw."""
        dtype = torch.promote_types(site.p_logit.dtype, torch.float32)
        return uniform_noise((count, site.num_units), dtype=dtype, generator=self._generators[id(site)])

    def state(self) -> list[Tensor]:
        """Where the generators stand."""
        return [generator.get_state() for generator in self._generators.values()]

    def restore(self, state: list[Tensor]) -> None:
        """Set the generators back to a state of before."""
        for generator, each in zip(self._generators.values(), state, strict=True):
            generator.set_state(each)


def _mask_site(noise: MaskNoise, site: ConcreteDropout, rows: int) -> Tensor:
    dtype = torch.promote_types(site.p_logit.dtype, torch.float32)
    return noise(site, rows, (site.num_units,), dtype)


def _drop(noise: MaskNoise, site: _DropoutNd, input: Tensor) -> Tensor:
    """Forward of an ``nn.Dropout*`` with the masks of a draw."""
    x = input
    batched = x.ndim > {nn.Dropout1d: 2, nn.Dropout2d: 2, nn.Dropout3d: 4}.get(type(site), 1)
    if not batched:
        x = x.unsqueeze(0)
    trailing = tuple(x.shape[1:])
    if not isinstance(site, nn.Dropout):  # whole channels
        trailing = (trailing[0],) + (1,) * (len(trailing) - 1)
    keep = noise(site, len(x), trailing, torch.float32).to(x.device) >= site.p
    x = x * keep / (1 - site.p) if site.p < 1 else torch.zeros_like(x)
    return x if batched else x.squeeze(0)


def _has_dropout_inside(module: nn.Module) -> bool:
    """Tell whether a module drops by a flag of its own, in code that cannot be given masks."""
    if isinstance(module, (nn.AlphaDropout, nn.FeatureAlphaDropout)):
        return module.p > 0
    if isinstance(module, nn.MultiheadAttention):
        return module.dropout > 0
    return isinstance(module, nn.RNNBase) and module.dropout > 0 and module.num_layers > 1


def _restore_forward(module: nn.Module, forward: Callable[..., Any] | None) -> None:
    """Undo a forward of the instance; it had one of its own, or None."""
    if forward is None:
        del vars(module)["forward"]
    else:
        vars(module)["forward"] = forward


@contextlib.contextmanager
def masked(
    model: nn.Module, seed: int | None, *, shared: bool, pinned: bool, maskless: bool = True
) -> Iterator[MaskNoise]:
    """Switch on the dropout of a model and nothing else; restore every flag and the caller's random state."""
    modules = list(model.modules())
    learned = [m for m in modules if isinstance(m, ConcreteDropout)]
    plain = [m for m in modules if isinstance(m, (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)) and m.p > 0]
    inside = [m for m in modules if maskless and _has_dropout_inside(m)]  # cannot be given masks
    if not (learned or plain or inside):
        raise ValueError(
            "`model` has no dropout that can be drawn, so all draws would be the same; convert it with "
            "`gumdrop.learn_dropout(model)`"
        )
    check_rates(learned, model)
    noise = MaskNoise(learned, plain, seed, shared=shared, pinned=pinned, only_learned=not (plain or inside))
    flags = [(module, module.training) for module in modules]
    sources = [(site, site.noise_source) for site in learned]
    fast_path = torch.backends.mha.get_fastpath_enabled()
    devices = {p.device for p in model.parameters() if p.device.type == "cuda"}
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[d.index for d in devices]))
        # torch.manual_seed would also seed the devices that are not restored.
        torch.default_generator.manual_seed(noise.seed)
        for device in devices:
            torch.cuda.default_generators[device.index].manual_seed(noise.seed)
        # The fused path of transformer layers would skip their dropout.
        torch.backends.mha.set_fastpath_enabled(False)
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast_path)
        for module, flag in flags:
            stack.callback(setattr, module, "training", flag)
            module.training = module in inside
        for site, source in sources:
            stack.callback(setattr, site, "noise_source", source)
            site.noise_source = functools.partial(_mask_site, noise)
        for dropout in plain:
            # Not a hook: hooks of nested contexts would add up, and compiled models do not look for new ones.
            stack.callback(_restore_forward, dropout, vars(dropout).get("forward"))
            vars(dropout)["forward"] = functools.partial(_drop, noise, dropout)
        stack.callback(model.register_forward_pre_hook(lambda module, args: noise.restart()).remove)
        yield noise


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
    with masked(model, seed, shared=shared, pinned=False):
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
    with masked(model, seed, shared=True, pinned=True, maskless=False):
        yield model
