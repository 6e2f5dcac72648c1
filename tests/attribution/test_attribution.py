import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gumdrop.attribution import FIDO, FIDOSettings
from gumdrop.attribution.explanation import boxes_of
from gumdrop.attribution.infills import FIXED, RANDOM, blur
from gumdrop.attribution.masks import LAYOUTS
from gumdrop.attribution.search import random_streams
from gumdrop.attribution.targets import log_odds

QUICK = FIDOSettings(iterations=5, num_samples=3)


def network(**options) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(4 * 48, 3)
    ).eval()


def images(count: int = 3) -> torch.Tensor:
    return torch.rand(count, 2, 6, 8, generator=torch.Generator().manual_seed(1))


class Planted(nn.Module):
    """A matched filter: each place of the square is evidence, of the same strength, and nothing else is.

    The evidence is a pattern of -1 and 1, so that its mean, its blur and its places in another order are none.
    """

    def forward(self, x: torch.Tensor, pattern: torch.Tensor) -> torch.Tensor:
        evidence = (x * pattern).flatten(1).sum(1) / pattern.abs().flatten(1).sum(1)
        return torch.stack([20 * evidence, 10 * torch.ones_like(evidence)], dim=1)


@pytest.fixture(scope="module")
def planted():
    """Noise with a square of evidence at a place of its own in each image; images, patterns, true region."""
    generator = torch.Generator().manual_seed(3)
    x = 2 * torch.rand(3, 1, 24, 24, generator=generator) - 1
    pattern = torch.zeros_like(x)
    for i, (top, left) in enumerate([(2, 3), (12, 8), (6, 13)]):
        pattern[i, 0, top : top + 9, left : left + 9] = 2.0 * torch.randint(2, (9, 9), generator=generator).float() - 1
    return torch.where(pattern != 0, pattern, x), pattern, pattern != 0


def overlap(relevance, truth):
    """Intersection over union of what is relevant by more than one half and the true region, shape (N,)."""
    found = relevance > 0.5
    truth = truth.expand_as(found)
    return (found & truth).flatten(1).sum(1) / (found | truth).flatten(1).sum(1)


# What is found


def test_masks_and_infill_have_streams_of_their_own() -> None:
    (masks, infill), again = ([torch.rand(40, generator=each) for each in random_streams(7)] for _ in range(2))
    assert torch.equal(torch.stack([masks, infill]), torch.stack(again))
    assert not (masks == infill).any()


@pytest.mark.parametrize("infill", [*FIXED, *RANDOM])
def test_the_planted_square_is_found(planted, infill) -> None:
    x, pattern, truth = planted
    found = FIDO(Planted().eval()).explain(x, 0, additional_forward_args=pattern, infill=infill)
    for region in ("ssr", "sdr", "joint"):
        assert overlap(found.relevance(region), truth).min() > 0.9
    assert torch.equal(found.boxes(), boxes_of(truth[:, 0].float()))


def test_keep_and_drop_are_not_swapped(planted) -> None:
    """SSR keeps the evidence and its picture keeps the class; SDR drops it and its picture loses the class."""
    x, pattern, truth = planted
    model = Planted().eval()
    found = FIDO(model).explain(x, 0, additional_forward_args=pattern, infill="zeros")
    assert found.keep_ssr[truth].min() > 0.5 > found.keep_ssr[~truth].max()
    assert found.keep_sdr[truth].max() < 0.5 < found.keep_sdr[~truth].min()
    assert log_odds(model(found.blended_ssr, pattern), torch.zeros(3).long()).min() > 5
    assert log_odds(model(found.blended_sdr, pattern), torch.zeros(3).long()).max() < -5
    assert found.curve_ssr[-1].min() > 5
    assert found.curve_sdr[-1].max() < -5
    assert found.score.min() > 5
    assert found.score_infill.max() < -5


