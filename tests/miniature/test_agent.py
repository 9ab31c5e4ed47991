"""The miniature's agent: shapes of its interfaces, targets, losses and plans."""

import pytest
import torch

H, B, L, A = 3, 16, 32, 2


@pytest.fixture
def agent(make_agent):
    return make_agent()


def scrambled(params):
    """Gives parameters other than their initial ones; a fresh head answers 0 to everything."""
    for leaf in params.values(True, True):
        leaf.data.add_(torch.randn_like(leaf) * 0.5)


@pytest.fixture
def batch():
    """obs, action, reward, terminated, as the buffer gives them."""
    generator = torch.Generator().manual_seed(1)
    obs = torch.randn(H + 1, B, 5, generator=generator)
    action = torch.rand(H, B, A, generator=generator) * 2 - 1
    return obs, action, obs[1:, :, :1].abs(), torch.zeros(H, B, 1)


def test_the_model_has_the_shapes_of_the_interface(agent):
    model, z, a = agent.model, torch.rand(7, B, L), torch.rand(7, B, A)
    assert model.encode(torch.randn(7, B, 5), None).shape == (7, B, L)
    assert model.next(z, a, None).shape == (7, B, L)
    assert model.reward(z, a, None).shape == (7, B, 101)
    action, info = model.pi(z, None)
    assert action.shape == info["mean"].shape == info["log_std"].shape == (7, B, A)
    assert info["entropy"].shape == info["scaled_entropy"].shape == (7, B, 1)
    assert model.Q(z, a, None, return_type="all").shape == (3, 7, B, 101)
    for kind in ("min", "avg"):
        assert model.Q(z, a, None, return_type=kind, target=True).shape == (7, B, 1)
    with pytest.raises(ValueError, match="min"):
        model.Q(z, a, None, return_type="max")


def test_the_termination_head_exists_only_in_episodic_tasks(agent, make_agent):
    assert agent.model._termination is None
    model, z = make_agent(episodic=True).model, torch.rand(B, L)
    probability = model.termination(z, None)
    assert torch.allclose(probability, model.termination(z, None, unnormalized=True).sigmoid())
    assert probability.shape == (B, 1)


def test_the_agent_has_the_shapes_of_the_interface(agent, batch):
    assert agent.act(torch.randn(5), t0=True).shape == (A,)
    assert agent._plan(torch.randn(1, 5)).shape == (A,)
    assert agent._estimate_value(torch.rand(32, L), torch.rand(H, 32, A), None).shape == (32, 1)
    assert agent._td_target(torch.rand(H, B, L), *batch[2:], None).shape == (H, B, 1)
    info = agent._update(*batch)
    assert {"total_loss", "grad_norm", "pi_loss", "pi_scale", "termination_loss"} <= set(info)
    assert all(value.numel() == 1 and value.isfinite() for value in info.values())


def test_an_estimate_for_another_batch_than_num_samples_is_the_official_bug(make_agent, code):
    """The patch `plan-vec` repairs it; the miniature must have it to be repaired."""
    with pytest.raises(RuntimeError):
        make_agent(episodic=True)._estimate_value(torch.rand(64, L), torch.rand(H, 64, A), None)


@pytest.mark.parametrize("length, discount", [(500, 0.99), (5, 0.95), (100_000, 0.995)])
def test_the_discount_follows_the_episode_length_within_its_range(make_agent, length, discount):
    assert make_agent(episode_length=length).discount == pytest.approx(discount)


def test_many_dimensional_actions_get_two_more_iterations(make_agent):
    assert make_agent(action_dim=19).cfg.iterations == 3
    assert make_agent(action_dim=20).cfg.iterations == 5


