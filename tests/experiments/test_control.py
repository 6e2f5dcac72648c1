"""The cart and pole, its environment, and the parts of a policy search."""

import contextlib
import math

import gymnasium
import numpy as np
import pytest
import scipy.integrate
import torch
from gymnasium.utils.env_checker import check_env

from gumdrop_experiments.cartpole.control import CartPole, SwingUp, tip_distance, tip_reward
from gumdrop_experiments.cartpole.control.policies import Policies, SearchSettings, improve, roll_out
from gumdrop_experiments.cartpole.control.search import Dynamics, Search
from gumdrop_experiments.cartpole.control.swing_up import draw_cart_pole
from gumdrop_experiments.cartpole.control.tasks import TASKS, run_trial

SMALL = SearchSettings(hidden=(16, 16), model_steps=20, policy_steps=3, num_policies=4, num_particles=6)
TASK = TASKS["swing-up"]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def some_policies(task=TASK, count=3):
    return Policies(task, SearchSettings(num_policies=count, policy_units=8), generator())


# The equations of motion


def lagrange(state, force, cart_pole):
    """Accelerations from the mass matrix of a cart and a rod, with the rod's centre at half its length."""
    _, v, theta, omega = state
    half, m = cart_pole.length / 2, cart_pole.pole_mass
    inertia = m * cart_pole.length**2 / 12
    mass = [
        [cart_pole.cart_mass + m, m * half * math.cos(theta)],
        [m * half * math.cos(theta), inertia + m * half**2],
    ]
    push = [
        force - cart_pole.friction * v + m * half * omega**2 * math.sin(theta),
        m * cart_pole.gravity * half * math.sin(theta),
    ]
    acceleration, angular = np.linalg.solve(mass, push)
    return [v, acceleration, omega, angular]


@pytest.mark.parametrize("force", [-7.0, 0.0, 9.3])
def test_motion_agrees_with_an_independent_integration(force):
    cart_pole = CartPole(cart_mass=0.7, pole_mass=0.4, length=0.8, friction=0.3, gravity=9.5)
    start = np.array([0.3, -0.7, 2.1, 3.0])
    found = cart_pole.advance(torch.from_numpy(start), torch.tensor(force), seconds=0.5, substeps=200)
    solved = scipy.integrate.solve_ivp(
        lambda _, state: lagrange(state, force, cart_pole), (0, 0.5), start, method="DOP853", rtol=1e-11, atol=1e-12
    )
    np.testing.assert_allclose(found.numpy(), solved.y[:, -1], atol=1e-8)


def test_reward_is_one_at_the_goal_and_falls_with_the_distance():
    state = torch.tensor([[0.0, 5.0, 0.0, -3.0], [0.25, 0.0, 0.0, 0.0], [0.0, 0.0, math.pi, 0.0]], dtype=torch.float64)
    assert tip_distance(state).tolist() == pytest.approx([0, 0.25, 1.2])
    assert tip_reward(state).tolist() == pytest.approx([1, math.exp(-0.5), math.exp(-(1.2**2) / (2 * 0.25**2))])


# The environment


def test_the_environment_passes_the_checker_of_gymnasium():
    check_env(gymnasium.make("gumdrop/CartPoleSwingUp-v0", render_mode="rgb_array").unwrapped)


def test_an_episode_has_25_steps_and_repeats_with_its_seed():
    environment = gymnasium.make("gumdrop/CartPoleSwingUp-v0")
    runs = []
    for _ in range(2):
        observation, information = environment.reset(seed=3)
        assert information["distance"] == pytest.approx(1.2, abs=0.05)
        steps, cut = [observation], False
        while not cut:
            observation, reward, ended, cut, _ = environment.step(np.array([0.5], np.float32))
            assert 0 <= reward <= 1
            assert not ended
            steps.append(observation)
        runs.append(np.array(steps))
    assert len(runs[0]) == 26
    np.testing.assert_array_equal(*runs)
    np.testing.assert_allclose(runs[0][0], [0, 0, np.pi, 0], atol=0.1)


def test_actions_are_clipped_to_ten_newton():
    ends = []
    for action in (1.0, 5.0):
        environment = SwingUp()
        environment.reset(seed=0)
        ends.append(environment.step(np.array([action], np.float32))[0])
    np.testing.assert_array_equal(*ends)