def naive(model, x, fill, target, settings, seed, extra=None):
    """One input and one mask at a time, by the formulas; gives the keep probabilities of SSR and SDR."""
    kept = []
    for i in range(len(x)):
        masks, _ = random_streams(seed)
        maps = [nn.Parameter(torch.zeros(x.shape[2:], dtype=x.dtype)) for _ in range(2)]
        optimizer = torch.optim.Adam(maps, lr=settings.lr)
        for step in range(settings.iterations):
            noise = torch.rand(2, settings.num_samples, 1, *x.shape[2:], generator=masks, dtype=x.dtype)
            loss = torch.zeros(())
            for which, sign in ((0, -1), (1, 1)):
                for u in noise[which, :, 0]:
                    z = torch.sigmoid((torch.log(u / (1 - u)) - maps[which]) / settings.temperature)
                    logits = model((z * x[i] + (1 - z) * fill[i])[None])[0]
                    others = torch.cat([logits[: target[i]], logits[target[i] + 1 :]])
                    loss = loss + sign * (logits[target[i]] - others.exp().sum().log()) / settings.num_samples
            p = [torch.sigmoid(logit) for logit in maps]
            area = ((1 - p[0]) + p[1]).mean() * settings.l1 / 2
            side = p[0].numel() ** 0.5
            rough = sum((q[1:] - q[:-1]).abs().sum() + (q[:, 1:] - q[:, :-1]).abs().sum() for q in p) / side
            loss = loss + min(1, (step + 1) / settings.ramp) * (area + settings.tv * rough)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        kept.append(torch.stack([1 - torch.sigmoid(logit.detach()) for logit in maps]))
    return torch.stack(kept, dim=1)


def test_masks_are_those_of_one_image_and_one_mask_at_a_time() -> None:
    # In float64: the first step of Adam makes near ties, whose total variation has either sign.
    model, x, settings = network().double(), images().double(), FIDOSettings(iterations=8, num_samples=3)
    target = torch.tensor([2, 0, 1])
    expected = naive(copy.deepcopy(model), x, torch.zeros_like(x), target, settings, seed=5)
    for context in (torch.enable_grad, torch.no_grad):
        with context():
            found = FIDO(model, settings).explain(x, target, infill="zeros", seed=5)
        torch.testing.assert_close(found.keep_ssr[:, 0], expected[0])
        torch.testing.assert_close(found.keep_sdr[:, 0], expected[1])
        assert (found.keep_ssr - 0.5).abs().max() > 0.08
        assert not found.joint.requires_grad
    with torch.inference_mode():
        assert torch.equal(FIDO(model, settings).explain(x, target, infill="zeros", seed=5).joint, found.joint)


@pytest.mark.parametrize("infill", ["blur", "local_shuffle", "normal"])
@pytest.mark.parametrize("chunk_size", [2, 5, 12, 100])
def test_masks_do_not_depend_on_the_batch_or_the_chunks(infill, chunk_size) -> None:
    model, x, rows = network().double(), images().double(), []
    options = {"target": torch.tensor([2, 0, 1]), "infill": infill, "seed": 3}
    whole = FIDO(model, QUICK).explain(x, **options)
    hook = model.register_forward_pre_hook(lambda _, inputs: rows.append(len(inputs[0])))
    parts = FIDO(model, QUICK).explain(x, chunk_size=chunk_size, **options)
    assert max(rows) <= chunk_size, "memory is bounded by the chunk"
    hook.remove()
    torch.testing.assert_close(whole.joint, parts.joint)
    torch.testing.assert_close(whole.curve_sdr, parts.curve_sdr)
    alone = FIDO(model, QUICK).explain(x[1:2], **(options | {"target": 0}))
    torch.testing.assert_close(whole.joint[1:2], alone.joint)


