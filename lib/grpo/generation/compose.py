"""From requests to a task: the user's brief, the gold actions, the expert's messages, and the task's JSON.

Levels: 0 one request with all details given; 1 details are asked for and looked up; 2 a rule decides between acting,
refusing and transferring; 3 two requests and an amount to name; 4 distractors, changes of mind and false claims too.
"""

from dataclasses import dataclass

from lib.grpo.generation.request import DENY, TRANSFER, TRANSFER_TEXT, Request, Step
from lib.grpo.messages import call_message, text_message
from lib.grpo.task import Setting, Task
from lib.grpo.users.vocabulary import NUMERIC
from lib.grpo.worlds.tools import TRANSFER_TOOL, WRITE

CONFIRM_QUESTION = "Do you confirm (yes/no)?"
TRANSFERRED = "BEING TRANSFERRED TO A HUMAN AGENT"
QUESTIONS = {
    "user_id": "Could you please tell me your user id?",
    "email": "Could you please tell me your email address?",
    "name": "Could you please tell me your full name and zip code?",
    "phone": "Could you please tell me your phone number?",
    "reservation_id": "What is the reservation id?",
    "order_id": "What is the order id?",
    "reason": "What is the reason?",
    "payment": "Which payment method should be used?",
    "date": "Which date would you like?",
    "route": "From where to where would you like to fly?",
    "passengers": "Who are the passengers, with their dates of birth?",
    "bags": "How many checked bags do you need?",
    "cabin": "Which cabin class would you like?",
    "insurance": "Would you like travel insurance?",
    "items": "Which items is it about?",
    "new_items": "Which option would you like instead?",
    "address": "What is the new address?",
    "amount": "How much data would you like to add, in GB?",
    "line": "Which line is it about?",
    "bill": "Which bill is it about?",
    "duration": "For how many months?",
    "location": "Are you abroad at the moment?",
    "issue": "Could you describe the problem?",
}


@dataclass(frozen=True)
class Identity:
    """Who calls: details the agent asks for (in order) with the user's answers, and the look-ups that follow."""

    asked: tuple[str, ...]
    known: dict[str, str]
    steps: tuple[Step, ...]
    scenario: str


def compose(
    domain: str,
    template: str,
    seed: int,
    level: int,
    setting: Setting,
    persona: str,
    identity: Identity,
    requests: list[Request],
) -> Task:
    """The task of these requests. A request with outcome TRANSFER must be the last."""
    assert all(request.outcome != TRANSFER for request in requests[:-1])
    brief = _brief(level, persona, identity, requests)
    transfer = requests[-1].outcome == TRANSFER
    data = {
        "id": f"{template}-L{level}-{seed}",
        "description": {"purpose": f"{template}: {', '.join(request.outcome for request in requests)}"},
        "user_scenario": {"persona": persona, "instructions": _instructions(domain, identity, requests)},
        "ticket": _ticket(identity, requests),
        "initial_state": _initial_state(requests),
        "evaluation_criteria": _criteria(setting, requests, transfer),
    }
    return Task(
        domain,
        data["id"],
        data,
        setting,
        template=template,
        seed=seed,
        level=level,
        brief=brief,
        script=tuple(_script(level, identity, requests)),
        solo_script=tuple(_solo_script(identity, requests)),
    )


def _brief(level: int, persona: str, identity: Identity, requests: list[Request]) -> dict:
    rows = []
    for place, request in enumerate(requests):
        told = list(request.details.values()) if level == 0 else []
        if level == 0 and place == 0:
            told = [*identity.known.values(), *told]
        row = {"opening": " ".join([request.opening, *told]), "slots": request.details, "must": request.must}
        if request.second_thought:
            said, must, _ = request.second_thought
            row["change"] = {"say": said, "must": must, "slots": request.second_details}
        if request.insist:
            row["insist"] = request.insist
        if request.inform:
            row["inform"] = "number" if all(map(NUMERIC.fullmatch, request.communicate)) else True
        if request.goal:
            row["goal"] = request.goal
        rows.append(row)
    return {"persona": persona, "known": identity.known, "requests": rows}


def _instructions(domain: str, identity: Identity, requests: list[Request]) -> dict:
    """The brief as text, for users that are language models."""
    known, rules = [identity.scenario], ["Tell only what you are asked for. Ask for one thing after the other."]
    for number, request in enumerate(requests, 1):
        about = f"For request {number}: " if len(requests) > 1 else ""
        known.append(about + " ".join(request.details.values()))
        if request.second_thought:
            change = f"When you are asked to confirm the first time, change your mind: {request.second_thought[0]}"
            rules.append(about + change)
        rules += [f"{about}If you are refused, say: {line}" for line in request.insist]
    return {
        "domain": domain,
        "reason_for_call": " Then: ".join(request.opening for request in requests),
        "known_info": "\n".join(filter(None, (line.strip() for line in known))),
        "unknown_info": None,
        "task_instructions": " ".join(rules),
    }