def test_td_targets_use_the_lower_of_two_target_members(make_agent, batch):
    agent = make_agent(num_q=2)
    model = agent.model
    scrambled(model._target_Qs_params)
    next_z, reward, terminated = torch.rand(H, B, L), batch[2], (torch.rand(H, B, 1) > 0.5).float()
    torch.manual_seed(3)
    found = agent._td_target(next_z, reward, terminated, None)
    torch.manual_seed(3)
    action, _ = model.pi(next_z, None)
    logits = model.Q(next_z, action, None, return_type="all", target=True)
    centres = torch.linspace(-10, 10, 101)
    symlogs = (logits.softmax(-1) * centres).sum(-1, keepdim=True)
    values = symlogs.sign() * (symlogs.abs().exp() - 1)
    assert not torch.allclose(values[0], values[1])
    expected = reward + agent.discount * (1 - terminated) * values.min(0).values
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_two_different_members_are_drawn_anew_each_time(make_agent):
    agent = make_agent(num_q=5)
    scrambled(agent.model._Qs.params)
    z, a = torch.rand(1, L), torch.rand(1, A)
    found = {round(agent.model.Q(z, a, None, return_type="avg").item(), 4) for _ in range(200)}
    assert len(found) == 10  # pairs out of five


def test_polyak_moves_targets_by_tau_and_only_the_live_ensemble_learns(make_agent):
    model = make_agent(tau=0.25).model
    before = model._target_Qs_params.clone()
    scrambled(model._Qs.params)
    model.soft_update_target_Q()
    for key, target in model._target_Qs_params.items(True, True):
        expected = 0.75 * before[key] + 0.25 * model._Qs.params.data[key]
        assert torch.allclose(target, expected, atol=1e-6)
    learned = {id(p) for p in model.parameters() if p.requires_grad}
    assert not learned & {id(p) for p in model._target_Qs_params.values(True, True)}
    assert model.total_params == sum(p.numel() for p in model.parameters())


def test_detached_parameters_share_memory_also_after_a_move(agent):
    for model in (agent.model, agent.model.to(torch.float64)):
        for key, live in model._Qs.params.items(True, True):
            detached = model._detach_Qs_params[key]
            assert detached.data_ptr() == live.data_ptr() and not detached.requires_grad
            assert model._target_Qs_params[key].data_ptr() != live.data_ptr()


def test_the_policy_learns_through_values_without_changing_them(agent):
    scrambled(agent.model._Qs.params)
    qs = [p.clone() for p in agent.model._Qs.parameters()]
    pi = [p.clone() for p in agent.model._pi.parameters()]
    agent.update_pi(torch.rand(H + 1, B, L), None)
    assert all(torch.equal(p, q) and p.grad is None for p, q in zip(agent.model._Qs.parameters(), qs, strict=True))
    assert any(not torch.equal(p, q) for p, q in zip(agent.model._pi.parameters(), pi, strict=True))


@pytest.mark.parametrize("episodic", [False, True])
def test_updates_lower_the_loss_on_a_fixed_batch(make_agent, batch, episodic):
    agent = make_agent(lr=1e-3, episodic=episodic)
    first = agent._update(*batch)
    for _ in range(60):
        last = agent._update(*batch)
    assert last["total_loss"] < 0.7 * first["total_loss"]
    assert last["reward_loss"] < first["reward_loss"]
    assert (last["termination_loss"] < first["termination_loss"]) == episodic


def test_a_saved_agent_plans_as_before_and_loads_from_path_and_dict(agent, make_agent, tmp_path):
    scrambled(agent.model._Qs.params)
    agent.save(tmp_path / "agent.pt")
    for source in (tmp_path / "agent.pt", torch.load(tmp_path / "agent.pt", weights_only=True)):
        other = make_agent()
        other.load(source)
        actions = []
        for each in (agent, other):
            torch.manual_seed(0)
            actions.append(each.act(torch.ones(5), t0=True))
        assert torch.equal(*actions)


@pytest.mark.parametrize("settings", [{}, {"num_pi_trajs": 0}, {"mpc": False}, {"episodic": True}])
def test_actions_lie_within_the_action_space(make_agent, settings):
    agent = make_agent(**settings)
    scrambled(agent.model._Qs.params)
    for t in range(10):
        action = agent.act(torch.randn(5) * 10, t0=t == 0, eval_mode=t % 2 == 0)
        assert action.isfinite().all() and action.abs().max() <= 1