def test_same_seed_same_masks_and_the_random_state_is_left_alone() -> None:
    model, x = network(), images()
    before = torch.get_rng_state()
    first, second, third = (FIDO(model, QUICK).explain(x, infill="uniform", seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.joint, second.joint)
    assert torch.equal(first.infill, second.infill)
    assert not torch.equal(first.joint, third.joint)


def test_a_coarse_mask_is_upsampled() -> None:
    found = FIDO(network(), QUICK).explain(images(), mask_size=(3, 4))
    assert found.joint.shape == (3, 1, 6, 8)
    again = FIDO(network(), QUICK).explain(images(), mask_size=[3, 4])
    assert torch.equal(found.joint, again.joint)
    flat = FIDO(network(), QUICK).explain(images(), mask_size=1).joint
    torch.testing.assert_close(flat, flat[..., :1, :1].expand_as(flat))


@pytest.mark.parametrize(
    ("shape", "layout", "mask"),
    [
        ((2, 3, 20), None, (2, 1, 20)),
        ((2, 20, 3), "tokens", (2, 20, 1)),
        ((2, 20), None, (2, 20)),
        ((2, 3, 5, 4), None, (2, 1, 5, 4)),
    ],
)
def test_evidence_is_found_in_each_layout(shape, layout, mask) -> None:
    """The third place along the first dimension of the mask that has places holds all evidence."""
    dim = next(d for d in range(1, len(mask)) if mask[d] > 1)
    x = torch.ones(shape)

    def model(v):
        return 10 * v.select(dim, 2).reshape(len(v), -1).mean(1)

    found = FIDO(model, FIDOSettings(tv=0)).explain(x, layout=layout, infill="zeros")
    assert found.joint.shape == mask
    assert (found.joint > 0.5).nonzero()[:, dim].unique().tolist() == [2]
    assert FIDO(model, QUICK).attribute(x, layout=layout, infill="zeros").shape == shape
    if found.layout.ordered:
        at = found.layout.dims.index(dim)
        assert found.boxes()[0, [at, at + len(found.layout.dims)]].tolist() == [2, 3]
    else:
        with pytest.raises(ValueError, match="columns of a table have no order"):
            found.boxes()


def test_a_search_that_stands_still_stops_early(planted) -> None:
    x, pattern, truth = planted
    options = {"additional_forward_args": pattern, "infill": "zeros"}
    whole = FIDO(Planted().eval(), FIDOSettings(iterations=200)).explain(x, 0, **options)
    early = FIDO(Planted().eval(), FIDOSettings(iterations=200, patience=10)).explain(x, 0, **options)
    assert whole.iterations.tolist() == [200] * 3
    assert early.iterations.max() < 200
    assert overlap(early.joint, truth).min() > 0.9
    for row, steps in enumerate(early.iterations.tolist()):
        assert early.curve_ssr[:steps, row].isfinite().all()
        assert early.curve_ssr[steps:, row].isnan().all()
        torch.testing.assert_close(early.curve_ssr[:steps, row], whole.curve_ssr[:steps, row])


def test_other_infills() -> None:
    model, x = network(), images()
    zeros = FIDO(model, QUICK).explain(x, infill="zeros").joint
    assert torch.equal(FIDO(model, QUICK).explain(x, infill=0.0).joint, zeros)
    assert torch.equal(FIDO(model, QUICK).explain(x, infill=torch.zeros(2, 1, 1)).joint, zeros)
    assert torch.equal(FIDO(model, QUICK).explain(x, infill=lambda rows, generator: 0 * rows).joint, zeros)
    assert torch.equal(FIDO(model, QUICK).explain(x).infill, blur(x, LAYOUTS["image"]))


def test_a_score_of_ones_own() -> None:
    """With the plain logit as the score, what lowers the other classes is no evidence."""
    x = torch.ones(1, 4)
    weight = torch.tensor([[3.0, 0, 0, 0], [0, -3.0, 0, 0]])

    def logit(output, target):
        return output[range(len(output)), target]

    settings = FIDOSettings(l1=2.0)
    own = FIDO(lambda v: v @ weight.T, settings, score=logit).attribute(x, 0)
    odds = FIDO(lambda v: v @ weight.T, settings).attribute(x, 0)
    assert (own > 0.5).tolist() == [[True, False, False, False]]
    assert (odds > 0.5).tolist() == [[True, True, False, False]]


# Infills


@pytest.mark.parametrize("shape", [(2, 3, 9, 12), (2, 3, 12)])
def test_random_infills_have_the_statistics_of_their_input(shape) -> None:
    layout = LAYOUTS["image" if len(shape) == 4 else "signal"]
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(shape, generator=generator) * torch.tensor([1.0, 5.0]).reshape(2, *[1] * (len(shape) - 1))
    dims = layout.dims
    draws = {name: torch.stack([f(x, layout, generator) for _ in range(400)]) for name, f in RANDOM.items()}
    assert (draws["uniform"] >= x.amin(dims, keepdim=True)).all()
    assert (draws["uniform"] <= x.amax(dims, keepdim=True)).all()
    torch.testing.assert_close(
        draws["uniform"].mean((0, *[d + 1 for d in dims])), (x.amin(dims) + x.amax(dims)) / 2, rtol=0.05, atol=0.02
    )
    torch.testing.assert_close(
        draws["normal"].std(dim=(0, *[d + 1 for d in dims])), x.std(dims, correction=0), rtol=0.1, atol=0.02
    )
    shuffled = draws["local_shuffle"][0]
    assert all(value in x[1, 2] for value in shuffled[1, 2].flatten())
    assert not torch.equal(shuffled, x)


def test_blur_keeps_a_plane_and_spreads_a_point() -> None:
    torch.testing.assert_close(blur(torch.full((1, 2, 7, 9), 0.3), LAYOUTS["image"]), torch.full((1, 2, 7, 9), 0.3))
    point = torch.zeros(1, 1, 41)
    point[0, 0, 20] = 1
    spread = blur(point, LAYOUTS["signal"], sigma=2.0)[0, 0]
    steps = torch.arange(41.0) - 20
    assert spread.sum() == pytest.approx(1, abs=1e-5)
    assert (spread * steps**2).sum() == pytest.approx(4, rel=0.03)


# The record


def test_joint_mask_and_enhanced_image_by_the_formula() -> None:
    found = FIDO(network(), QUICK).explain(images())
    expected = (found.keep_ssr * (1 - found.keep_sdr)) ** 0.5
    torch.testing.assert_close(found.joint, expected)
    torch.testing.assert_close(found.enhance(), found.inputs * expected + found.infill * (1 - expected))
    torch.testing.assert_close(found.blended_ssr, found.inputs * found.keep_ssr + found.infill * (1 - found.keep_ssr))
    with pytest.raises(ValueError, match="`region` must be 'joint', 'ssr' or 'sdr', got 'all'"):
        found.relevance("all")


def test_a_crop_is_the_box_brought_to_size(planted) -> None:
    x, pattern, _ = planted
    found = FIDO(Planted().eval()).explain(x, 0, additional_forward_args=pattern)
    crop = found.crop()
    expected = F.interpolate(x[1:2, :, 12:21, 8:17], size=(24, 24), mode="bilinear")
    torch.testing.assert_close(crop[1:2], expected)
    wide = F.interpolate(x[:1, :, 0:16, 0:17], size=(24, 24), mode="bilinear")  # the border of the image is the end
    torch.testing.assert_close(found.crop(margin=5 / 9)[:1], wide)
    torch.testing.assert_close(found.crop(threshold=1.0), x)
    with pytest.raises(ValueError, match="`margin` must not be negative, got -1"):
        found.crop(margin=-1)
    table = FIDO(lambda v: v.sum(1), QUICK).explain(torch.ones(1, 4))
    with pytest.raises(ValueError, match="tabular inputs cannot be"):
        table.crop()


# What is left behind


class Fails(nn.Module):
    def __init__(self, inner: nn.Module, after: int) -> None:
        super().__init__()
        self.inner, self.calls = inner, after

    def forward(self, x):
        self.calls -= 1
        if self.calls < 0:
            raise RuntimeError("out of cheese")
        return self.inner(x)


@pytest.mark.parametrize("after", [1, 3, 10**6])
def test_the_model_is_as_it_was_also_after_an_exception(after) -> None:
    model = network()
    model[5].bias.requires_grad_(False)
    model[0].weight.grad = torch.full_like(model[0].weight, 0.25)
    wrapped = Fails(model, after).eval()
    state = copy.deepcopy(model.state_dict())
    x = images().requires_grad_()
    kept = x.detach().clone()
    if after < 10**6:
        with pytest.raises(RuntimeError, match="out of cheese"):
            FIDO(wrapped, QUICK).attribute(x)
    else:
        FIDO(wrapped, QUICK).attribute(x)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert not any(module.training for module in wrapped.modules())
    assert [p.requires_grad for p in model.parameters()] == [True] * 5 + [False]
    assert torch.equal(model[0].weight.grad, torch.full_like(model[0].weight, 0.25))
    assert all(p.grad is None for name, p in model.named_parameters() if name != "0.weight")
    assert torch.equal(x, kept)
    assert x.grad is None
    assert torch.is_grad_enabled()


def test_progress_is_shown_when_asked_for(capsys) -> None:
    FIDO(network(), QUICK).explain(images(), show_progress=True)
    FIDO(network(), QUICK).explain(images())  # nothing is shown where nobody looks
    assert capsys.readouterr().out == ""


# Errors


@pytest.mark.parametrize(
    ("x", "options", "error", "match"),
    [
        (torch.ones(6, 8), {"layout": "image"}, ValueError, r"the shape \(N, C, H, W\).*got \(6, 8\)"),
        (torch.ones(1, 1, 2, 6, 8), {}, ValueError, r"\(N, D\) for `layout='tabular'`, got \(1, 1, 2, 6, 8\)"),
        (images(), {"layout": "video"}, ValueError, "image, signal, tokens, tabular, got 'video'"),
        (torch.ones(0, 2, 6, 8), {}, ValueError, "at least one example"),
        (torch.ones(1, 2, 6, 8).long(), {}, TypeError, "one floating tensor, got torch.int64"),
        ((images(), images()), {}, TypeError, "one floating tensor, got tuple"),
        (images().index_fill(0, torch.tensor([1]), torch.nan), {}, ValueError, r"NaN or infinity in rows \[1\]"),
        (images(), {"target": 3}, ValueError, "`target` must be from 0 to 2, the outputs of the model, got 3"),
        (images(), {"target": [0, 1, -1]}, ValueError, "got -1"),
        (images(), {"target": [0, 1]}, ValueError, "one class or 3, one for each input, got 2"),
        (images(), {"target": torch.zeros(3)}, TypeError, "`target` must be whole numbers, got torch.float32"),
        (images(), {"infill": "noise"}, ValueError, "`infill` must be one of blur, mean.*got 'noise'"),
        (images(), {"infill": torch.ones(5)}, ValueError, r"`infill` of shape \(5,\) does not broadcast"),
        (images(), {"infill": torch.nan}, ValueError, "`infill` must be finite"),
        (images(), {"infill": lambda rows, generator: rows[:, :1]}, ValueError, "`infill` must return a tensor"),
        (images(), {"infill": images()}, ValueError, r"for inputs \[0, 1, 2\].*equals its infill"),
        (images(), {"mask_size": 7}, ValueError, "`mask_size` must be 2 numbers .* got \\(7, 7\\)"),
        (images(), {"mask_size": (3, 3, 3)}, ValueError, "`mask_size` must be 2 numbers"),
        (images(), {"chunk_size": 1}, ValueError, "`chunk_size` must be at least 2"),
        (images(), {"additional_forward_args": torch.ones(2)}, ValueError, "one row for each of 3 inputs"),
    ],
)
def test_bad_input(x, options, error, match) -> None:
    with pytest.raises(error, match=match):
        FIDO(network(), QUICK).explain(x, **options)


def rounded_by_batch(model):
    """A model on a processor whose kernels, and so the last digits, change with the number of rows."""
    return lambda x: model(x) * (1 + 1e-6 * len(x))


@pytest.mark.parametrize(
    ("model", "infill"),
    [
        (network(), images()),
        (network(), lambda rows, generator: rows.clone()),
        (lambda x: 1 + 0 * x.flatten(1)[:, :3], "blur"),
        (lambda x: x.flatten(1)[:, :1] + torch.arange(3), "blur"),  # log-odds do not see what all logits share
    ],
)
def test_nothing_to_explain_is_noticed_whatever_the_rounding(model, infill) -> None:
    with pytest.raises(ValueError, match=r"for inputs \[0, 1, 2\]"):
        FIDO(rounded_by_batch(model), QUICK).explain(images(), infill=infill)
    x = images().index_fill(0, torch.tensor([1]), 0.3)  # its blur differs by rounding at most
    with pytest.raises(ValueError, match=r"for inputs \[1\]"):
        FIDO(rounded_by_batch(network()), QUICK).explain(x)
    FIDO(lambda x: 0.02 * network()(x), QUICK).explain(images())  # weak evidence is no constant


def of_a_table() -> nn.Module:
    return nn.Linear(4, 2).eval()


def in_train_mode() -> nn.Module:
    model = network()
    model[1].train()
    return model


@pytest.mark.parametrize(
    ("make", "x", "options", "error", "match"),
    [
        (
            lambda: lambda x: 0 * x.flatten(1)[:, :3],
            images(),
            {},
            ValueError,
            r"for inputs \[0, 1, 2\].*constant model",
        ),
        (lambda: lambda x: x.detach().flatten(1)[:, :3], images(), {}, ValueError, "has no gradient for its input"),
        (lambda: lambda x: x.flatten(1)[:, :3] / 0, images(), {}, ValueError, "returned NaN or infinity"),
        (lambda: lambda x: {"logits": x}, images(), {}, TypeError, "returned a dict"),
        (lambda: lambda x: x, images(), {}, ValueError, "one row of logits for each input"),
        (lambda: lambda x: x.flatten(1)[:1], images(), {}, ValueError, "one row of logits for each input"),
        (in_train_mode, images(), {}, ValueError, r"in train mode \(1\).*call model.eval\(\)"),
        (of_a_table, torch.ones(1, 4), {"infill": "mean"}, ValueError, "mixes the columns of a row"),
        (of_a_table, torch.ones(1, 4), {"mask_size": 2}, ValueError, "must be None for a table"),
    ],
)
def test_bad_models_and_what_tables_have_not(make, x, options, error, match) -> None:
    with pytest.raises(error, match=match):
        FIDO(make(), QUICK).explain(x, **options)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"iterations": 0}, "`iterations` must be at least 1, got 0"),
        ({"temperature": 0}, "`temperature` must be positive, got 0"),
        ({"tv": -1}, "`tv` must not be negative, got -1"),
        ({"patience": 0}, "`patience` must be at least 1, got 0"),
    ],
)
def test_bad_settings_and_scores(settings, match) -> None:
    with pytest.raises(ValueError, match=match):
        FIDOSettings(**settings)
    with pytest.raises(ValueError, match="`score` must return one number for each row"):
        FIDO(network(), QUICK, score=lambda output, target: output).explain(images())


