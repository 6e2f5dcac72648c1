"""What `torch.compile` made of a plain model does not run a converted one, nor the other way round."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

import gumdrop as gd

from builders.vision import ViT

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")  # of inductor

BACKENDS = ["eager", pytest.param("inductor", marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def _builds(tmp_path_factory) -> Iterator[bool]:
    """Whether this machine builds what inductor writes, in a folder that no other process builds in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        try:
            torch.compile(lambda x: x.sin() + x, backend="inductor")(X)
        except torch._dynamo.exc.BackendCompilerFailed:
            yield False
        else:
            yield True


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "inductor" and not request.getfixturevalue("_builds"):
        pytest.skip("inductor needs a C++ compiler that builds with the headers of torch and Python")
    return request.param


@pytest.fixture(autouse=True)
def _fresh():
    """Code that was compiled as if there were no library that adds hooks."""
    torch.compiler.reset()
    torch._dynamo.config.skip_nnmodule_hook_guards = True
    yield
    torch.compiler.reset()


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))


X = torch.randn(64, 8)


def drops(call) -> bool:
    return not torch.equal(call(X), call(X))


def spread(model: nn.Module) -> Tensor:
    return gd.sample(model, X, num_samples=3, seed=0).std(0)


@pytest.mark.parametrize("backend", BACKENDS, indirect=True)
def test_a_model_that_was_compiled_before_it_was_converted(backend: str) -> None:
    model = network()
    compiled = torch.compile(model, backend=backend)
    assert not drops(compiled)
    gd.learn_dropout(model, p=0.5)
    assert drops(compiled)
    torch.testing.assert_close(spread(compiled), spread(model))
    compiled(X).sum().backward()
    assert model[0].concrete_dropout.scaled_logit.grad != 0
    assert not drops(compiled.eval())


@pytest.mark.parametrize("plain_first", [True, False])
@pytest.mark.parametrize("backend", BACKENDS, indirect=True)
def test_a_plain_model_beside_a_converted_one(backend: str, plain_first: bool) -> None:
    converted, plain = gd.learn_dropout(network(), p=0.5), network()
    calls = {model: torch.compile(model, backend=backend) for model in (converted, plain)}
    for model in (plain, converted) if plain_first else (converted, plain):
        calls[model](X)
    assert drops(calls[converted])
    assert not drops(calls[plain])
    torch.testing.assert_close(calls[plain](X), plain(X))
    assert (spread(calls[converted]) > 0).any()


@pytest.mark.slow
def test_the_compiler_is_loaded_after_the_conversion() -> None:
    """Its settings change when it is loaded, since to load it for them would take longer than a small training."""
    code = """
import sys
from collections.abc import Iterator
import torch
from torch import nn
import gumdrop as gd
converted, plain = (nn.Sequential(nn.Linear(8, 16), nn.ReLU()) for _ in range(2))
gd.learn_dropout(converted, p=0.5)
gd.learn_dropout(nn.Linear(3, 2))
assert "torch._dynamo" not in sys.modules
x = torch.randn(64, 8)
torch.compile(plain, backend="eager")(x)
compiled = torch.compile(converted, backend="eager")
assert not torch.equal(compiled(x), compiled(x))
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_network_whose_own_dropout_is_learned_is_one_graph():
    model = gd.learn_dropout(ViT(), plain_dropout="learn", include=[], report=lambda report: None).train()
    x = torch.randn(4, 3, 16, 16)
    torch.manual_seed(1)
    expected = model(x)
    torch.manual_seed(1)
    torch.testing.assert_close(torch.compile(model, backend="eager", fullgraph=True)(x), expected)
