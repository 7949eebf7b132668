"""Cooperative battles of small units, and value-based learning of teams for them."""
