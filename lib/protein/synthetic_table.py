"""The fixed numbers of the synthetic law, tuned on the default set (512 chains, seed 0).

Preferences are those of real proteins in kind (helix formers, branched strands, glycine at positive phi, opposite
charges in contact) and exaggerated in size, so that the exact perplexities come out near 18 (unigram), 9.0 (backbone
only) and 7.5 (15 % masked). Logits in nats.
"""

from lib.protein.synthetic_law import LETTERS, Law

OWN_LOGITS = """
#  helix strand  ppII   left    end  buried
A   1.62  -1.35  -0.26  -1.04   0.53   0.71
C  -0.93   0.48  -1.08  -1.87  -0.77   1.83
D   0.44  -0.97   0.91   1.69   0.44  -1.63
E   0.80  -1.24  -1.08  -0.77  -0.77  -2.04
F  -0.13   1.28  -0.29  -1.07   0.03   2.04
G  -1.00  -0.38   1.19   4.80   1.50   0.20
H   0.28   0.43  -0.04   0.28   0.28  -0.20
I   0.04   1.76  -0.75  -2.32   0.19   2.04
K   0.60  -0.97  -0.03  -0.50   0.44  -2.04
L   1.40   0.46  -0.01  -1.11   0.30   2.04
M   0.30  -0.64  -1.73  -2.20   0.15   1.83
N  -0.53  -1.00   0.88   2.92   0.41  -1.22
P  -2.70  -1.92   3.57  -2.39   0.12  -0.20
Q   0.38  -0.72  -1.03  -0.72  -0.72  -1.63
R   0.80  -0.29  -0.61  -0.29  -0.29  -1.63
S   0.29   0.76   2.49   1.23   2.17  -0.61
T  -0.50   1.69   0.91  -0.66   0.44  -0.20
V  -0.42   2.09  -0.42  -1.98   0.53   2.04
W  -1.03   0.22  -1.35  -2.44  -1.03   1.83
Y  -0.34   1.39  -0.50  -1.28  -0.18   0.71
"""
PAIR_GROUPS = ("DE", "KRH", "ILVM", "FYWC", "NQSTP", "AG")
PAIR_LOGITS = """
#        by the group of the residue, in the order above; rows are the group of the parent
DE    -1.26   1.89   0.00   0.00   0.25   0.00
KRH    1.89  -1.26   0.00   0.00   0.25   0.00
ILVM   0.00   0.00   0.50  -0.50   0.00   1.26
FYWC   0.00   0.00  -0.25   1.64   0.00   0.00
NQSTP  0.25   0.25   0.00   0.00   1.64   0.00
AG     0.00   0.00   1.26   0.00   0.00  -0.38
"""


def _rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines() if not line.startswith("#")]


def _law() -> Law:
    own = {row[0]: [float(number) for number in row[1:]] for row in _rows(OWN_LOGITS)}
    columns = [tuple(own[letter][k] for letter in LETTERS) for k in range(6)]
    group = {letter: index for index, members in enumerate(PAIR_GROUPS) for letter in members}
    by_group = {row[0]: [float(number) for number in row[1:]] for row in _rows(PAIR_LOGITS)}
    pair = tuple(tuple(by_group[PAIR_GROUPS[group[above]]][group[letter]] for letter in LETTERS) for above in LETTERS)
    return Law(tuple(columns[:5]), columns[5], pair)


LAW = _law()
