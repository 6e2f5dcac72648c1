"""FIDO: explain predictions by learning which parts of an input suffice and which destroy."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.attribution.explanation import Explanation, Region
from gumdrop.attribution.infills import Infill, draw_infill, make_infill
from gumdrop.attribution.masks import Layout, LayoutName, find_layout
from gumdrop.attribution.search import FIDOSettings, Found, Search, Task, random_streams
from gumdrop.attribution.targets import Score, Target, call, find_target, log_odds, score_of


class FIDO:
    r"""Explain predictions by the smallest region that suffices (SSR) and the smallest that destroys (SDR).

    Two maps of drop logits are learned for each input, by gradients through relaxed Bernoulli masks ``z``:

    .. math:: \min\; E\big[s(z_\text{sdr} x + (1 - z_\text{sdr}) \tilde x)
              - s(z_\text{ssr} x + (1 - z_\text{ssr}) \tilde x)\big]
              + \frac{\lambda_1}{2} \sum \big((1 - p_\text{ssr}) + p_\text{sdr}\big)
              + \lambda_\text{tv} \big(\mathrm{TV}(p_\text{ssr}) + \mathrm{TV}(p_\text{sdr})\big)

    with the log-odds ``s`` of the target and an infill :math:`\tilde x` in place of what is dropped. All inputs are
    searched for at once. The noise is the same for each, so an input's masks depend on the seed and on nothing else
    in its batch.

    The interface is Captum's: ``attribute(inputs, target=...)`` gives attributions of the shape of the inputs, so
    that ``captum.attr.NoiseTunnel``, Captum's metrics and its visualisation take this class like their own. Captum
    itself is not needed. Neither the model's parameters and their gradients nor its flags are touched.

    Args:
        forward_func: The model, in eval mode, or any function of a batch that gives logits, shape (N, C), or one
            logit a row.
        settings: How masks are searched for.
        score: What the target is worth: a function of output and target, that gives one number a row;
            `log_odds` by default.

    References:
        Chang et al. 2019, "Explaining image classifiers by counterfactual generation" (arXiv:1807.08024).
        Korsch, Shadaydeh & Denzler 2023, "Simplified Concrete Dropout" (arXiv:2307.14825).

    Example:
        >>> def left_half(images):
        ...     return images[..., :4].flatten(1).sum(1) - 5
        >>> explanation = FIDO(left_half, FIDOSettings(iterations=50)).explain(torch.ones(1, 1, 8, 8), infill="zeros")
        >>> explanation.boxes()
        tensor([[0, 0, 8, 4]])
    """

    def __init__(
        self,
        forward_func: Callable[..., Any],
        settings: FIDOSettings | None = None,
        *,
        score: Score = log_odds,
    ) -> None:
        self.forward_func = forward_func
        self.settings = FIDOSettings() if settings is None else settings
        self.score = score

    @property
    def multiplies_by_inputs(self) -> bool:
        """Part of Captum's interface: attributions say where evidence is, not how much it adds."""
        return False

    def has_convergence_delta(self) -> bool:
        """Part of Captum's interface: attributions do not sum to a difference of outputs."""
        return False

    @classmethod
    def get_name(cls) -> str:
        """Part of Captum's interface: what to call the method in a figure."""
        return "FIDO"

    @torch.no_grad()  # also gives the attribute `__wrapped__`, by which Captum's NoiseTunnel calls a method
    def attribute(
        self,
        inputs: Tensor | tuple[Tensor, ...],
        target: Target = None,
        *,
        region: Region = "joint",
        **options: Any,
    ) -> Any:
        """Attributions in the shape of the inputs, as Captum's methods give them; see `explain` and `relevance`.

        Args:
            inputs: As for `explain`; or a tuple of one tensor, as Captum's metrics pass it.
            target: As for `explain`.
            region: As for `Explanation.relevance`.
            options: As for `explain`.

        Returns:
            A tensor, or a tuple of one.

        Raises:
            ValueError: As `explain`.
            TypeError: As `explain`; or if ``inputs`` is a tuple of several.
        """
        if isinstance(inputs, tuple):
            if len(inputs) != 1:
                raise TypeError(f"`inputs` must be one tensor, or a tuple of one, got a tuple of {len(inputs)}")
            return (self.attribute(inputs[0], target, region=region, **options),)
        return self.explain(inputs, target, **options).relevance(region).expand_as(inputs).contiguous()

    def explain(
        self,
        inputs: Tensor,
        target: Target = None,
        *,
        additional_forward_args: Any = None,
        layout: LayoutName | None = None,
        infill: Infill | None = None,
        mask_size: int | Sequence[int] | None = None,
        chunk_size: int = 256,
        seed: int = 0,
        show_progress: bool = False,
    ) -> Explanation:
        """Search for the masks of a batch of inputs.

        Args:
            inputs: Shape (N, C, H, W), (N, C, L), (N, T, E) or (N, D), on the model's device.
            target: The class to explain, one for all inputs or one for each; None takes the class that the model
                predicts, or its only output.
            additional_forward_args: Further arguments of the model, one or a tuple. Tensors hold one row for each
                input.
            layout: ``"image"``, ``"signal"``, ``"tabular"``, which are guessed from the number of dimensions, or
                ``"tokens"`` for embeddings (N, T, E).
            infill: What stands where a mask drops: ``"blur"``, ``"mean"``, ``"zeros"``, ``"uniform"``,
                ``"normal"``, ``"local_shuffle"``, a number, a tensor that broadcasts to the inputs, or a callable
                of inputs and a ``torch.Generator``. Blur by default, zeros in tables.
            mask_size: Places of a coarser mask along each dimension, which is up-sampled; that of the input if None.
            chunk_size: Rows that go through the model at once, at least 2, which bounds memory. It does not
                change the result.
            seed: Same seed, same masks.
            show_progress: Show a bar.

        Returns:
            The masks and what belongs to them.

        Raises:
            ValueError: If the inputs are not finite or of no known shape, the target is out of range, the model is
                in train mode, or its output is not finite, constant, or without a gradient.
            TypeError: If ``inputs`` is not a floating tensor, or the model does not return a tensor.
        """
        _check_inputs(inputs, chunk_size)
        _check_mode(self.forward_func)
        known = find_layout(inputs, layout)
        cells = _cells(mask_size, known, inputs)
        extra = _extra(additional_forward_args, len(inputs))
        # The search needs gradients, which neither inference mode nor a tensor that was made in it has.
        with torch.inference_mode(False), torch.no_grad():
            inputs = inputs.clone() if inputs.is_inference() else inputs.detach()
            fill = make_infill(infill, inputs, known)
            output = self._outputs(inputs, extra, chunk_size)
            classes = find_target(output, target)
            shown = draw_infill(fill, inputs, random_streams(seed)[1])
            score = score_of(self.score, output, classes)
            score_infill = score_of(self.score, self._outputs(shown, extra, chunk_size), classes)
            task = Task(inputs, fill, classes, score, score_infill, extra, known, cells)
            return _explanation(task, shown, self._find(task, seed, chunk_size, show_progress))

    def _outputs(self, inputs: Tensor, extra: tuple[Any, ...], chunk_size: int) -> Tensor:
        rows = torch.arange(len(inputs), device=inputs.device).split(chunk_size)
        return torch.cat([call(self.forward_func, inputs[part], extra, part) for part in rows])

    def _find(self, task: Task, seed: int, chunk_size: int, show_progress: bool) -> Found:
        """Search group by group, as many inputs at once as fit into a chunk."""
        search = Search(self.forward_func, self.score, self.settings, chunk_size=chunk_size)
        rows = torch.arange(len(task.inputs), device=task.inputs.device)
        groups = rows.split(max(1, chunk_size // (2 * self.settings.num_samples)))
        with _bar(show_progress, len(groups) * self.settings.iterations) as advance:
            results = [search(task[group], seed=seed, rows=group, advance=advance) for group in groups]
        return Found(*(torch.cat(parts, dim=-1) for parts in zip(*results, strict=True)))


def _explanation(task: Task, infill: Tensor, result: Found) -> Explanation:
    grid = task.layout.grid(task.inputs)
    keep = [task.layout.spread(torch.sigmoid(-logit.movedim(-1, 0)), grid) for logit in result.p_logit]
    return Explanation(
        inputs=task.inputs,
        infill=infill,
        target=task.target,
        keep_ssr=keep[0].to(task.inputs.dtype),
        keep_sdr=keep[1].to(task.inputs.dtype),
        score=task.score,
        score_infill=task.score_infill,
        curve_ssr=result.curves[0],
        curve_sdr=result.curves[1],
        iterations=result.steps,
        layout=task.layout,
    )


def _check_inputs(inputs: Tensor, chunk_size: int) -> None:
    if not isinstance(inputs, Tensor) or not inputs.is_floating_point():
        kind = inputs.dtype if isinstance(inputs, Tensor) else type(inputs).__name__
        raise TypeError(
            f"`inputs` must be one floating tensor, got {kind}; embed tokens first, and pass what is not explained "
            "as `additional_forward_args`"
        )
    if inputs.numel() == 0:
        raise ValueError(f"`inputs` must hold at least one example, got shape {tuple(inputs.shape)}")
    if not inputs.isfinite().all():
        rows = (~inputs.isfinite()).flatten(1).any(dim=1).nonzero().flatten().tolist() if inputs.ndim > 1 else []
        raise ValueError(f"`inputs` must be finite, got NaN or infinity in rows {rows}")
    if chunk_size < 2:
        raise ValueError(f"`chunk_size` must be at least 2, a row for each of the two masks, got {chunk_size}")


def _check_mode(forward_func: Callable[..., Any]) -> None:
    if not isinstance(forward_func, nn.Module):
        return
    training = [name or "the model itself" for name, module in forward_func.named_modules() if module.training]
    if training:
        raise ValueError(
            f"`forward_func` is in train mode ({training[0]}), so its predictions are random or its statistics would "
            "change; call model.eval() first"
        )


def _extra(value: Any, count: int) -> tuple[Any, ...]:
    extra = () if value is None else value if isinstance(value, tuple) else (value,)
    for part in extra:
        if isinstance(part, Tensor) and part.ndim and len(part) != count:
            raise ValueError(
                f"a tensor in `additional_forward_args` must have one row for each of {count} inputs, got shape "
                f"{tuple(part.shape)}; wrap the model if it takes something else"
            )
    return extra


def _cells(mask_size: int | Sequence[int] | None, layout: Layout, inputs: Tensor) -> tuple[int, ...]:
    grid = layout.grid(inputs)
    if mask_size is None:
        return grid
    cells = (mask_size,) * len(grid) if isinstance(mask_size, int) else tuple(mask_size)
    if not layout.ordered:
        raise ValueError("`mask_size` must be None for a table: its columns have no order")
    if len(cells) != len(grid) or any(not 1 <= cell <= size for cell, size in zip(cells, grid, strict=False)):
        raise ValueError(
            f"`mask_size` must be {len(grid)} numbers from 1 to the size of the input, {grid}, got {cells}"
        )
    return cells


@contextlib.contextmanager
def _bar(show: bool, total: int) -> Iterator[Callable[[], None]]:
    if not show:
        yield lambda: None
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, unit="step", desc="FIDO", disable=None) as bar:
        yield lambda: bar.update() and None
