"""How sure a measured share is."""

import math

NORMAL_95 = 1.959963984540054  # 95 % of a normal distribution lie within so many standard deviations


def wilson(successes: float, trials: float) -> tuple[float, float]:
    """The 95 % score interval of a share of independent trials (E. B. Wilson, 1927); 0 to 1 without trials.

    Unlike the bootstrap it has a width at 0 and 1.
    """
    if not trials:
        return 0.0, 1.0
    share, z = successes / trials, NORMAL_95 * NORMAL_95 / trials
    middle = (share + z / 2) / (1 + z)
    half = math.sqrt(share * (1 - share) * z + z * z / 4) / (1 + z)
    # Rounding must not keep the ends off 0 and 1, where they belong.
    return middle - half if successes else 0.0, middle + half if successes < trials else 1.0
