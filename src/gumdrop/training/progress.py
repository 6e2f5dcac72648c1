"""The progress bar: one for a training, or one for several that follow each other."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gumdrop.training.records import EpochRecord


@dataclass(frozen=True)
class Part:
    """A stretch of a bar that several trainings share."""

    bar: Any
    """The bar, from 0 to 1."""
    title: str
    """What goes on."""
    start: float
    """Where the stretch begins."""
    share: float
    """How long it is."""


Show = bool | str | Part
"""Whether to show a bar, the text in front of it, or the stretch of another bar to fill."""


def part_of(show: Show, title: str, number: int, count: int) -> Show:
    """What to show of one of several trainings, numbered from 1: a bar of its own, or a part of the one there is."""
    said = f"{title} {number} of {count}"
    if not isinstance(show, Part):
        return show and said
    share = show.share / count
    return replace(show, title=said, start=show.start + (number - 1) * share, share=share)


@contextlib.contextmanager
def shared_bar(show: bool, weights: Mapping[str, float]) -> Iterator[Callable[[str], Show]]:
    """Show one bar, with the time left, for trainings that follow each other, by title and about how long each is."""
    if not show:
        yield lambda title: False
        return
    from tqdm.auto import tqdm

    total = sum(weights.values())
    starts = {title: sum(list(weights.values())[:i]) / total for i, title in enumerate(weights)}
    form = "{desc} {percentage:3.0f} %|{bar}| {elapsed}, {remaining} left"
    with tqdm(total=1.0, smoothing=0, bar_format=form, disable=None, mininterval=0.2) as bar:

        def part(title: str) -> Part:
            _move(bar, starts[title], title)
            return Part(bar, title, starts[title], weights[title] / total)

        yield part
        _move(bar, 1.0, "done")


@contextlib.contextmanager
def progress_bar(show: Show, epochs: int, done: int) -> Iterator[Callable[[EpochRecord], None]]:
    """Show the progress of a run."""
    if not show:
        yield lambda record: None
        return
    if isinstance(show, Part):
        try:
            yield lambda record: _move(show.bar, show.start + show.share * record.epoch / epochs, show.title)
        except BaseException:
            show.bar.clear()  # for what is said of it
            raise
        return
    from tqdm.auto import tqdm

    title = show if isinstance(show, str) else None
    with tqdm(total=epochs, initial=done, unit="epoch", desc=title, disable=None) as bar:

        def advance(record: EpochRecord) -> None:
            parts = {"nll": record.nll, "kl": record.kl, "held-out": record.validation_nll}
            bar.set_postfix({name: f"{value:.3f}" for name, value in parts.items() if value is not None}, refresh=False)
            bar.update()

        yield advance


def _move(bar: Any, position: float, title: str) -> None:
    bar.set_description_str(title, refresh=False)
    bar.update(position - bar.n)