def test_render_draws_what_changes():
    environment = SwingUp(render_mode="rgb_array")
    environment.reset(seed=0)
    before = environment.render()
    environment.step(np.array([1.0], np.float32))
    after = environment.render()
    assert before.shape == after.shape == (300, 480, 3)
    assert (before != after).any()
    assert SwingUp().render() is None
    assert (draw_cart_pole((9.0, 0, 0, 0)) == draw_cart_pole((99.0, 0, 0, 0))).all()  # at the edge


def test_an_unknown_render_mode_is_an_error():
    with pytest.raises(ValueError, match="`render_mode` must be 'rgb_array' or None, got 'human'"):
        SwingUp(render_mode="human")


# Tasks


@pytest.mark.parametrize("name", TASKS)
def test_a_task_knows_its_environment(name):
    """Reward and true dynamics of a task are those of the environment."""
    task = TASKS[name]
    actions = iter(torch.linspace(-task.max_action, task.max_action, 300))
    trial = run_trial(task, lambda state: next(actions), seed=5)
    before, after = trial.states[:-1], trial.states[1:]
    torch.testing.assert_close(task.reward(before, trial.actions, after), trial.rewards, atol=1e-3, rtol=1e-3)
    gap = task.difference(task.advance(before, trial.actions), after)
    assert gap.abs().max() < 2e-3
    assert task.features(before).shape == (len(before), task.num_states + 1) == (len(before), len(task.scale))


def test_features_are_the_same_after_a_full_turn():
    state = torch.tensor([[0.3, -1.0, 2.0, 4.0]])
    turned = state + torch.tensor([0, 0, 2 * torch.pi, 0])
    torch.testing.assert_close(TASK.features(state), TASK.features(turned))
    torch.testing.assert_close(TASK.difference(turned, state), torch.zeros(1, 4), atol=1e-6, rtol=0)


def test_the_objective_is_largest_at_the_goal_and_has_a_slope_where_the_pole_hangs():
    hanging = torch.tensor([0.0, 0.0, 3.0, 0.0], requires_grad=True)
    TASK.objective(hanging, torch.zeros(()), hanging).backward()
    assert hanging.grad[2] < -0.01
    assert TASK.objective(hanging, torch.zeros(()), torch.zeros(4)) == 1


# The model


def trials(count=3):
    policies = some_policies(count=count)
    return [
        run_trial(TASK, lambda state, which=i: policies.act(which, TASK.features(state)), seed=i) for i in range(count)
    ]


def test_a_particle_keeps_its_function_for_every_step_and_policy():
    dynamics = Dynamics(TASK, SMALL, seed=0)
    dynamics.learn(trials(1), seed=0)
    torch.nn.init.constant_(dynamics.network[-1].log_variance, -200.0)  # no noise: masks alone
    state = torch.zeros(2, 5, 4)
    action = torch.full((2, 5), 0.3)
    before = torch.get_rng_state()
    with torch.no_grad(), dynamics.drawn(2, 5, generator()) as advance:
        first, second = advance(state, action), advance(state, action)
    with torch.no_grad(), dynamics.drawn(2, 5, generator(1)) as advance:
        other = advance(state, action)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, second)
    torch.testing.assert_close(first[0], first[1])  # the same functions for both policies
    assert len(first[0].unique(dim=0)) > 1  # another one for each particle
    assert not torch.equal(first, other)
    assert not any("forward" in vars(module) for module in dynamics.modules())


def test_drawn_functions_have_the_moments_of_the_prediction():
    dynamics = Dynamics(TASK, SMALL, seed=0)
    seen = trials(2)
    dynamics.learn(seen, seed=0)
    prediction = dynamics.predict(seen[:1], num_samples=4000, seed=0)
    state, action = seen[0].states[4], seen[0].actions[4]
    with torch.no_grad(), dynamics.drawn(1, 4000, generator()) as advance:
        change = advance(state.expand(1, 4000, -1), action.expand(1, 4000)) - state
    mean, variance = change[0].mean(0), change[0].var(0)
    torch.testing.assert_close(mean, prediction.mean[4], atol=0.1 * float(prediction.std[4].max()), rtol=0.1)
    torch.testing.assert_close(variance, prediction.variance[4], rtol=0.2, atol=1e-5)


