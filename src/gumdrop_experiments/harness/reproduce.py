"""The one way that experiments are run: settings, then the study, its figures, and its page."""

import dataclasses
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gumdrop_experiments.harness.plain import WithPictures
from gumdrop_experiments.harness.settings import BaseSettings, RunOptions


def reproduce(package: str, options: RunOptions, settings: BaseSettings) -> Path:
    """Run an experiment."""
    from gumdrop.machine.threads import limited_threads  # torch, which `--help` does not wait for
    from gumdrop_experiments.harness.run import Run

    study, page = (import_module(f"{package}.{part}") for part in ("study", "page"))
    settings = settings.for_run(options)
    name, threads = package.rpartition(".")[2], import_module(package).ABOUT.threads
    with Run(name, options, settings.recorded()) as run, limited_threads(threads):
        outcome = study.study(settings, run)
        return run.finish(outcome.results if isinstance(outcome, WithPictures) else outcome, page.page(outcome))


def command(package: str) -> Callable[..., None]:
    """Make the command of an experiment, whose flags are those that all share and the fields of its settings."""
    its_settings: type[BaseSettings] = getattr(import_module(package), "Settings", BaseSettings)
    as_published = its_settings()

    def run(options: RunOptions = RunOptions(), *, settings: BaseSettings = as_published) -> None:
        reproduce(package, options, settings)

    has_flags = bool(dataclasses.fields(its_settings))
    run.__annotations__["settings"] = Annotated[its_settings, Parameter(name="*", parse=has_flags)]
    shows = import_module(package).ABOUT.shows
    run.__doc__ = f"{shows[0].upper()}{shows[1:]}."
    return run
