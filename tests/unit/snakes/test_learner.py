"""The update against gradients written out by hand, and what must not be trained by it."""

import pytest
import torch

from lib.snakes.learner import STATISTICS, Batch, Learner, LearnerConfig, Targets, gumbel_straight_through
from lib.snakes.network import BLOCKED, MASKED, Actor, ActorConfig, Critic
from lib.snakes.rules import FEATURES

INPUTS = FEATURES["team"]


def learner(**changes) -> Learner:
    torch.manual_seed(0)
    changes.setdefault("huber", 1.0)
    actor = ActorConfig(hidden=(16, 16), comm=changes.pop("comm", "none"), output=changes.pop("output", "softmax"))
    made = Learner(LearnerConfig(actor, **changes))
    with torch.no_grad():  # away from the nearly uniform start
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made


def batch(size: int = 5, weight: float = 1.0) -> Batch:
    generator = torch.Generator().manual_seed(1)
    features = torch.rand(2, size, 3, INPUTS, generator=generator)
    actions = torch.randint(0, 4, (size, 3), generator=generator)
    returns = torch.rand(size, 3, generator=generator)
    return Batch(features[0], actions, returns, torch.full((size, 1), 0.9), features[1], torch.full((size, 1), weight))


def run(model: Learner, data: Batch, targets: torch.Tensor):
    return model(data.features, data.actions, targets, data.weight, 3)


def test_critics_move_towards_the_target_of_the_executed_action_alone():
    model, data = learner(), batch()
    targets = torch.zeros(5, 3)
    loss, sums, finite = run(model, data, targets)
    loss.backward()
    with torch.no_grad():
        expected = 0.0
        for critic in model.critics:
            q = critic(data.features, None, None)
            error = q.gather(-1, data.actions[..., None]).squeeze(-1)
            expected += torch.where(error.abs() < 1, 0.5 * error**2, error.abs() - 0.5).sum()
    assert dict(zip(STATISTICS, sums.tolist()))["critic_loss"] == pytest.approx(float(expected), rel=1e-5)
    assert finite.tolist() == [True] * 5
    # The gradient of the last bias of a critic: clipped errors, summed by action.
    q = model.critics[0](data.features, None, None).detach()
    errors = q.gather(-1, data.actions[..., None]).squeeze(-1).clamp(-1, 1)
    bias = torch.zeros(4).index_add_(0, data.actions.flatten(), errors.flatten())
    assert torch.allclose(model.critics[0].layers[-1].bias.grad, bias, atol=1e-5)


def test_the_actor_follows_the_value_of_its_policy():
    """d/dlogits of -<p, min Q> - bonus H is -p (Q - <p, Q>) + bonus p (log p + H)."""
    model, data = learner(entropy_bonus=0.05), batch()
    loss, _, _ = run(model, data, torch.zeros(5, 3))
    loss.backward()
    with torch.no_grad():
        logits = model.actor(data.features)
        p, log_p = torch.softmax(logits, -1), torch.log_softmax(logits, -1)
        q = torch.minimum(*(critic(data.features, None, None) for critic in model.critics))
        entropy = -(p * log_p).sum(-1, keepdim=True)
        gradient = -p * (q - (p * q).sum(-1, keepdim=True)) + 0.05 * p * (log_p + entropy)
    assert torch.allclose(model.actor.layers[-1].bias.grad, gradient.sum((0, 1)), atol=1e-5)


@pytest.mark.parametrize("changes", [{}, {"central": True}, {"comm": "lstm"}, {"central": True, "comm": "lstm"}])
@pytest.mark.parametrize("relaxation", ["linear", "gumbel_st"])
def test_the_actor_loss_does_not_train_critics(changes, relaxation):
    """With critics that are right already, nothing but the actor has a gradient."""
    model, data = learner(relaxation=relaxation, critics=1, **changes), batch()
    executed = torch.nn.functional.one_hot(data.actions, 4).float()
    with torch.no_grad():
        values = model.critics[0](data.features, executed, executed)
        right = (values * executed).sum(-1) if relaxation == "linear" else values.squeeze(-1)
    loss, _, _ = run(model, data, right)
    loss.backward()
    assert all(p.grad is None or p.grad.abs().max() < 1e-6 for p in model.critics.parameters())
    assert max(float(p.grad.abs().max()) for p in model.actor.parameters()) > 1e-4