def test_without_dropout_all_particles_see_one_function():
    dynamics = Dynamics(TASK, SearchSettings(p=0.0, learned=False, hidden=(16,), log_variance=-200.0), seed=0)
    with torch.no_grad(), dynamics.drawn(1, 50, generator()) as advance:
        change = advance(torch.zeros(1, 50, 4), torch.ones(1, 50))
    assert len(change[0].unique(dim=0)) == 1


def test_moment_matching_keeps_mean_and_covariance():
    policies = some_policies(count=2)
    spread = torch.tensor([1.0, 0.3, 2.0, 0.5])

    def advance(state, action):
        return state + spread * torch.randn(state.shape, generator=generator(7))

    plain, matched = (
        roll_out(TASK, policies, advance, num_particles=4000, moment_matching=matching, generator=generator())[0][1]
        for matching in (False, True)
    )
    assert not torch.allclose(plain, matched)
    torch.testing.assert_close(matched.mean(1), plain.mean(1), atol=0.12, rtol=0)
    for a, b in zip(matched, plain, strict=True):
        torch.testing.assert_close(a.T.cov(), b.T.cov(), atol=0.15, rtol=0.1)


@pytest.mark.parametrize("decay", [1.0, 0.5])
def test_the_gradient_fades_as_it_goes_back_in_time(decay):
    """With x' = x + a · w and every reward the last x, step t contributes decay^(T - 1 - t)."""
    weight = torch.ones((), requires_grad=True)
    states, _ = roll_out(
        TASK,
        some_policies(count=1),
        lambda state, action: state + weight,
        num_particles=2,
        gradient_decay=decay,
        generator=generator(),
    )
    states[-1, 0, 0, 0].backward()
    assert float(weight.grad) == pytest.approx(sum(decay**t for t in range(TASK.horizon)), rel=1e-4)


def test_policies_improve_with_the_true_dynamics_each_on_its_own():
    policies = some_policies(count=4)
    settings = SearchSettings(policy_steps=12, num_particles=2)
    before = [parameter.detach().clone() for parameter in policies.parameters()]

    def objective():
        with torch.no_grad():
            states, actions = roll_out(TASK, policies, TASK.advance, num_particles=8, generator=generator())
            return TASK.objective(states[:-1], actions, states[1:]).mean((0, 2))

    start = objective()
    improve(TASK, policies, lambda: contextlib.nullcontext(TASK.advance), settings, generator=generator())
    assert objective().mean() > start.mean() + 0.02
    assert all(not torch.equal(a, b) for a, b in zip(before, policies.parameters(), strict=True))


# The loop


def test_two_short_trials_learn_from_all_that_was_seen():
    search = Search(TASK, SMALL, seed=1)
    state = torch.get_rng_state()
    first, second = search.run_next(), search.run_next()
    assert torch.equal(torch.get_rng_state(), state)
    assert len(first.states) == len(second.states) == 26
    assert search.trials == [first, second]
    assert not torch.equal(first.actions, second.actions)
    assert 0 < float(search.dynamics.network[0].concrete_dropout.p) != pytest.approx(0.1, abs=1e-4)
    acted = search.act(second.states[:-1])
    torch.testing.assert_close(acted, second.actions)
    assert search.imagine(7, seed=0).shape == (26, 7, 4)


def test_a_search_goes_on_where_it_was_saved(tmp_path):
    whole = Search(TASK, SMALL, seed=2)
    for _ in range(3):
        whole.run_next()
    stopped = Search(TASK, SMALL, seed=2)
    for _ in range(2):
        stopped.run_next()
    stopped.save(tmp_path / "search.pt", [{"reward": 1.5}])
    resumed = Search(TASK, SMALL, seed=2)
    assert resumed.load(tmp_path / "search.pt") == [{"reward": 1.5}]
    assert torch.equal(resumed.run_next().states, whole.trials[-1].states)


def test_the_loop_runs_on_the_pendulum_of_gymnasium():
    search = Search(TASKS["pendulum"], SMALL, seed=0)
    assert search.run_next().total < 0
    assert len(search.run_next().actions) == 200
