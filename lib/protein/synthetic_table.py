"""The fixed numbers of the synthetic law, tuned on the default set (512 chains, seed 0).

Preferences are those of real proteins in kind (helix formers, branched strands, glycine at positive phi, opposite
charges in contact) and exaggerated in size, so that the exact perplexities come out near 18 (unigram), 9.0 (backbone
only) and 7.5 (15 % masked). Logits in nats.
"""

from lib.protein.synthetic_law import LETTERS, Law

OWN_LOGITS = """
#  helix strand  ppII   left    end  buried
A   1.58  -1.45  -0.34  -1.13   0.46   0.73
C  -0.90   0.54  -1.06  -1.85  -0.74   1.87
D   0.42  -1.02   0.89   1.69   0.42  -1.66
E   0.71  -1.36  -1.20  -0.88  -0.88  -2.07
F  -0.10   1.34  -0.26  -1.06   0.06   2.07
G  -0.90  -0.26   1.33   5.00   1.65   0.21
H   0.26   0.42  -0.05   0.26   0.26  -0.21
I   0.07   1.83  -0.72  -2.32   0.23   2.07
K   0.52  -1.07  -0.11  -0.59   0.36  -2.07
L   1.41   0.45  -0.03  -1.14   0.29   2.07
M   0.31  -0.65  -1.76  -2.24   0.15   1.87
N  -0.47  -0.95   0.97   3.04   0.49  -1.24
P  -2.68  -1.89   3.69  -2.37   0.18  -0.21
Q   0.30  -0.81  -1.13  -0.81  -0.81  -1.66
R   0.74  -0.38  -0.70  -0.38  -0.38  -1.66
S   0.30   0.78   2.53   1.25   2.21  -0.62
T  -0.50   1.73   0.93  -0.66   0.45  -0.21
V  -0.38   2.18  -0.38  -1.97   0.58   2.07
W  -1.01   0.27  -1.33  -2.44  -1.01   1.87
Y  -0.33   1.43  -0.49  -1.28  -0.17   0.73
"""
PAIR_GROUPS = ("DE", "KRH", "ILVM", "FYWC", "NQSTP", "AG")
PAIR_LOGITS = """
#        by the group of the residue, in the order above; rows are the group of the parent
DE    -1.29   1.94   0.00   0.00   0.26   0.00
KRH    1.94  -1.29   0.00   0.00   0.26   0.00
ILVM   0.00   0.00   0.52  -0.52   0.00   1.29
FYWC   0.00   0.00  -0.26   1.68   0.00   0.00
NQSTP  0.26   0.26   0.00   0.00   1.68   0.00
AG     0.00   0.00   1.29   0.00   0.00  -0.39
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
