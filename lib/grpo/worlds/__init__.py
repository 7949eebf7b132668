"""Service domains as one engine: databases, tools, users, tasks and rewards; plain Python, no model."""
