"""The progress bar."""

import contextlib
from collections.abc import Callable, Iterator

from gumdrop.training.records import EpochRecord

__all__ = ["progress_bar"]


@contextlib.contextmanager
def progress_bar(show: bool | str, epochs: int, done: int) -> Iterator[Callable[[EpochRecord], None]]:
    """Show the progress of a run."""
    if not show:
        yield lambda record: None
        return
    from tqdm.auto import tqdm

    title = show if isinstance(show, str) else None
    with tqdm(total=epochs, initial=done, unit="epoch", desc=title, disable=None) as bar:

        def advance(record: EpochRecord) -> None:
            parts = {"nll": record.nll, "kl": record.kl, "held-out": record.validation_nll}
            bar.set_postfix({name: f"{value:.3f}" for name, value in parts.items() if value is not None}, refresh=False)
            bar.update()

        yield advance
