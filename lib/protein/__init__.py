"""Masked residue prediction from protein backbones: reading, caching, splitting, the model, its evaluation."""
