"""Prompts and answers as token ids, cut out of a chat template so that a dialogue only ever grows at its end.

What the model samples is kept as sampled. Only what is new is tokenised: the prompt once, then what answers a turn.
"""

from lib.errors import UserError
from lib.grpo.chat.template import IM_END, IM_START, TRAINING_TEMPLATE
from lib.grpo.messages import call_message, text_message

# Stands for a turn that was sampled where only what follows it is wanted.
MARK = "(turn)"
PROBE_TOOL = {
    "type": "function",
    "function": {"name": "probe", "description": "A probe.", "parameters": {"type": "object", "properties": {}}},
}


class ChatFormat:
    """A tokenizer and its chat template, as the trainer uses them.

    tokenizer: of transformers, with a chat template. `template` "model" takes the tokenizer's own, "training" the one
    that ships, "auto" the own one unless it rewrites what was said before. `notes` say what was chosen.
    Raises UserError for a tokenizer without a template, or with one that rewrites history and no ChatML tokens.
    """

    def __init__(self, tokenizer, template: str = "auto"):
        self.tokenizer = tokenizer
        self.notes: list[str] = []
        self._shared: dict[tuple, tuple[int, ...]] = {}
        own = tokenizer.chat_template
        if template == "training" or (template == "auto" and own and not self._grows(own) and self._knows_chatml()):
            if not self._knows_chatml():
                raise UserError(
                    f"--chat-template training needs the tokens {IM_START} and {IM_END}, which {_name(tokenizer)} lacks"
                )
            if template == "auto":
                self.notes.append(
                    "the model's chat template rewrites turns or leaves calls out: the training template is used"
                )
            tokenizer.chat_template = own = TRAINING_TEMPLATE
        if not own:
            raise UserError(
                f"{_name(tokenizer)} has no chat template: give an instruction-tuned model, or --chat-template training"
            )
        if not self._grows(own):
            raise UserError(
                f"the chat template of {_name(tokenizer)} rewrites earlier turns or leaves calls out, so sampled tokens"
                " cannot be kept: give --chat-template training"
            )
        self._end, self._tail = self._end_of_turn()
        self._before = len(self.render([{"role": "user", "content": "?"}]))
        self.stop_ids = self._stop_ids()

    def render(self, messages: list[dict], tools: list[dict] | None = None, prompt: bool = True) -> str:
        """The template's text; `prompt` adds the header of the next assistant turn."""
        return self.tokenizer.apply_chat_template(
            messages, tools=tools or None, add_generation_prompt=prompt, tokenize=False
        )

    def encode(self, text: str) -> list[int]:
        """Token ids of a piece of rendered text, nothing added."""
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def prompt(self, messages: list[dict], tools: list[dict]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(shared, opening): the ids of system text and tools, equal in all episodes of a domain, and of the rest."""
        ids = tuple(self.encode(self.render(messages, tools)))
        shared = self._shared_ids(messages[0], tools) if messages[0]["role"] == "system" else ()
        shared = shared if ids[: len(shared)] == shared else ()
        return shared, ids[len(shared) :]

    def answer(self, messages: list[dict], stopped: bool) -> list[int]:
        """What follows a sampled turn up to the next one: the end of the turn, `messages`, the header of the reply.

        `stopped`: the turn ended with a stop token of its own.
        """
        text = self.render([{"role": "user", "content": "?"}, text_message(MARK), *messages])
        head, _, rest = text.partition(MARK + self._end)
        assert head, text
        return self.encode(rest if stopped else self._end + rest)

    def turn_text(self, message: dict) -> str:
        """An assistant message as the model would have to write it, without the stop token."""
        text = self.render([{"role": "user", "content": "?"}, message], prompt=False)
        return text[self._before :].removesuffix(self._tail).removesuffix(self._end)

    def turn_ids(self, message: dict) -> list[int]:
        """The ids of an assistant message of a demonstration, its stop token included."""
        return self.encode(self.turn_text(message) + self._end)

    def text_of(self, ids: list[int]) -> str:
        """What a sampled turn says, without special tokens; calls stay as they were written."""
        return self.tokenizer.decode(ids, skip_special_tokens=True)

    def _shared_ids(self, system: dict, tools: list[dict]) -> tuple[int, ...]:
        """The ids that two dialogues with the same system text and tools begin with."""
        key = (system["content"], *(tool["function"]["name"] for tool in tools))
        if key not in self._shared:
            texts = (self.render([system, {"role": role, "content": role}], tools) for role in ("user", "assistant"))
            one, other = (self.encode(text) for text in texts)
            same = next(at for at, (a, b) in enumerate(zip(one, other)) if a != b)
            self._shared[key] = tuple(one[:same])
        return self._shared[key]

    def _knows_chatml(self) -> bool:
        known = self.tokenizer.get_vocab()
        return IM_START in known and IM_END in known

    def _grows(self, template: str) -> bool:
        """Whether a dialogue under the template only grows: each render with a header is the start of the next.

        And whether turns are written at all, the calls in them too.
        """
        before, self.tokenizer.chat_template = self.tokenizer.chat_template, template
        try:
            messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "one"}]
            for turn in (
                text_message("<think>\nwhy\n</think>\n\nfirst"),
                call_message("probe", {"a": 1}),
                text_message("last"),
            ):
                text = self.render(messages, [PROBE_TOOL])
                messages.append(turn)
                kind = "tool" if turn.get("tool_calls") else "user"
                messages.append({"role": kind, "content": "two", **({"name": "probe"} if kind == "tool" else {})})
                after = self.render(messages, [PROBE_TOOL], prompt=False)
                written = PROBE_TOOL["function"]["name"] if turn.get("tool_calls") else turn["content"]
                if not after.startswith(text) or written not in after[len(text) :]:
                    return False
            return True
        finally:
            self.tokenizer.chat_template = before

    def _end_of_turn(self) -> tuple[str, str]:
        """(text of the stop token, what the template puts behind it after an assistant turn)."""
        text = self.render([{"role": "user", "content": "?"}, text_message(MARK)], prompt=False)
        rest = text.rpartition(MARK)[2]
        ids = self.encode(rest)
        if not ids:
            raise UserError(f"the chat template of {_name(self.tokenizer)} marks no end of a turn: give another one")
        end = self.tokenizer.decode(ids[:1], skip_special_tokens=False)
        if not rest.startswith(end):
            raise UserError(f"the end of a turn, {rest!r}, does not begin with a token: give --chat-template training")
        return end, rest[len(end) :]

    def _stop_ids(self) -> tuple[int, ...]:
        found = {self.encode(self._end)[0]}
        if self.tokenizer.eos_token_id is not None:
            found.add(self.tokenizer.eos_token_id)
        return tuple(sorted(found))


def _name(tokenizer) -> str:
    return str(getattr(tokenizer, "name_or_path", "") or "the tokenizer")
