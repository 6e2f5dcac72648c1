"""Where an experiment finds its data."""

from collections.abc import Sequence
from pathlib import Path

from gumdrop_experiments.data.download import RemoteFile, cache_folder, fetch
from gumdrop_experiments.harness.settings import RunOptions, known


def sets_of(options: RunOptions, name: str, given: Sequence[str]) -> tuple[str, ...]:
    """Take the sets that were named, or all, of a data set with a folder for each."""
    folders = sorted(path.name for path in data_folder(options, name).iterdir() if path.is_dir())
    return known("set", given, folders) or tuple(folders)


def data_folder(
    options: RunOptions, name: str, *, files: Sequence[str] = (), sources: Sequence[RemoteFile] = ()
) -> Path:
    """Find the folder of a data set: under ``options.data``, or without it in the user's cache."""
    cache = cache_folder()
    folder = (options.data or cache) / name
    if options.data is None:
        fetch(sources, folder)
    if not folder.is_dir():
        given = f"{options.data} has no folder {name!r}" if options.data else f"the data set {name!r} is not in {cache}"
        raise FileNotFoundError(f"{given}; put its files into {folder}, or give the folder above it with --data")
    for file in files:
        if not (folder / file).is_file():
            raise FileNotFoundError(f"{folder} lacks the file {file}; put it there, or correct --data")
    return folder
