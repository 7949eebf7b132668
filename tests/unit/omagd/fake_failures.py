"""When a stand-in for a game fails: where FAKE_GAME_FAILS says so.

As {"number of the game that was made": [step, "silent" or "raise"]}.
"""

import json
import os

made = [0]


def next_failure() -> tuple[int, str]:
    """(step, how) of the game that is made now; step 0 = in its reset, -1 = never."""
    made[0] += 1
    step, how = json.loads(os.environ.get("FAKE_GAME_FAILS", "{}")).get(str(made[0]), (-1, ""))
    return step, how
