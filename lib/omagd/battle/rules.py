"""What happens in a battle, in the order in which it happens.

**Time.** A step has TICKS = 8 ticks of dt = 1 / tick_rate seconds (16, or 22.4 as in StarCraft II). Actions hold for a
step. What a tick decides it decides from how things stand when it begins; no unit gains by its number.

**Orders.** An ally stops (stands, does not fire), walks to a point MOVE = 2 units away (fixed when the step begins), or
attacks an enemy (a healer: heals an ally). Enemies follow the script below. An attacker with gap = distance - range -
both radii > 0 walks towards its target until gap = -SLACK; with gap <= 0 it stands, and fires when its cooldown is 0.
An ally whose target was dead when the tick began stands. (All numbers are float32; range + own radius is one of them.)

**Fire.** A shot sets the cooldown to the type's plus dt x uniform(-1, 2). Each of its attacks does the type's damage,
plus the bonus against the attribute named; shields take what they can, the rest less the armour goes to the health,
which ends at 0. Only types that hit air fire at flying units. Shots of a tick fall in the order of the units' numbers,
and those who fall still fire in that tick.
    A colossus hits every ground opponent that meets a box around its target, SPLASH_DEPTH along the line of fire and
SPLASH_WIDTH across: |along| <= SPLASH_DEPTH / 2 + radius, |across| <= SPLASH_WIDTH / 2 + radius. A baneling dies when
it fires, and hits every ground opponent within BLAST of its centre to their edges.

**Healing**, after the shots: a healer that still lives and has gap <= 0 gives min(HEAL dt, what is missing,
ENERGY_HEALS x energy) health to a living unit that does not heal, and pays the ENERGY_HEALS-th part of it in energy;
another patient than its last needs FIRST_ENERGY.

**Motion.** Walkers make min(speed dt, what is left of the way). Then living units of one layer (ground or air) that
overlap are pushed apart once: each by half of the overlap, along the line between their centres (along x where these
are one point, the lower number to the left); a unit of speed 0 stays, and its neighbour takes the whole. A ground unit
that would then stand where it cannot moves in x alone, else in y alone, else not at all; flyers stay on the map.
Way and push are one motion, from where the tick began.
    On grounds with walls (corridor, ravine) a ground unit on its way to a target or to the attack point heads for it
where the line between the centres of both cells is free, else for the centre of the first corner of a shortest way
(`paths.py`), at full speed whatever the gap. Where there is no way, or the goal is over no ground, it goes straight.
What an ally was ordered to walk is straight, too. There a push is at most PUSH_MOST, so that a crowd pushes nobody
through a wall of one cell.

**Timers**, at the end of a tick. Cooldowns fall by dt to 0. A hit sets a calm of CALM_S seconds, which falls by dt at
the end of the same tick already; where it is 0 after that, a shield gains SHIELD_RATE a second. Zerg units gain their
regeneration, healers ENERGY_RATE energy up to ENERGY_MOST.

**Enemy script**, at the beginning of a tick. A fighter keeps a living target that aims at it or that it can reach
(gap <= 0); but while an opponent that heals lives, a target that does not heal is chosen anew. Else it chooses among
the living opponents it can hit whose edge is within max(5, range) (the spine crawler 10): healers before others, then
the nearest; of equals the one with the lower number. Finding none, it answers who hit it first in the tick before, if
that one lives and it can hit it. Without a target it walks to the attack point. A healer follows, among comrades that
do not heal within HEALER_SCAN to their edges, the wounded one with the least health, else the nearest one that had a
target when the tick began, and is no faster than the slowest of them; without one it walks to the attack point.

**Reward**: of a step, as a share of (the enemies' greatest health and shields + 10 for each + 200) / 20:
    signed      (default) what enemies lost in health and shields, less what they regained, 10 for each killed, 200 for
                a victory. The sums telescope: every victory gives 20 (but for what a lone healer left, below)
    smac_abs    the same, without the victory in absolute value, as SMAC has it: it pays for what enemies regain
    damage      losses by hits alone count (a baneling's own end is its health), as SMAClite has it
    negative    signed, less half of what allies lost by hits or their own end, less 5 for each ally that died
    sparse      1 for a victory, -1 for a defeat, not scaled

**End**, tested after a step in this order: defeat when no ally is left but an enemy is, or when of allies that began
with a healer nobody is left who does not heal; victory when no enemy is left but an ally is, or of the enemies just
one, a healer; a draw when nobody is left; else the time limit.

**Start.** Units stand on the grids of their groups, the enemies' point-mirrored, each moved by uniform(-j, j) in x and
y (j: spawn jitter, 0.3) where it may stand then. Healers have START_ENERGY.

**Random numbers** are those of `lib.warp_noise`, by (seed, battle, episode), uniform(a, b) = a + (b - a) uniform:
    SPAWN    step 0, counter 2 u and 2 u + 1 for x and y of unit u
    JITTER   step t, counter tick x units + u, for a shot
    EXPLORE  step t, counter 2 a (explore?) and 2 a + 1 (which action) of agent a, in `choose` and the random player

Sources: SMAC (arXiv 1902.04043) for actions, reward and end; SMAClite (arXiv 2305.05566) for units, healing, splash and
the script; SMAX (arXiv 2311.10090) for the cooldown's jitter and the push.
"""

TICKS = 8
MOVE = 2.0
SLACK = 0.01
PUSH_MOST = 0.5
REACH = 6.0  # SMAC's range of the attack action, of every type
SPLASH_DEPTH, SPLASH_WIDTH = 0.3, 2.8
BLAST = 2.2
HEAL = 9.0  # health a second
ENERGY_HEALS = 3.0  # health for a point of energy
FIRST_ENERGY, START_ENERGY, ENERGY_MOST, ENERGY_RATE = 5.0, 50.0, 200.0, 0.5625
CALM_S = 10.0
SHIELD_RATE = 2.0
HEALER_SCAN = 5.0
LOOPS_PER_S = 22.4  # of StarCraft II, in which SMAC tells cooldowns
KILL, VICTORY, GREATEST_RETURN = 10.0, 200.0, 20.0
TICK_RATES, SIGHT_MOST, JITTER_MOST = (16.0, 22.4), 1000, 2
REWARDS = ("signed", "smac_abs", "damage", "negative", "sparse")
SPAWN, JITTER, EXPLORE = 0, 1, 2
