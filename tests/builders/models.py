"""Models that many tests convert, and all that a context could leave behind in one."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import gumdrop as gd
from gumdrop.layers import ConcreteDropout


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.rnn, self.head = nn.Embedding(11, 3), nn.GRU(3, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.rnn(self.embedding(tokens))[0][:, -1])


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.encoder(self.embedding(tokens)).mean(1))


def report_of(model: nn.Module, **options: Any) -> Any:
    """Convert a model and return what was reported."""
    reports: list[Any] = []
    gd.learn_dropout(model, report=reports.append, **options)
    (report,) = reports
    return report


def converted(model: nn.Module, **options: Any) -> nn.Module:
    return gd.learn_dropout(model, p=0.3, **options)


def dense() -> nn.Module:
    return converted(
        nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 2))
    )


def data(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(5))


def mixed_model() -> nn.Sequential:
    """Learned and plain dropout and batch normalisation, with flags of all kinds."""
    model = gd.learn_dropout(
        nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Tanh(), nn.Linear(8, 2)), p=0.4
    )
    model.train()
    model[0].eval()
    model[3].eval()
    return model


def fingerprint(model: nn.Module) -> Any:
    """All that a context could leave behind."""
    return {
        "flags": [module.training for module in model.modules()],
        "forwards": [vars(module).get("forward") for module in model.modules()],
        "hooks": [
            (len(module._forward_hooks), len(module._forward_pre_hooks), len(module._backward_hooks))
            for module in model.modules()
        ],
        "sources": [module.factor_source for module in model.modules() if isinstance(module, ConcreteDropout)],
        "state": {name: value.tolist() for name, value in model.state_dict().items()},
        "grad": torch.is_grad_enabled(),
        "fast path": torch.backends.mha.get_fastpath_enabled(),
        "torch": torch.get_rng_state().tolist(),
        "numpy": [np.asarray(part).tolist() for part in np.random.get_state()],
        "python": random.getstate(),
    }


class Computed(nn.Module):
    """What is computed with a model, as a module: its parameters can be given with `functional_call`."""

    def __init__(self, model: nn.Module, compute: Callable[[nn.Module], Tensor]) -> None:
        super().__init__()
        self.model, self.compute = model, compute

    def forward(self) -> Tensor:
        return self.compute(self.model)
