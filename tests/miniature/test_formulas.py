"""The miniature's pure functions and layers against what their equations promise."""

import math
from types import SimpleNamespace

import pytest
import torch

BINS = SimpleNamespace(num_bins=101, vmin=-10, vmax=10, bin_size=0.2, simnorm_dim=4)


@pytest.fixture
def formulas(code):
    return code.module("common.math")


def test_two_hot_weights_lie_on_two_neighbours_and_sum_to_one(formulas):
    weights = formulas.two_hot(torch.randn(200, 1) * 50, BINS)
    assert weights.shape == (200, 101)
    assert torch.allclose(weights.sum(-1), torch.ones(200), atol=1e-5)
    assert ((weights > 0).sum(-1) <= 2).all()


@pytest.mark.parametrize("value", [-300.0, -1.0, -0.01, 0.0, 0.3, 1.0, 42.0, 2000.0])
def test_a_scalar_survives_two_hot_and_back(formulas, value):
    logits = formulas.two_hot(torch.tensor([[value]]), BINS).log()
    assert formulas.two_hot_inv(logits, BINS).item() == pytest.approx(value, rel=2e-3, abs=2e-4)


def test_values_beyond_the_bins_end_in_the_outermost(formulas):
    weights = formulas.two_hot(torch.tensor([[1e9], [-1e9]]), BINS)
    assert weights[0, -1] == 1 and weights[1, 0] == 1


def test_cross_entropy_is_least_at_the_target(formulas):
    target = torch.tensor([[3.0]])
    at_target = formulas.two_hot(target, BINS).clamp(min=1e-9).log()
    elsewhere = formulas.two_hot(torch.tensor([[7.0]]), BINS).clamp(min=1e-9).log()
    assert formulas.soft_ce(at_target, target, BINS) < formulas.soft_ce(torch.zeros(1, 101), target, BINS)
    assert formulas.soft_ce(torch.zeros(1, 101), target, BINS).item() == pytest.approx(math.log(101), rel=1e-5)
    assert formulas.soft_ce(elsewhere, target, BINS) > formulas.soft_ce(at_target, target, BINS)


def test_the_squashed_density_integrates_to_one(formulas):
    mean, log_std = torch.tensor([0.4]), torch.tensor([-0.5])
    x = torch.linspace(-8, 8, 20001).unsqueeze(-1)
    density = formulas.gaussian_logprob((x - mean) / log_std.exp(), log_std)
    _, action, log_prob = formulas.squash(mean, x, density)
    assert torch.trapezoid(log_prob.exp().squeeze(), action.squeeze()).item() == pytest.approx(1, abs=1e-3)


def test_log_std_keeps_its_range(formulas):
    low, dif = torch.tensor(-10.0), torch.tensor(12.0)
    log_std = formulas.log_std(torch.tensor([-1e3, 0.0, 1e3]), low, dif)
    assert log_std.tolist() == pytest.approx([-10, -4, 2])


def test_an_index_is_drawn_by_its_probability(formulas):
    torch.manual_seed(0)
    p = torch.tensor([0.5, 0.3, 0.2, 0.0]).expand(20000, 4)
    drawn = torch.bincount(formulas.gumbel_softmax_sample(p, dim=1), minlength=4) / 20000
    assert drawn.tolist() == pytest.approx([0.5, 0.3, 0.2, 0.0], abs=0.02)


def test_simnorm_groups_sum_to_one(code):
    out = code.module("common.layers").SimNorm(BINS)(torch.randn(3, 7, 16) * 5)
    assert out.shape == (3, 7, 16) and (out >= 0).all()
    assert torch.allclose(out.unflatten(-1, (4, 4)).sum(-1), torch.ones(3, 7, 4))


def test_the_ensemble_equals_its_members_one_by_one(code):
    layers = code.module("common.layers")
    members = [layers.mlp(6, [8], 3) for _ in range(4)]
    x = torch.randn(2, 5, 6)
    alone = torch.stack([member(x) for member in members])
    assert torch.allclose(layers.Ensemble(members)(x), alone, atol=1e-6)


def test_members_drop_units_of_their_own_and_only_in_training(code):
    layers = code.module("common.layers")
    member = layers.mlp(6, [64], 3, dropout=0.5)
    ensemble = layers.Ensemble([member] + [layers.mlp(6, [64], 3, dropout=0.5) for _ in range(2)])
    for other in (1, 2):
        ensemble.params.data[other].copy_(ensemble.params.data[0])
    x = torch.randn(5, 6)
    assert not torch.allclose(*ensemble.train()(x)[:2])
    assert torch.allclose(*ensemble.eval()(x)[:2], atol=1e-6)


def test_the_running_scale_follows_the_spread_and_stays_above_one(code, make_cfg):
    scale = code.module("common.scale").RunningScale(make_cfg(tau=0.5))
    scale.update(torch.zeros(100, 1))
    assert scale.value.item() == 1
    values = torch.linspace(0, 100, 101).unsqueeze(-1)
    scale.update(values)
    assert scale.value.item() == pytest.approx(1 + 0.5 * (90 - 1), abs=0.1)
    assert torch.equal(scale(values), values / scale.value)
