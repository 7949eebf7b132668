"""The scripted user: a state machine over what it knows and wants, deterministic in the task and the agent's words.

A brief (`Task.brief`) is JSON:

    persona     terse, chatty, impatient or confused
    known       detail -> sentence, told when asked for ("user_id": "My user id is mia_li_3668.")
    requests    in order, each told when the one before is settled:
        opening     the sentence that states it
        slots       detail -> sentence, as `known`, for this request only
        must        what a summary must name before the user says yes
        change      None, or {"say", "must", "slots"}: a change of mind when asked to confirm; what holds from then on
        insist      sentences said one by one when refused, before the refusal is accepted
        inform      when an answer settles it, not an action: "number" for an answer that holds one, else true
        goal        None, or what must work on the phone: "service", "data", "speed", "mms"; "paid B1": that bill

It tells only what is asked, says yes only to a summary of what it wants, and leaves when it has its answer, is
transferred, or the agent does not get anywhere.
"""

from lib.grpo.task import Task
from lib.grpo.users import phone
from lib.grpo.users.brief_of_tau2 import brief_of_tau2
from lib.grpo.users.parser import Understood, mentions, understand
from lib.grpo.users.turns import STOP, TRANSFER, Turn, User
from lib.grpo.worlds.tools import TRANSFER_TOOL
from lib.grpo.worlds.world import World

# Unhelpful messages that a user bears; asking again for what was told is one.
PATIENCE = {"terse": 4, "chatty": 4, "impatient": 3, "confused": 4}
FILLERS = {
    "chatty": ("Thanks for taking the time! ", "Sure, happy to help you help me. ", "Oh, of course. "),
    "impatient": ("Look, I am in a hurry. ", "Again: ", "Please be quick. "),
    "confused": ("Hm, let me see. ", "I hope this is what you mean: ", "Sorry, I am not good at this. "),
}
THANKS = {
    "terse": "Thanks.",
    "chatty": "Wonderful, thank you so much for all your help!",
    "impatient": "Finally. Thanks.",
    "confused": "Oh, good. Thank you, I think that is all.",
}
RESIGNED = "That is a pity. Goodbye."


def scripted_user(task: Task, world: World) -> User:
    """The user of a task: from its brief, or for a task of the benchmark from its instructions and gold arguments."""
    return ScriptedUser(task.brief or brief_of_tau2(task), world)


class ScriptedUser:
    """See the module. Deterministic: no random number is drawn."""

    def __init__(self, brief: dict, world: World):
        self.brief = brief
        self.world = world
        self.persona = brief.get("persona", "terse")
        self.place = 0
        self.turns = self.unhelpful = 0
        self.told: set[tuple[int, str]] = set()
        self._enter()

    def open(self) -> Turn:
        return Turn(self.brief.get("greeting", "") + self.request["opening"])

    def respond(self, text: str) -> Turn:
        self.turns += 1
        heard = understand(text)
        if heard.transfer:
            return Turn(TRANSFER, "user_stop")
        if self.request.get("goal"):
            turn = self._use_phone(heard)
            if turn:
                return turn
        if heard.confirm and mentions(heard.normal, self.must):
            return self._consent()
        asked = self._answers(heard)
        if asked:
            return self._tell(asked)
        if heard.denial:
            return self._refused()
        wants = self.request.get("inform")
        if (heard.done and not heard.asked) or (wants == "number" and heard.number):
            return self._settled()
        if heard.confirm:
            return self._unhelpful(f"No, that is not what I asked for. {self.wish}")
        if heard.asked:
            return self._unhelpful("I don't know that.")
        if wants is True and not heard.waits:
            return self._settled()
        return self._unhelpful("Okay." if heard.waits else self.wish)

    # One request.

    def _enter(self) -> None:
        self.request = self.brief["requests"][self.place]
        self.must = self.request.get("must", [])
        self.slots = self.request.get("slots", {})
        self.wish = self.request["opening"]
        self.changed = False
        self.insisted = 0

    def _consent(self) -> Turn:
        change = self.request.get("change")
        if change and not self.changed:
            self.changed = True
            self.must, self.wish = change["must"], change["say"]
            self.slots = {**self.slots, **change.get("slots", {})}
            return Turn(change["say"])
        return Turn("Yes, please go ahead.")

    def _answers(self, heard: Understood) -> dict[str, str]:
        """What was asked and is known: detail -> sentence."""
        known = {**self.brief.get("known", {}), **self.slots}
        return {name: known[name] for name in heard.asked if name in known}

    def _tell(self, answers: dict[str, str]) -> Turn:
        new = [name for name in answers if (self.place, name) not in self.told]
        self.told |= {(self.place, name) for name in answers}
        sentence = " ".join(answers.values())
        return Turn(self._colour(sentence)) if new else self._unhelpful(sentence)

    def _refused(self) -> Turn:
        insist = self.request.get("insist", [])
        if self.insisted < len(insist):
            self.insisted += 1
            return Turn(insist[self.insisted - 1])
        return self._settled(refused=True)

    def _settled(self, refused: bool = False) -> Turn:
        """On to the next request, or away."""
        self.place += 1
        if self.place == len(self.brief["requests"]):
            return Turn(f"{RESIGNED if refused else THANKS[self.persona]} {STOP}", "user_stop")
        self._enter()
        self.unhelpful = 0
        return Turn(self.request["opening"])

    def _unhelpful(self, text: str) -> Turn:
        self.unhelpful += 1
        if self.unhelpful >= PATIENCE[self.persona]:
            return Turn("This leads nowhere, I give up. " + STOP, "gave_up")
        return Turn(self._colour(text))

    def _colour(self, text: str) -> str:
        """The persona's manner; every other turn, so that it does not drown the facts."""
        fillers = FILLERS.get(self.persona)
        return fillers[self.turns // 2 % len(fillers)] + text if fillers and self.turns % 2 else text

    # The phone.

    def _use_phone(self, heard: Understood) -> Turn | None:
        """Do what the agent says, or look whether it works; None when nothing is to be done on the phone."""
        goal = self.request["goal"]
        steps = phone.instructions(heard.normal, self.world)
        agrees = bool(self.must) and heard.confirm and mentions(heard.normal, self.must)
        if not steps:
            tries = phone.TRY.search(heard.normal) is not None
            if "issue" in heard.asked and not self._answers(heard):
                return self._unhelpful(self.wish)
            told = agrees or heard.denial or ((heard.asked or heard.confirm) and not tries)
            handed_over = any(call.name == TRANSFER_TOOL and not call.error for call in self.world.calls)
            if told or handed_over or not (tries or heard.done):
                return None
            steps = [phone.check_of(goal)]
        reports = [self.world.call("user", step.name, step.arguments).text for step in steps]
        report = " ".join(" ".join(text.split("\n")) for text in dict.fromkeys(reports))
        reached = phone.works(goal, self.world)
        report = f"{report} {phone.verdict(goal, reached)}".strip()
        if reached:
            settled = self._settled()
            return Turn(f"{report} {settled.text}", settled.end)
        done = {(self.place, step.name, str(step.arguments)) for step in steps}
        answers = self._answers(heard)
        new = agrees or not done <= self.told or any((self.place, name) not in self.told for name in answers)
        self.told |= done | {(self.place, name) for name in answers}
        text = " ".join([report, *answers.values(), *([self._consent().text] if agrees else [])])
        return Turn(self._colour(text)) if new else self._unhelpful(text)
