"""What the tests of training on several processes run: alone in the test, and as a script of two processes."""

import functools
import importlib
import os
import signal
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import gumdrop as gd
from gumdrop.functional import concrete_dropout
from gumdrop.layers import ConcreteDropout
from gumdrop.likelihoods import LIKELIHOODS
from gumdrop.networks import mlp
from gumdrop.training import fit, processes, state

from builders.processes import fork

NUM_ROWS, BATCH = 101, 32  # 101 = 3 * 32 + 5: the last batch leaves one of four processes two rows, the others one


def data(num_rows=NUM_ROWS):
    """Rows whose last column is their number."""
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(num_rows, 3, generator=generator) * 4 - 2
    y = torch.sin(x[:, :1]) + 0.1 * torch.randn(num_rows, 1, generator=generator)
    return torch.cat([x, torch.arange(num_rows).unsqueeze(1)], 1), y


class Numbered(nn.Module):
    """A network whose masks in training follow from the numbers of the rows alone."""

    def __init__(self, supplied=True):
        super().__init__()
        self.inner = network()
        self.noise = torch.rand(NUM_ROWS, 16, generator=torch.Generator().manual_seed(2)).clamp(0.001, 0.999)
        for site in self.modules():
            if supplied and isinstance(site, ConcreteDropout):
                site.forward = functools.partial(self.dropped, site)

    def dropped(self, site, x):
        if site.is_hard or not site.is_active:
            return type(site).forward(site, x)
        noise = self.noise[self.numbers, : site.num_units]
        return concrete_dropout(x, site.p_logit, temperature=site.temperature, noise=noise)

    def forward(self, x):
        self.numbers = x[:, 3].long()
        return self.inner(x[:, :3])


class Paired(Numbered):
    """The same, of two inputs."""

    def forward(self, point, number):
        return super().forward(torch.cat([point, number], 1))


def named(x):
    return {"point": x[:, :3], "number": x[:, 3:]}


def network(hidden=(16, 16), **options):
    """The same on each process that is the first, and another one on the others, which must not matter."""
    torch.manual_seed(0)
    model = mlp(3, 2, hidden=hidden, **options)
    if processes.process_group().rank:
        for parameter in model.parameters():
            parameter.data.add_(1.0)
    return model


def outcome(model, result):
    weights = processes.gathered({name: value.detach() for name, value in model.state_dict().items()})
    return {
        "weights": {name: value.clone() for name, value in weights.items() if not name.endswith("noise")},
        "history": [(record.nll, record.kl, record.validation_nll) for record in result.history],
        "rates": result.history[-1].rates,
    }


def trained(model=None, train=None, epochs=4, **options):
    model = model or Numbered()
    settings = {"likelihood": "gaussian", "epochs": epochs, "batch_size": BATCH, "lr": 1e-2} | options
    return outcome(model, fit(model, train or data(), **settings))


def blocks_sharded():
    """Layer by layer where there are several processes, and then the whole."""
    model = Numbered()
    processes.shard(model.inner[2])
    return processes.shard(model)


class Stream(IterableDataset):
    """Gives each process batches of its own, and the first process the fewest."""

    def __iter__(self):
        group = processes.process_group()
        x, y = data()
        for start in range(0, NUM_ROWS, BATCH):
            rows = torch.arange(start, min(start + BATCH, NUM_ROWS))
            share = rows if group.world_size == 1 else rows.tensor_split(group.world_size)[group.rank]
            if group.world_size > 1 and start == 96 and group.rank == 0:
                return
            if group.world_size > 1 and start == 96 and group.rank == 1:
                share = rows
            if group.world_size == 1 or group.rank < 2 or start < 96:
                yield x[share], y[share]

    def __len__(self):
        return 4


def shuffled():
    """A loader that nobody seeds."""
    return DataLoader(TensorDataset(*data()), batch_size=40, shuffle=True)


def watched_rows():
    """A loader of two inputs in batches that not all of four processes get a row of, and that nobody seeds."""
    return DataLoader(
        [(named(row[None]), y[None]) for row, y in zip(*data(12), strict=True)], batch_size=None, shuffle=True
    )


def several(**options):
    x, y = data()
    return trained(Paired(), (named(x), y), **options)


