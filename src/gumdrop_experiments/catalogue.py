"""What experiments there are: their packages, and what there is to say of each before it is run."""

from importlib import import_module

from gumdrop_experiments.harness import About

NAMES = (
    "line", "uci", "tuning", "tables", "rivals", "gaps", "survival", "targets", "rates", "rows", "starts",
    "injected", "guarantee", "surrogate", "decisions", "labels", "attribution", "pairs", "gradients",
    "transformers", "lora", "mnist", "shift", "regularisation", "rotation", "co2", "cartpole", "camvid",
    "g2p", "sentiment",
)  # fmt: skip


def package_of(name: str) -> str:
    """Return the package of an experiment, for `import`."""
    return f"gumdrop_experiments.{name}"


EXPERIMENTS: dict[str, About] = {name: import_module(package_of(name)).ABOUT for name in NAMES}
"""All of them by name, in the order of the list."""
