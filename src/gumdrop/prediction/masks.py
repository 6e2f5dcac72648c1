"""Draw functions from the dropout posterior: switch on the dropout of a model and nothing else."""

import contextlib
import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from gumdrop.functional import uniform_noise
from gumdrop.layers import ConcreteDropout

__all__ = ["Inputs", "draw", "draws", "sample", "sampling"]

Model = TypeVar("Model", bound=nn.Module)
Inputs = Tensor | tuple[Tensor, ...] | Mapping[str, Tensor]


class _MaskNoise:
    """Noise for the dropout of a model, from one generator for each site, so that sites do not interleave."""

    def __init__(self, sites: list[nn.Module], seed: int | None, *, shared: bool, pinned: bool) -> None:
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


def _mask_site(noise: _MaskNoise, site: ConcreteDropout, rows: int) -> Tensor:
    dtype = torch.promote_types(site.p_logit.dtype, torch.float32)
    return noise(site, rows, (site.num_units,), dtype)


def _drop(noise: _MaskNoise, site: _DropoutNd, input: Tensor) -> Tensor:
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
def _masked(
    model: nn.Module, seed: int | None, *, shared: bool, pinned: bool, maskless: bool = True
) -> Iterator[_MaskNoise]:
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
    noise = _MaskNoise([*learned, *plain], seed, shared=shared, pinned=pinned)
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
    with _masked(model, seed, shared=shared, pinned=False):
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


def _rows(x: Inputs) -> list[Tensor]:
    rows = [x] if isinstance(x, Tensor) else list(x.values()) if isinstance(x, Mapping) else list(x)
    strange = [type(value).__name__ for value in rows if not isinstance(value, Tensor)]
    if strange:
        raise TypeError(f"`x` must be a tensor, or a tuple or mapping of tensors, got {strange[0]} in it")
    return rows


def _call(model: nn.Module, x: Inputs, rows: slice) -> Any:
    if isinstance(x, Tensor):
        return model(x[rows])
    if isinstance(x, Mapping):
        return model(**{name: value[rows] for name, value in x.items()})
    return model(*(value[rows] for value in x))


def draws(
    model: nn.Module,
    x: Inputs,
    num_samples: int,
    seed: int | None,
    batch_size: int | None,
    output: Callable[[Any], Tensor] | None,
) -> Iterator[Tensor]:
    """Evaluate functions drawn from the posterior, one after the other.

    Args:
        model: See `sample`, like all that follow.
        x: See there.
        num_samples: See there.
        seed: See there.
        batch_size: See there.
        output: See there.

    Yields:
        The output of one function for all rows, shape (N, ...).

    Raises:
        ValueError: See there.
        TypeError: See there.
    """
    if num_samples < 1:
        raise ValueError(f"`num_samples` must be at least 1, got {num_samples}")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"`batch_size` must be at least 1, got {batch_size}; None takes all rows at once")
    lengths = {len(value) for value in _rows(x)}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"`x` must hold tensors with the same number of rows, at least 1, got {sorted(lengths)}")
    (length,) = lengths
    step = batch_size or length
    with torch.no_grad(), _masked(model, seed, shared=True, pinned=True) as noise:
        for _ in range(num_samples):
            parts = []
            for start in range(0, length, step):
                result = _call(model, x, slice(start, start + step))
                result = result if output is None else output(result)
                if not isinstance(result, Tensor):
                    raise TypeError(
                        f"the model returned a {type(result).__name__}; pass `output`, a function that takes the "
                        "tensor out of it, as in output=lambda result: result.logits"
                    )
                parts.append(result)
            yield parts[0] if len(parts) == 1 else torch.cat(parts)
            noise.renew()


def sample(
    model: nn.Module,
    x: Inputs,
    *,
    num_samples: int = 100,
    seed: int | None = None,
    batch_size: int | None = None,
    output: Callable[[Any], Tensor] | None = None,
) -> Tensor:
    """Evaluate functions drawn from the posterior.

    Args:
        model: A converted model, or one with plain ``nn.Dropout*``.
        x: Input with rows in dimension 0; a tuple or mapping of tensors is passed as arguments.
        num_samples: Number of functions, S.
        seed: Same seed, same functions.
        batch_size: Rows that run at once, which bounds memory; all if None. It does not change the
            result, save for dropout without masks (see `docs/gotchas.md`).
        output: Takes the output tensor out of what the model returns.

    Returns:
        Outputs, shape (S, N, ...).

    Raises:
        ValueError: If a number is out of range, ``x`` has no rows, or nothing in the model is stochastic.
        TypeError: If ``x`` holds something else than tensors, or the model does not return a tensor and ``output``
            is None.
    """
    return torch.stack(list(draws(model, x, num_samples, seed, batch_size, output)))
