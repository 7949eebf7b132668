"""Stages, task draws, continual-learning methods and their scores."""
