"""Generated worlds: seeded databases, task templates, and a solver that writes gold actions and expert dialogues."""
