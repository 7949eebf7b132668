"""Value-based learning of a team: recurrent agents, mixers, the update of QMIX, episodes and their replay."""