def test_a_diverged_model_still_gives_an_action(agent):
    agent.model.reward = lambda z, a, task: torch.full((len(z), 101), torch.nan)
    assert agent.act(torch.randn(5), t0=True).isfinite().all()


def line_world(agent, formulas, goal=2.5):
    """Makes the agent's model a line on which a step moves by a: a goal is far, and every step costs."""
    logits = lambda x: formulas.two_hot(x, agent.cfg).clamp(min=1e-12).log()  # noqa: E731
    model = agent.model
    model.encode = lambda obs, task: obs
    model.next = lambda z, a, task: z + a
    model.reward = lambda z, a, task: logits((z + a > goal).float() - 0.05 * a.abs())
    model.pi = lambda z, task: (torch.zeros(*z.shape[:-1], 1), {})
    model.Q = lambda z, a, task, return_type: torch.zeros(*z.shape[:-1], 1)
    return agent


def walked(agent, steps=4):
    """Where the agent is on its line after some steps of evaluation."""
    z = torch.zeros(1, 1)
    for t in range(steps):
        z = z + agent._plan(z, t0=t == 0, eval_mode=True)
    return z.item()


def test_a_planner_that_looks_farther_reaches_what_a_short_sighted_one_misses(make_agent, code):
    formulas = code.module("common.math")
    settings = {"action_dim": 1, "num_samples": 256, "num_elites": 16, "iterations": 6, "temperature": 10}
    near = line_world(make_agent(horizon=1, **settings), formulas)
    far = line_world(make_agent(horizon=4, **settings), formulas)
    assert abs(walked(near)) < 1
    assert walked(far) > 2.5


def test_a_plan_starts_from_the_last_one_shifted_unless_an_episode_begins(make_agent):
    agent = make_agent(iterations=1, min_std=0, max_std=0, num_pi_trajs=0)
    plan = torch.tensor([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    agent._prev_mean.copy_(plan)
    # Without any spread, every sample is the mean that the plan starts from.
    assert torch.allclose(agent._plan(torch.ones(1, 5), t0=False), plan[1])
    assert torch.allclose(agent._prev_mean, torch.cat([plan[1:], torch.zeros(1, 2)]))
    assert torch.equal(agent._plan(torch.ones(1, 5), t0=True), torch.zeros(2))


def test_evaluation_adds_no_noise(make_agent):
    agent = make_agent(iterations=1, min_std=0.5, max_std=0.5, num_samples=8, num_elites=8, num_pi_trajs=0)
    agent.model.next = lambda z, a, task: z
    taken = []
    agent._estimate_value = lambda z, actions, task: taken.append(actions.clone()) or torch.zeros(len(z), 1)
    action = agent._plan(torch.ones(1, 5), t0=True, eval_mode=True)
    assert (taken[-1][0] == action).all(-1).any()
    action = agent._plan(torch.ones(1, 5), t0=True, eval_mode=False)
    assert not (taken[-1][0] == action).all(-1).any()


def test_nothing_is_earned_after_a_predicted_end(make_agent, code):
    formulas = code.module("common.math")
    agent = make_agent(episodic=True, action_dim=1)
    one = formulas.two_hot(torch.ones(32, 1), agent.cfg).clamp(min=1e-12).log()
    agent.model.reward = lambda z, a, task: one
    agent.model.next = lambda z, a, task: z + 1
    agent.model.pi = lambda z, task: (torch.zeros(len(z), 1), {})
    agent.model.Q = lambda z, a, task, return_type: torch.full((len(z), 1), 10.0)
    # Predicted once, an end stays, whatever is predicted of the states that only seem to follow.
    agent.model.termination = lambda z, task: torch.where((z > 1.5) & (z < 2.5), 0.9, 0.1)
    z = torch.cat([torch.zeros(16, 1), torch.full((16, 1), -9.0)])  # half of them end at the second step
    value = agent._estimate_value(z, torch.zeros(H, 32, 1), None)
    discount = agent.discount
    assert torch.allclose(value[:16], torch.tensor(1 + discount), atol=1e-3)
    whole = 1 + discount + discount**2 + 10 * discount**3
    assert torch.allclose(value[16:], torch.tensor(whole), atol=1e-2)
