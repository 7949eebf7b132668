"""Battles of small units in SMAC's published layout, as Warp kernels: one thread plays one battle.

`rules.py` says what happens in a step, `maps.py` and `units.py` who fights where, `layout.py` what an agent is told,
`battle.py` runs many battles as torch tensors.
"""
