"""Between messages and token ids: chat templates, prompts, and the tiny model with its own vocabulary."""