def test_rows_of_weight_zero_do_not_count():
    model, data = learner(), batch()
    half = data._replace(weight=torch.tensor([[1.0], [1.0], [0.0], [0.0], [0.0]]))
    cut = Batch(*(part[:2] for part in data))
    one, two = run(model, half, torch.zeros(5, 3))[0], run(model, cut, torch.zeros(2, 3))[0]
    assert one.item() == pytest.approx(two.item(), rel=1e-5)


def test_a_number_that_is_not_finite_is_found_in_its_row():
    model, data = learner(), batch()
    data.features[3, 1, 7] = float("nan")
    assert run(model, data, torch.zeros(5, 3))[2].tolist() == [True, True, True, False, True]


def test_targets_are_returns_plus_the_lowest_value_of_the_target_policy():
    model, data = learner(), batch()
    targets = Targets(model, 0.9)
    with torch.no_grad():
        p = torch.softmax(model.actor(data.next_features), -1)
        values = [(p * critic(data.next_features, None, None)).sum(-1) for critic in model.critics]
    expected = data.returns + 0.9 * torch.minimum(*values)
    assert torch.allclose(targets(data, 0), expected, atol=1e-6)
    ended = data._replace(discount=torch.zeros(5, 1))
    assert torch.equal(targets(ended, 0), data.returns)


def test_targets_follow_slowly_and_come_back_from_a_checkpoint():
    model = learner()
    targets = Targets(model, 0.9)
    before = {name: value.clone() for name, value in targets.tensors.items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5)
    with torch.no_grad():  # memory of their own, as a move to a device may give them
        for parameter in model.parameters():
            parameter.data = parameter.data.clone()
            parameter.add_(0.5)
    targets.follow(0.1)
    assert all(torch.allclose(value, before[name] + 0.1, atol=1e-6) for name, value in targets.tensors.items())
    other = Targets(learner(), 0.9)
    other.load(targets.tensors)
    assert all(torch.equal(value, targets.tensors[name]) for name, value in other.tensors.items())


def test_gumbel_samples_have_the_distribution_of_the_policy_and_its_gradient():
    logits = torch.tensor([0.0, 1.0, 2.0, -1.0]).repeat(20_000, 1, 1).requires_grad_()
    sample = gumbel_straight_through(logits, 1.0, 5)
    assert torch.equal(sample.detach().round().sum(-1), torch.ones(20_000, 1))
    assert torch.allclose(sample.detach().mean((0, 1)), torch.softmax(logits[0, 0], -1), atol=0.015)
    (gradient,) = torch.autograd.grad((sample * torch.tensor([0.0, 0.0, 1.0, 0.0])).sum(), logits)
    assert gradient[..., 2].mean() > 0 > gradient[..., 1].mean()


def test_the_mask_takes_blocked_moves_out_but_not_tails():
    features = torch.zeros(1, 3, INPUTS)
    features[0, 0, BLOCKED[2]], features[0, 1, BLOCKED[1]] = 1.0, 0.5
    masked, plain = (Actor(ActorConfig(mask=mask)) for mask in (True, False))
    plain.load_state_dict(masked.state_dict())
    difference = (plain(features) - masked(features))[0]
    expected = torch.zeros(3, 4)
    expected[0, 2] = MASKED
    assert torch.allclose(difference, expected, atol=1e-3, rtol=0)


def test_mates_hear_each_other_only_with_communication():
    features = torch.rand(2, 3, INPUTS)
    changed = features.clone()
    changed[:, 0] = torch.rand(2, INPUTS)
    for comm, hears in (("none", False), ("lstm", True)):
        torch.manual_seed(0)
        actor = Actor(ActorConfig(comm=comm, mask=False, hidden=(16, 16)))
        with torch.no_grad():
            actor.layers[-1].weight.mul_(100)
        apart = (actor(features) - actor(changed)).abs().amax((0, 2))
        assert apart[0] > 1e-4
        assert (apart[1:] > 1e-6).all() == hears


def test_a_central_critic_sees_its_mates_moves_and_not_its_own():
    critic = Critic(ActorConfig(hidden=(16, 16)), "linear", central=True)
    with torch.no_grad():
        critic.layers[-1].weight.normal_()
    features, moves = torch.rand(1, 3, INPUTS), torch.eye(4)[None, [0, 1, 2]]
    other = moves.clone()
    other[0, 0] = torch.eye(4)[3]
    apart = (critic(features, None, moves) - critic(features, None, other)).abs().amax(-1)[0]
    assert apart[0] == 0 and (apart[1:] > 1e-4).all()
