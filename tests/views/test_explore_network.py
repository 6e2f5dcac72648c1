"""Training in the browser: held to the library's loss and PyTorch's Adam, step by step, by way of a golden file.

`tests/golden/network.json` holds weights, points and noise, with what Python makes of them in some steps. One test
computes it anew and compares, the other compares the browser with it. `GUMDROP_WRITE_GOLDEN=1 pytest
tests/views/test_explore_network.py` writes it.
"""

import json
import math
from pathlib import Path

import pytest
import torch
from torch import nn

import gumdrop as gd
from gumdrop.functional import dropout_scale
from gumdrop.layers import ConcreteDropout

from builders.golden import assert_stored

GOLDEN = Path(__file__).parents[1] / "golden" / "network.json"
UNITS, ROWS, STEPS = 5, 7, 4
PARTS = ("w1", "b1", "w2", "b2", "w3", "b3", "rates", "logVariance")
SETTINGS = {
    "learned": {"numData": 7, "lengthscale": 0.5, "temperature": 0.1, "learned": True, "dropped": True},
    "fixed": {"numData": 90, "lengthscale": 2.0, "temperature": 0.7, "learned": False, "dropped": True},
    "off": {"numData": 20, "lengthscale": 0.5, "temperature": 0.1, "learned": False, "dropped": False},
}


def network():
    """The network of the page in small; its one input is never dropped."""
    noise = gd.HomoscedasticNoise(1, log_variance=math.log(0.04), gamma_prior=(100, 4))
    layers = [nn.Linear(1, UNITS), nn.ReLU(), nn.Linear(UNITS, UNITS), nn.ReLU(), nn.Linear(UNITS, 1), noise]
    return gd.learn_dropout(nn.Sequential(*layers), p=0.2, exclude=["0"]).double()


def sites(model):
    return [module for module in model.modules() if isinstance(module, ConcreteDropout)]


def parts(model):
    """All parameters in the order of the browser, which keeps the second layer's weights by input."""
    first, second, third, noise = model[0], model[2], model[4], model[5]
    tensors = (first.weight, first.bias, second.weight.T, second.bias, third.weight, third.bias)
    rates = torch.stack([site.scaled_logit for site in sites(model)])
    return [tensor.detach().flatten().tolist() for tensor in (*tensors, rates, noise.log_variance)]


def loss_of(model, x, y, settings):
    """Return nll and kl, for a network with masks by the library, without by hand."""
    mean, log_variance = model(x).chunk(2, dim=-1)
    nll = gd.gaussian_nll(mean, log_variance, y).mean()
    if settings["dropped"]:
        loss = gd.negative_elbo(nll, model, num_data=settings["numData"], lengthscale=settings["lengthscale"])
        return loss.nll, loss.kl
    squares = sum(tensor.square().sum() for layer in (model[2], model[4]) for tensor in (layer.weight, layer.bias))
    prior = settings["lengthscale"] ** 2 / 2 * squares + model[5].negative_log_prior()
    return nll, prior / settings["numData"]


def train(settings, x, y, noise):
    """Return what a network starts from, and loss and parameters of each step."""
    torch.manual_seed(3)
    model = network()
    for site in sites(model):
        site.scaled_logit.requires_grad_(settings["learned"])
    optimizer = torch.optim.AdamW(gd.parameter_groups(model, rate_lr=2e-3), lr=4e-3)
    start, steps = parts(model), []
    for uniform in noise:
        for site, each in zip(sites(model), uniform, strict=True):
            site.factor_source = factors(each, settings)
        nll, kl = loss_of(model, x, y, settings)
        optimizer.zero_grad()
        (nll + kl).backward()
        optimizer.step()
        steps.append({"nll": nll.item(), "kl": kl.item(), "parts": parts(model)})
    return {"start": start, "steps": steps}


def factors(noise, settings):
    if not settings["dropped"]:
        return lambda site, x: torch.ones_like(x)

    def factor(site, x):
        site.use.called = True  # as a site says of its own masks, else the objective warns
        return dropout_scale(site.p_logit, noise, temperature=settings["temperature"])

    return factor


def compute():
    generator = torch.Generator().manual_seed(1)
    x = torch.linspace(-2, 2, ROWS, dtype=torch.float64).unsqueeze(1)
    y = torch.sin(2 * x) + 0.1
    noise = torch.rand(STEPS, 2, ROWS, UNITS, dtype=torch.float64, generator=generator).clamp(min=1e-6)
    runs = {name: train(settings, x, y, noise) for name, settings in SETTINGS.items()}
    batch = {"x": x.flatten().tolist(), "y": y.flatten().tolist(), "noise": noise.flatten(2).tolist()}
    return {"units": UNITS, "settings": SETTINGS, **batch, "runs": runs}


def test_the_golden_steps_are_what_the_library_computes() -> None:
    assert_stored(GOLDEN, compute(), rel=1e-7, abs=1e-9)


def test_the_browser_takes_the_same_steps(page_of) -> None:
    page = page_of("random.js", "network.js")
    stored = json.loads(GOLDEN.read_text(encoding="utf-8"))
    found = page.evaluate(
        """({units, settings, x, y, noise, runs}) => {
          const run = ([name, chosen]) => {
            const network = new Gumdrop.network.Network(units, x.length);
            network.theta.all.set(runs[name].start.flat());
            return [name, noise.map((uniform) => {
              const losses = network.evaluate(x, y, {...chosen, noise: chosen.dropped ? uniform : null});
              network.step(1, chosen.learned);
              return {...losses, parts: Array.from(network.theta.all)};
            })];
          };
          return Object.fromEntries(Object.entries(settings).map(run));
        }""",
        stored,
    )
    for name, run in stored["runs"].items():
        for step, own in zip(run["steps"], found[name], strict=True):
            assert [own["nll"], own["kl"]] == pytest.approx([step["nll"], step["kl"]], rel=1e-9), name
            assert own["parts"] == pytest.approx(
                [value for part in step["parts"] for value in part], rel=1e-7, abs=1e-9
            )
