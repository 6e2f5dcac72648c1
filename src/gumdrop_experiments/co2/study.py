"""Gaussian processes and networks on the record, each judged by what came to pass."""

from functools import partial

from gumdrop_experiments.co2 import KINDS, Settings, processes
from gumdrop_experiments.co2.processes import kernels, process
from gumdrop_experiments.co2.series import ASKED, Series, series
from gumdrop_experiments.co2.training import NETWORKS, Schedule, build, extrapolate, steps_done, train
from gumdrop_experiments.data.download import sha256_of
from gumdrop_experiments.data.mauna_loa import MAUNA_LOA, read_mauna_loa
from gumdrop_experiments.harness import Plain, Run, data_folder
from gumdrop_experiments.pages import rounded

RESTARTS, QUICK_RESTARTS = 2, 0
"""Further starts of the search for the parameters of a kernel."""
HYPER_PARAMETERS_ASKED = 1000


def study(settings: Settings, run: Run) -> Plain:
    """Extrapolate the record in each way."""
    place = data_folder(run.options, "co2", sources=MAUNA_LOA, files=[MAUNA_LOA[0].name]) / MAUNA_LOA[0].name
    data = series(read_mauna_loa(place))
    restarts = QUICK_RESTARTS if run.options.quick else RESTARTS
    calls = {f"gp-{name}": partial(process, data, name, restarts) for name in kernels(data)}
    if processes.installed():
        warmup = settings.chain_draws * 2 // 5
        chains = processes.Chains(settings.chains, warmup, settings.chain_draws, HYPER_PARAMETERS_ASKED)
        calls["gp-sampled"] = partial(processes.sampled_process, data, chains, run.options.seed)
    else:
        print("co2: numpyro is not installed, so gp-sampled is left out (pip install 'gumdrop[mcmc]')")
    kinds = settings.networks or KINDS
    there = [name for name in NETWORKS if name.rpartition("-")[2] in kinds or run.has(name)]
    found = run.parts(calls | {name: partial(_network, run, settings, data, name) for name in there})
    steps = {name: steps_done(run.checkpoint(name, keep=True)) for name in NETWORKS if name not in there}
    # What a training that was stopped has to say is another part after more steps.
    stopped = [(name, f"{name}-{count}") for name, count in steps.items() if count]
    asked = run.parts({part: partial(_network, run, settings, data, name, train_on=False) for name, part in stopped})
    found |= {name: asked[part] for name, part in stopped}
    return {
        "record": {"sha256": sha256_of(place), "scale_ppm": data.scale},
        "settings": {"draws": settings.num_samples, "bfloat16": settings.bfloat16},
        "data": {name: rounded(getattr(data, name)) for name in ("x", "y", "later_x", "later_y")},
        "asked": rounded(ASKED),
        "processes": {name.removeprefix("gp-"): found[name] for name in calls},
        "networks": {name: found[name] for name in NETWORKS if name in found},
        "stopped": [name for name, _ in stopped],
        "missing": [network.label for name, network in NETWORKS.items() if name not in found],
    }


def _network(run: Run, settings: Settings, data: Series, name: str, *, train_on: bool = True) -> Plain:
    """Train a network and ask it, or ask it as its checkpoint has it."""
    network, seed = NETWORKS[name], run.options.seed
    steps = settings.learned_steps if network.rate is None else settings.steps
    model = build(network, width=settings.width, seed=seed).to(run.options.device)
    hold = steps // 2 if network.held else 0
    schedule = Schedule(steps=steps if train_on else 0, bfloat16=settings.bfloat16, seed=seed, hold=hold)
    looks = train(model, data, schedule, run.checkpoint(name, keep=not train_on))
    return {
        "label": network.label,
        "rates": looks[-1]["rates"],
        "looks": [look | {key: rounded(look[key]) for key in ("loss", "rmse", "seasons")} for look in looks],
        **extrapolate(model.eval(), data, num_samples=settings.num_samples, seed=seed),
    }
