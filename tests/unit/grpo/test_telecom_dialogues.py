"""Experts of generated telecom tasks follow the policy to the letter, and users agree to what they want only."""

from collections import Counter
from itertools import pairwise

import pytest
from episode_samples import run

from lib.grpo import make_task, templates
from lib.grpo.demonstrations import expert
from lib.grpo.generation.generate import LEVELS
from lib.grpo.users.parser import mentions, normalise
from lib.grpo.worlds.tools import WRITE

# The order in which the policy wants phones repaired; for picture messages the APN settings come late.
REPAIRS = [
    "toggle_airplane_mode",
    "reseat_sim_card",
    "reset_apn_settings",
    "toggle_roaming",
    "toggle_data",
    "toggle_data_saver_mode",
    "set_network_mode_preference",
    "disconnect_vpn",
    "toggle_wifi_calling",
    "reset_apn_settings",
    "grant_app_permission",
]


@pytest.mark.parametrize("template", templates("telecom"))
def test_experts_are_read_as_they_are_meant_and_repair_in_the_policys_order(template):
    for level in LEVELS:
        for seed in range(12):
            task = make_task("telecom", template, seed, level)
            environment = run(task, expert(task))
            tools = environment.world.user.tools
            done = [call for call in environment.world.calls if call.requestor == "user"]
            done = [(call.name, call.arguments) for call in done if tools[call.name].kind == WRITE]
            gold = [(action.name, action.arguments) for action in task.actions if action.requestor == "user"]
            rest = iter(done)
            assert all(call in rest for call in gold), task.key
            # A phone is rebooted after its line was resumed, also where later repairs make that needless.
            more = Counter(name for name, _ in done) - Counter(name for name, _ in gold)
            assert set(more) <= {"reboot_device"}, task.key
            pictures = any(request.get("goal") == "mms" for request in task.brief["requests"])
            order = REPAIRS[:2] + REPAIRS[3:] if pictures else REPAIRS
            repairs = [order.index(name) for name, _ in done if name in order]
            assert repairs == sorted(repairs), task.key


@pytest.mark.parametrize("template", templates("telecom"))
def test_users_agree_to_what_they_want_and_to_nothing_else(template):
    for level in LEVELS:
        for seed in range(12):
            task = make_task("telecom", template, seed, level)
            said = [request["change"]["say"] for request in task.brief["requests"] if request.get("change")]
            messages = run(task, expert(task)).messages
            for message, answer in pairwise(messages):
                if message["role"] == "assistant" and "Do you confirm" in (message["content"] or ""):
                    wanted = ["Yes, please go ahead.", *said]
                    assert any(text in answer["content"] for text in wanted), f"{task.key}: {answer['content']}"
            for request in task.brief["requests"]:
                for text in OTHERS:
                    assert not mentions(normalise(text), request["must"]), f"{task.key}: {text}"


OTHERS = [
    "I will enable roaming on line 555-000-99999, free of charge. Do you confirm?",
    "I will disable roaming on line 555-000-99999, free of charge. Do you confirm?",
    "I will add 1.75 GB to line 555-000-99999 for 5 dollars. Shall I proceed?",
    "I will suspend line 555-000-99999 for 14 months. Is that right?",
    "I will cancel your contract. Is that okay?",
]


@pytest.mark.parametrize("template", ["refuel", "change_roaming", "data_used_up"])
def test_after_a_change_of_mind_details_are_the_new_ones(template):
    changes = 0
    for seed in range(30):
        for request in make_task("telecom", template, seed, 4).brief["requests"][:1]:
            change = request.get("change")
            if change:
                changes += 1
                ((name, sentence),) = change["slots"].items()
                value = sentence.rstrip(".").split()[-2 if name == "amount" else -1]
                assert value in change["say"] and request["slots"].get(name) != sentence
    assert changes > 5
