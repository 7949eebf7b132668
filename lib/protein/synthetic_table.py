"""The fixed numbers of the synthetic law, tuned on the default set (512 chains, seed 0).

Preferences are those of real proteins in kind (helix formers, branched strands, glycine at positive phi, opposite
charges in contact) and exaggerated in size, so that the exact perplexities come out near 18 (unigram), 9.0 (backbone
only) and 7.5 (15 % masked). Logits in nats.
"""

from lib.protein.synthetic_law import LETTERS, Law

OWN_LOGITS = """
#  helix strand  ppII   left    end  buried
A   1.62  -1.38  -0.27  -1.06   0.52   0.72
C  -0.97   0.45  -1.13  -1.92  -0.82   1.85
D   0.49  -0.94   0.96   1.75   0.49  -1.64
E   0.78  -1.27  -1.11  -0.80  -0.80  -2.05
F  -0.18   1.24  -0.34  -1.13  -0.02   2.05
G  -0.86  -0.22   1.36   4.99   1.67   0.20
H   0.27   0.43  -0.04   0.27   0.27  -0.20
I  -0.03   1.71  -0.82  -2.40   0.13   2.05
K   0.59  -0.99  -0.04  -0.51   0.44  -2.05
L   1.38   0.43  -0.04  -1.15   0.27   2.05
M   0.29  -0.66  -1.77  -2.24   0.13   1.85
N  -0.41  -0.89   1.01   3.06   0.54  -1.23
P  -2.62  -1.83   3.70  -2.31   0.22  -0.20
Q   0.36  -0.74  -1.06  -0.74  -0.74  -1.64
R   0.79  -0.31  -0.63  -0.31  -0.31  -1.64
S   0.33   0.80   2.54   1.27   2.22  -0.62
T  -0.53   1.68   0.89  -0.69   0.42  -0.20
V  -0.49   2.04  -0.49  -2.07   0.46   2.05
W  -1.08   0.18  -1.40  -2.50  -1.08   1.85
Y  -0.37   1.36  -0.53  -1.32  -0.22   0.72
"""
PAIR_GROUPS = ("DE", "KRH", "ILVM", "FYWC", "NQSTP", "AG")
PAIR_LOGITS = """
#        by the group of the residue, in the order above; rows are the group of the parent
DE    -1.24   1.86   0.00   0.00   0.25   0.00
KRH    1.86  -1.24   0.00   0.00   0.25   0.00
ILVM   0.00   0.00   0.50  -0.50   0.00   1.24
FYWC   0.00   0.00  -0.25   1.61   0.00   0.00
NQSTP  0.25   0.25   0.00   0.00   1.61   0.00
AG     0.00   0.00   1.24   0.00   0.00  -0.37
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
