"""The flags of `tuning`."""

from dataclasses import dataclass

from gumdrop_experiments.harness.settings import BaseSettings


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """No flags of its own."""
