"""Learned dropout of word types: rows of the embedding, the same for all occurrences in a sequence."""

import pytest
import torch
from torch import nn

import gumdrop as gd
from gumdrop.functional import dropout_kl, dropout_scale
from gumdrop.layers.site import bernoulli_factors

WORDS, SIZE = 7, 3
TOKENS = torch.tensor([[1, 2, 1, 6], [0, 2, 2, 5]])


def embedding(p=0.3, **options):
    torch.manual_seed(0)
    return gd.learn_dropout(nn.Embedding(WORDS, SIZE), p=p, embeddings=True, **options)


def scripted(module, noise):
    module.concrete_dropout.factor_source = bernoulli_factors(lambda site, rows: noise)
    return module


@pytest.mark.parametrize("rows", [1, 2], ids=["shared", "a mask for each sequence"])
@pytest.mark.parametrize("per_unit", [False, True])
def test_dropping_a_word_zeroes_its_row_of_the_table(rows, per_unit):
    module = embedding(per_unit=per_unit)
    noise = torch.rand(rows, WORDS)
    table = module.weight * dropout_scale(module.concrete_dropout.p_logit, noise, hard=True).unsqueeze(-1)
    expected = torch.stack([table[i % rows][tokens] for i, tokens in enumerate(TOKENS)])
    torch.testing.assert_close(scripted(module, noise)(TOKENS), expected)
    torch.testing.assert_close(module(input=TOKENS), expected)


def test_time_may_come_first():
    module = gd.learn_dropout(nn.Sequential(nn.Embedding(WORDS, SIZE)), embeddings=True, time_first=["0"], p=0.5)
    assert module[0].concrete_dropout.batch_dim == 1
    noise = torch.rand(2, WORDS)
    expected = scripted(embedding(p=0.5), noise)
    expected.load_state_dict(module[0].state_dict())
    scripted(module[0], noise)
    torch.testing.assert_close(module(TOKENS.T), expected(TOKENS).transpose(0, 1))


def test_one_sentence_without_a_batch_dimension_is_one_example():
    module = gd.learn_dropout(nn.Sequential(nn.Embedding(WORDS, SIZE)), embeddings=True, time_first=["0"], p=0.5)[0]
    noise = torch.rand(1, WORDS)
    together = scripted(module, noise)(TOKENS[:1].T)
    torch.testing.assert_close(module(TOKENS[0]), together[:, 0])


def test_the_rate_has_a_gradient_from_the_words_that_are_there():
    module = embedding(per_unit=True)
    module(TOKENS).square().sum().backward()
    assert module.concrete_dropout.scaled_logit.grad[[3, 4]].eq(0).all()
    assert module.concrete_dropout.scaled_logit.grad[[1, 2]].ne(0).all()


def test_kl_counts_words_as_units_and_one_input_for_each_output():
    module = embedding(p=0.2)
    site = module.concrete_dropout
    expected = dropout_kl(site.p_logit, module.weight.square().sum(), WORDS, precision=1.0)
    torch.testing.assert_close(gd.kl_divergence(module, lengthscale="fan_in"), expected)
    per_unit = embedding(p=0.2, per_unit=True)
    torch.testing.assert_close(gd.kl_divergence(per_unit, lengthscale="fan_in"), expected)


@pytest.mark.parametrize("per_unit", [False, True])
def test_relaxed_masks_have_the_temperature_of_the_site(per_unit):
    module = embedding(per_unit=per_unit, temperature=0.5)
    site = module.concrete_dropout
    torch.manual_seed(5)
    output = module(TOKENS)
    torch.manual_seed(5)
    noise = site.fresh_noise(2)
    scale = dropout_scale(site.p_logit, noise, temperature=0.5).gather(1, TOKENS)
    torch.testing.assert_close(output, module.weight[TOKENS] * scale.unsqueeze(-1))
