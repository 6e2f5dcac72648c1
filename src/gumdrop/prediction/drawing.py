"""Draw functions from the dropout posterior: a drawn function is a network of its own around the model's parameters."""

import contextlib
import functools
import itertools
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from gumdrop.functional.devices import sent
from gumdrop.functional.masks import dropout_scale
from gumdrop.functional.noise import uniform_noise
from gumdrop.layers import ConcreteDropout
from gumdrop.layers.attach import check_rates
from gumdrop.layers.kinds import inner_dropout
from gumdrop.layers.numbers import keep_asking
from gumdrop.layers.passes import drawn_once
from gumdrop.layers.site import bernoulli_factors, sites_of
from gumdrop.networks.learn import Model
from gumdrop.prediction.twins import twin_of

_LOCK = threading.RLock()


class OwnRandomness:
    """Default generators as one prediction sees them, for forwards that draw random numbers of their own.

    Predictions take turns with them, and the caller's state is restored after each turn. Where the first turn has drawn
    nothing, there is nothing to take turns for.
    """

    def __init__(self, model: nn.Module, seed: int) -> None:
        devices = {p.device.index for p in model.parameters() if p.device.type == "cuda"}
        self._generators = [torch.default_generator, *(torch.cuda.default_generators[i] for i in devices)]
        self._states: list[Tensor] = [torch.Generator(g.device).manual_seed(seed).get_state() for g in self._generators]
        self._is_idle = self.moved = False

    def states(self) -> list[Tensor]:
        """Where the generators stand."""
        return list(self._states)

    def restore(self, states: list[Tensor]) -> None:
        """Set them back to states of before."""
        self._states, self._is_idle = states, False

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Take a turn."""
        if self._is_idle:
            yield
            return
        with _LOCK:
            before = [generator.get_state() for generator in self._generators]
            try:
                for generator, state in zip(self._generators, self._states, strict=True):
                    generator.set_state(state)
                yield
                after = [generator.get_state() for generator in self._generators]
                self._is_idle = all(map(torch.equal, after, self._states))
                self.moved |= not self._is_idle
                self._states = after
            finally:
                for generator, state in zip(self._generators, before, strict=True):
                    generator.set_state(state)


class MaskNoise:
    """Uniform noise for the dropout of a model, from a generator for each site, so that sites do not interleave."""

    def __init__(self, count: int, seed: int | None) -> None:
        master = torch.Generator()
        self.seed = master.seed() if seed is None else seed
        master.manual_seed(self.seed)
        seeds = torch.randint(2**62, (count,), generator=master).tolist()
        self._generators = [torch.Generator().manual_seed(each) for each in seeds]

    def of(self, number: int, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        """Draw the next noise of a site, in float32 or more."""
        return uniform_noise(shape, dtype=torch.promote_types(dtype, torch.float32), generator=self._generators[number])

    def again(self, number: int, units: int, dtype: torch.dtype) -> Tensor:
        """Draw the next noise of a site, shape (1, units), which the next call for more units begins with, too."""
        generator = torch.Generator().set_state(self._generators[number].get_state())
        return uniform_noise((1, units), dtype=torch.promote_types(dtype, torch.float32), generator=generator)

    def state(self) -> list[Tensor]:
        """Where the generators stand."""
        return [generator.get_state() for generator in self._generators]

    def restore(self, state: list[Tensor]) -> None:
        """Set the generators back to a state of before."""
        for generator, each in zip(self._generators, state, strict=True):
            generator.set_state(each)


class Stochastic(NamedTuple):
    """What drops in a model."""

    learned: list[ConcreteDropout]
    plain: list[_DropoutNd]
    inside: list[nn.Module]
    """Modules that drop in code that cannot be given masks."""

    @classmethod
    def of(cls, model: nn.Module, *, maskless: bool) -> "Stochastic":
        """Look for it; ``maskless`` says whether dropout counts that cannot be given masks."""
        modules = list(model.modules())
        parts = cls(
            sites_of(model),
            [m for m in modules if isinstance(m, (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)) and m.p > 0],
            [m for m in modules if maskless and inner_dropout(m)],
        )
        if not any(parts):
            raise ValueError(
                "`model` has no dropout that can be drawn, so all draws would be the same; convert it with "
                "`gumdrop.learn_dropout(model)`"
            )
        return parts

    @property
    def num_masked(self) -> int:
        """Number of what can be given masks."""
        return len(self.learned) + len(self.plain)

    @property
    def only_learned(self) -> bool:
        """Whether learned sites are all that drops."""
        return not (self.plain or self.inside)


class _Lasting:
    """Source of the factor of a drawn function, for as many units as the site has by now."""

    def __init__(self, site: ConcreteDropout, noise: MaskNoise, number: int) -> None:
        self.draw, self.logit = functools.partial(noise.again, number), site.p_logit.detach()
        self.factor = self._drawn(site)

    def _drawn(self, site: ConcreteDropout) -> Tensor:
        noise = sent(self.draw(site.num_units, self.logit.dtype), self.logit.device)
        return dropout_scale(self.logit, noise, hard=True)

    def __call__(self, site: ConcreteDropout, x: Tensor) -> Tensor:
        """Give it, on the device of the input."""
        if self.factor.shape[1] < site.num_units:
            self.factor = self._drawn(site)
        return sent(self.factor, x.device)


def _fresh(noise: MaskNoise, number: int, shared: bool, site: ConcreteDropout, rows: int) -> Tensor:
    """Draw new noise of a site for each call, or for each pass over the model."""
    size = (1 if shared else rows, site.num_units)
    draw = functools.partial(noise.of, number, size, site.scaled_logit.dtype)
    return drawn_once(site.use, (rows, id(noise)), draw)


class PlainDrop:
    """Forward of an ``nn.Dropout*`` in a draw: a fresh mask at each call, or one for each input shape and use."""

    def __init__(self, site: _DropoutNd, noise: MaskNoise, number: int, fresh: bool, shared: bool) -> None:
        self.site, self.noise, self.number, self.fresh, self.shared = site, noise, number, fresh, shared
        self.was_used = False
        self.renew()

    def renew(self) -> None:
        """Forget the masks: the next pass is of another function."""
        self.kept: defaultdict[int, dict[tuple[int, ...], Tensor]] = defaultdict(dict)
        self.restart()

    def restart(self, *_: Any) -> None:
        """Forward pre-hook of the model: another pass begins, whose first use has the first mask."""
        self.uses: Iterator[int] = itertools.count()

    def __call__(self, input: Tensor) -> Tensor:
        """Drop units of the input."""
        self.was_used = True
        site, x = self.site, input
        batched = x.ndim > {nn.Dropout1d: 2, nn.Dropout2d: 2, nn.Dropout3d: 4}.get(type(site), 1)
        x = x if batched else x.unsqueeze(0)
        trailing = tuple(x.shape[1:])
        if not isinstance(site, nn.Dropout):  # whole channels
            trailing = (trailing[0],) + (1,) * (len(trailing) - 1)
        keep = sent(self._noise_of((1 if self.shared else len(x), *trailing)), x.device) >= site.p
        x = x * keep / (1 - site.p) if site.p < 1 else torch.zeros_like(x)
        return x if batched else x.squeeze(0)

    def _noise_of(self, shape: tuple[int, ...]) -> Tensor:
        if self.fresh:
            return self.noise.of(self.number, shape)
        kept = self.kept[next(self.uses)]
        if shape not in kept:
            kept[shape] = self.noise.of(self.number, shape)
        return kept[shape]


def draw(model: Model, *, seed: int | None = None, fresh: bool = False, shared: bool = True) -> Model:
    """Draw a function from the posterior: a network with the model's parameters, and masks of its own.

    It is in eval but for its dropout, and the model stays as it is; training the one trains the other. A mask of an
    ``nn.Dropout`` belongs to one input shape and one use of the module; another shape, and a second use in the same
    pass, gets a mask of its own. Dropout inside attention weights and between the layers of an unconverted recurrent
    module has no mask that can be kept, and is off in a function, on with ``fresh``. Dropout that a model's own code
    applies with ``torch.nn.functional.dropout`` is not reached.

    Args:
        model: A converted model, or one with plain ``nn.Dropout*``.
        seed: Names the function; another one each time if None.
        fresh: Draw new masks at each call, as for a loop of one's own over Monte Carlo samples.
        shared: One mask for all rows of a call, rather than one for each row; always so without ``fresh``.

    Returns:
        A network of the same class, to call.

    Raises:
        ValueError: If nothing in the model has masks that can be drawn.

    Example:
        >>> from gumdrop import learn_dropout
        >>> model = learn_dropout(nn.Linear(8, 1), p=0.5)
        >>> x = torch.ones(1, 8)
        >>> function, sampler = draw(model, seed=0), draw(model, seed=0, fresh=True)
        >>> bool(function(x) == function(x)), bool(sampler(x) == sampler(x))
        (True, False)
    """
    parts = Stochastic.of(model, maskless=fresh)
    check_rates(parts.learned, model)
    noise = MaskNoise(parts.num_masked, seed)
    drawn, sites, drops = switched_on(model, noise, maskless=fresh, fresh=fresh, shared=shared or not fresh)
    for number, site in enumerate(sites):
        if fresh:
            site.factor_source = bernoulli_factors(functools.partial(_fresh, noise, number, shared))
        else:
            site.factor_source = _Lasting(site, noise, number)
    for drop in drops:
        drawn.register_forward_pre_hook(drop.restart)
    if parts.inside and fresh:
        vars(drawn)["forward"] = functools.partial(
            _with_own_randomness, drawn.forward, OwnRandomness(model, noise.seed)
        )
    return drawn


def _with_own_randomness(forward: Callable[..., Any], randomness: OwnRandomness, *args: Any, **kwargs: Any) -> Any:
    with randomness.used():
        return forward(*args, **kwargs)


def switched_on(
    model: Model, noise: MaskNoise, *, maskless: bool, fresh: bool = False, shared: bool = True
) -> tuple[Model, list[ConcreteDropout], list[PlainDrop]]:
    """Build a twin of a model whose plain dropout is on, and whose sites wait for their factors."""
    twin = twin_of(model)
    parts = Stochastic.of(twin, maskless=maskless)
    first = len(parts.learned)
    drops = [PlainDrop(plain, noise, first + i, fresh, shared) for i, plain in enumerate(parts.plain)]
    for drop in drops:
        vars(drop.site)["forward"] = drop
    for module in parts.inside:
        module.training = True
    keep_asking(twin)
    return cast(Model, twin), parts.learned, drops
