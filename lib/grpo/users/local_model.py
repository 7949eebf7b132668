"""A user played by a causal language model of the transformers library, in this process."""

import torch


class LocalModel:
    """`complete(messages, tools)` with a model and its tokenizer, greedily; the chat template must know tools.

    `max_new_tokens` bounds one message. Nothing of the model is trained here.
    """

    def __init__(self, model, tokenizer, max_new_tokens: int = 128):
        self.model, self.tokenizer, self.max_new_tokens = model, tokenizer, max_new_tokens

    @torch.no_grad()
    def complete(self, messages: list[dict], tools: list[dict]) -> dict:
        ids = self.tokenizer.apply_chat_template(
            messages, tools=tools or None, add_generation_prompt=True, return_tensors="pt", return_dict=True
        ).to(self.model.device)
        out = self.model.generate(**ids, max_new_tokens=self.max_new_tokens, do_sample=False)
        text = self.tokenizer.decode(out[0, ids["input_ids"].shape[1] :], skip_special_tokens=True)
        return {"role": "assistant", "content": text}