# Captum


def test_captum_takes_it_for_one_of_its_own() -> None:
    attr = pytest.importorskip("captum.attr")
    from captum.metrics import infidelity

    model, x = network(), images()
    fido = FIDO(model, QUICK)
    torch.manual_seed(4)
    smooth = attr.NoiseTunnel(fido).attribute(x, nt_samples=2, stdevs=0.1, target=1, seed=0)
    assert smooth.shape == x.shape
    assert ((smooth >= 0) & (smooth <= 1)).all()
    attributions = fido.attribute(x, target=1)
    assert attributions.shape == attr.Occlusion(model).attribute(x, (1, 2, 2), target=1).shape

    def perturb(inputs):
        noise = 0.1 * torch.randn_like(inputs)
        return noise, inputs - noise

    assert infidelity(model, perturb, x, attributions, target=1).shape == (3,)
    assert fido.get_name() == "FIDO"


def test_captums_metrics_pass_a_tuple_of_one() -> None:
    metrics = pytest.importorskip("captum.metrics")
    fido, x = FIDO(network(), QUICK), images()
    assert metrics.sensitivity_max(fido.attribute, x, target=1, n_perturb_samples=2).shape == (len(x),)
    (alone,) = fido.attribute((x,), target=1)
    assert torch.equal(alone, fido.attribute(x, target=1))
    with pytest.raises(TypeError, match="one tensor, or a tuple of one, got a tuple of 2"):
        fido.attribute((x, x), target=1)
