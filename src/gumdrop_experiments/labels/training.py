"""Training on the labels that there are, as the source has it: until held-out digits are told no better."""

import copy

import torch
from torch import nn

from gumdrop import parameter_groups
from gumdrop_experiments.data.mnist import DigitImages
from gumdrop_experiments.training import step_on_digits

BATCH_SIZE, LR = 64, 1e-3
MOST_EPOCHS, PATIENCE = 30, 3


def train(
    model: nn.Module, known: DigitImages, held_out: DigitImages, *, learned: bool, epoch_images: int, seed: int
) -> int:
    """Train a network in place by Adam, and leave it with the parameters of its best epoch."""
    groups = parameter_groups(model) if learned else [{"params": list(model.parameters())}]
    optimizer = torch.optim.Adam(groups, lr=LR)
    best, kept, waited, epoch = -1.0, copy.deepcopy(model.state_dict()), 0, 0
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        while epoch < MOST_EPOCHS and waited < PATIENCE:
            epoch += 1
            orders = [torch.randperm(len(known.labels)) for _ in range(-(-epoch_images // len(known.labels)))]
            for rows in torch.cat(orders)[:epoch_images].split(BATCH_SIZE):
                step_on_digits(model.train(), optimizer, known, rows, learned=learned)
            right = _accuracy(model.eval(), held_out)
            waited += 1
            if right > best:
                best, kept, waited = right, copy.deepcopy(model.state_dict()), 0
    model.load_state_dict(kept)
    return epoch


@torch.no_grad()
def _accuracy(model: nn.Module, digits: DigitImages) -> float:
    return (model(digits.images).argmax(1) == digits.labels).double().mean().item()