def user_loop():
    """A loop as in the README, of equal batches, with torch's own sampler."""
    group = processes.process_group()
    x, y = (part[:96] for part in data())
    model = Numbered()
    wrapped = processes.data_parallel(model)
    sampler = DistributedSampler(TensorDataset(x, y), group.world_size, group.rank, shuffle=False)
    optimizer = torch.optim.SGD(gd.parameter_groups(model, weight_decay=0.0), lr=1e-2)
    for batch, target in DataLoader(TensorDataset(x, y), batch_size=BATCH // group.world_size, sampler=sampler):
        nll = gd.gaussian_nll(*wrapped(batch).chunk(2, -1), target)
        optimizer.zero_grad()
        gd.negative_elbo(nll, model, num_data=96, likelihood="gaussian").backward()
        optimizer.step()
    return {"weights": {name: value.clone() for name, value in model.state_dict().items()}}


def masks():
    """What each process draws first, although torch was seeded alike."""
    group, seen = processes.process_group(), []
    _, y = data()

    def likelihood(output, target):
        seen.append(output.detach()[0])
        return (output[:, :1] - target).square().sum(1)

    model = network()
    for parameter in model.parameters():
        parameter.data.fill_(0.1)
    options = {"likelihood": likelihood, "lengthscale": "classification", "epochs": 1, "batch_size": BATCH}
    fit(model, (torch.ones(BATCH, 3), y[:BATCH]), **options)
    return {"drawn": [row.tolist() for row in group.gather(seen[0])]}


def loader():
    generator = torch.Generator().manual_seed(3)
    return DataLoader(TensorDataset(*data()), batch_size=BATCH, shuffle=True, generator=generator)


def checkpointed(folder=None, sharded=False):
    """Train; with a folder for the checkpoint the last process dies in the fourth epoch of its first life."""
    state.SECONDS_BETWEEN_CHECKPOINTS = 0.0
    group, calls = processes.process_group(), []
    died = None if folder is None else folder / f"died-{sharded}"
    x, y = data()

    def likelihood(output, target):
        calls.extend([None] * output.requires_grad)
        if died and len(calls) == 14 and group.rank == group.world_size - 1 and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return LIKELIHOODS["gaussian"].nll(output, target)

    model = blocks_sharded() if sharded else network()
    place = None if folder is None else folder / f"{sharded}.checkpoint"
    inputs = x if sharded else x[:, :3]
    options = {"likelihood": likelihood, "lengthscale": "regression", "checkpoint": place}
    found = trained(model, (inputs, y), epochs=6, **options)
    return found | {"steps": len(calls)}


CASES = {
    "plain": lambda: trained(),
    "watched": lambda: trained(validation=data(), patience=2),
    "parts": lambda: trained(accumulate=3, max_norm=0.5),
    "loader": lambda: trained(train=loader(), validation=shuffled()),
    "sharded": lambda: trained(blocks_sharded(), max_norm=0.5, accumulate=2, validation=data()),
    "stream": lambda: trained(train=DataLoader(Stream(), batch_size=None), num_data=NUM_ROWS),
    "several": lambda: several(validation=watched_rows(), epochs=2),
    "sharded, loader": lambda: trained(
        blocks_sharded(),
        validation=shuffled(),
        epochs=2,
        max_norm=1e3,  # far above the norm of any gradient, which stays as it is
    ),
    "bfloat16": lambda: trained(autocast=torch.bfloat16),
    "loop": user_loop,
    "masks": masks,
    "unbroken": checkpointed,
    "unbroken, sharded": lambda: checkpointed(sharded=True),
}


def main():
    torch.set_num_threads(1)
    folder, *names = sys.argv[1:]
    place = Path(folder)
    if "RANK" not in os.environ:  # no torchrun: two processes, of which one is a fork
        for slow in ("torch._dynamo", "torch.distributed.fsdp"):  # to load, and both processes need it
            importlib.import_module(slow)
        fork()
    cases = CASES | {
        "killed": lambda: checkpointed(place),
        "killed, sharded": lambda: checkpointed(place, sharded=True),
    }
    found = {name: cases[name]() for name in names}
    if processes.process_group().is_first:
        torch.save(found, place / "found.pt")


if __name__ == "__main__":
    main()