def _ticket(identity: Identity, requests: list[Request]) -> str:
    """Everything the user would say in the end: after changes of mind, without claims repeated."""
    lines = [identity.scenario]
    for request in requests:
        lines.append(" ".join([request.opening, *request.details.values()]))
        if request.second_thought:
            lines.append(request.second_thought[0])
    return "\n".join(lines)


def _initial_state(requests: list[Request]) -> dict | None:
    actions = [action for request in requests for action in request.start]
    return (
        {"initialization_data": None, "initialization_actions": actions, "message_history": None} if actions else None
    )


def _criteria(setting: Setting, requests: list[Request], transfer: bool) -> dict:
    gold, phone = [], setting.domain.user_toolkit
    # ACTION looks for every gold action; what the database shows anyway is then compared by name alone.
    compare = {"compare_args": []} if transfer else {}
    for request in requests:
        for step in _final_steps(request):
            if step.kind == "write":
                gold.append({"requestor": "assistant", "name": step.text, "arguments": step.arguments, **compare})
            for name, arguments in step.user_calls:
                # There is more than one way to look at a phone.
                if phone.tools[name].kind == WRITE:
                    gold.append({"requestor": "user", "name": name, "arguments": arguments, **compare})
    if transfer:
        gold.append({"requestor": "assistant", "name": TRANSFER_TOOL, "arguments": {}, **compare})
    for place, row in enumerate(gold):
        row["action_id"] = f"{place}"
    assertions = [assertion for request in requests for assertion in request.assertions]
    basis = ["DB", "COMMUNICATE", "ENV_ASSERTION"] if assertions else ["DB", "COMMUNICATE"]
    # The policy wants it said; somebody who calls tools at random does not say it.
    told = [text for request in requests for text in request.communicate] + ([TRANSFERRED] if transfer else [])
    # A transfer where the rules want an answer would else pass for a refusal: neither changes the database.
    basis += ["ACTION"] if transfer else ["FORBIDDEN"]
    refuse = any(request.outcome == DENY for request in requests)
    basis += ["REFUSAL"] if refuse else []
    return {
        "actions": gold,
        "env_assertions": assertions or None,
        "communicate_info": told,
        "nl_assertions": None,
        "reward_basis": basis,
        "forbidden": [] if transfer else [TRANSFER_TOOL],
        "refuse": refuse,
    }


def _final_steps(request: Request) -> list[Step]:
    """The steps without those that a change of mind replaces."""
    if request.second_thought is None:
        return request.steps
    end = next(place for place, step in enumerate(request.steps) if step.kind == "confirm")
    return [*request.steps[:end], *request.second_thought[2]]


def _script(level: int, identity: Identity, requests: list[Request]) -> list[dict]:
    messages = []
    if level > 0:
        messages.append(text_message(" ".join(QUESTIONS[detail] for detail in identity.asked)))
    messages += _spoken(identity.steps, 1)
    for request in requests:
        steps = request.steps
        if request.second_thought:
            end = next(place for place, step in enumerate(steps) if step.kind == "confirm")
            steps = [*steps[: end + 1], *request.second_thought[2]]
        if request.outcome == DENY:
            steps = [*steps, *[steps[-1]] * len(request.insist)]
        messages += _spoken(steps, level)
    if requests[-1].outcome == TRANSFER:
        messages += [call_message(TRANSFER_TOOL, {"summary": requests[-1].summary}), text_message(TRANSFER_TEXT)]
    return messages


def _spoken(steps, level: int) -> list[dict]:
    """Messages of steps; neighbouring questions become one message, and at level 0 there are none."""
    messages, questions = [], []
    for step in steps:
        if step.kind == "ask":
            if level > 0:
                questions.append(QUESTIONS[step.text])
            continue
        if questions:
            messages.append(text_message(" ".join(questions)))
            questions = []
        if step.kind in ("look", "write"):
            messages.append(call_message(step.text, step.arguments))
        else:
            end = f" {CONFIRM_QUESTION}" if step.kind == "confirm" else ""
            messages.append(text_message(step.text + end))
    return messages


def _solo_script(identity: Identity, requests: list[Request]) -> list[dict]:
    """From the ticket: look-ups and writes, the phone by its tools, and one final message."""
    messages, said = [], []
    for step in (*identity.steps, *(step for request in requests for step in _final_steps(request))):
        if step.kind in ("look", "write"):
            messages.append(call_message(step.text, step.arguments))
        messages += [call_message(name, arguments) for name, arguments in step.user_calls]
        if step.kind == "say":
            said.append(step.text)
    if requests[-1].outcome == TRANSFER:
        messages.append(call_message(TRANSFER_TOOL, {"summary": requests[-1].summary}))
        said.append(TRANSFER_TEXT)
    return [*messages, text_message(" ".join(said) or "Done.")]
