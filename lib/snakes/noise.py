"""The game's random numbers: every draw is a function of (seed, global game id, episode, stream, step, counter).

They are those of `lib.warp_noise`; one function more, for numbers in base 3:

    ternary(x, i)                   bounded(x * 3^i mod 2^32, 3): the i-th base-3 digit of x / 2^32

`game` is the global game id (first_game + slot), `episode` counts the games of a slot from 0. Who draws what:

RESET, step 0, counter 0, 1, 2, ... in the order of use
    For snakes 0 to 5: direction = bounded(draw, 4), row = bounded(draw, 10), col = bounded(draw, 20), that is the tail;
    two more cells follow in that direction, the third is the head. When any of the three is taken by an earlier snake,
    all three numbers are drawn again (the counter goes on). Then five beans: k = bounded(draw, free), the bean lies on
    the k-th cell (from 0) in scan order without snake and without bean.
REVERSAL, step t, counter 0: one word x for the whole step
    A snake i whose action is the reverse of its direction d moves in the ternary(x, i)-th direction (from 0) of those
    of up, down, left, right that are not the reverse of d.
BEANS, step t, counter j for the j-th bean (from 0) placed in this step
    k = bounded(draw, free), the bean is appended to the list on the k-th free cell in scan order, as above.
BOT, step t, counter 0: one word x for the whole step
    The random player's action of snake i is (x >> 2 i) & 3. Other players must use counters from 16.
EXPLORE, step t, counter 8 i + k for snake i (`SnakesVec.choose`)
    k = 0..3: Gumbel noise of move k, -log(-log(uniform(draw))); k = 4: explore when uniform(draw) < epsilon;
    k = 5: then the bounded(draw, n)-th of the n allowed moves in the order up, down, left, right.

t = steps made in this game before the step (0 for the first step of a game).
"""

RESET = 0
BEANS = 1
REVERSAL = 2
BOT = 3
EXPLORE = 4
