"""Who talks to the agent: scripted, a language model behind an endpoint or of our own, or nobody (a ticket)."""
