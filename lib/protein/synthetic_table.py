"""The fixed numbers of the synthetic law, tuned on the default set (512 chains, seed 0).

Preferences are those of real proteins in kind (helix formers, branched strands, glycine at positive phi, opposite
charges in contact) and exaggerated in size, so that the exact perplexities come out near 18 (unigram), 9.0 (backbone
only) and 7.5 (15 % masked). Logits in nats.
"""

from lib.protein.synthetic_law import LETTERS, Law

OWN_LOGITS = """
#  helix strand  ppII   left    end  buried
A   1.59  -1.44  -0.32  -1.12   0.47   0.72
C  -0.91   0.52  -1.07  -1.87  -0.75   1.86
D   0.44  -1.00   0.92   1.71   0.44  -1.66
E   0.74  -1.33  -1.17  -0.85  -0.85  -2.07
F  -0.11   1.32  -0.27  -1.07   0.05   2.07
G  -0.91  -0.27   1.32   4.98   1.64   0.21
H   0.27   0.43  -0.05   0.27   0.27  -0.21
I   0.05   1.81  -0.74  -2.34   0.21   2.07
K   0.55  -1.04  -0.08  -0.56   0.39  -2.07
L   1.39   0.43  -0.05  -1.16   0.27   2.07
M   0.29  -0.66  -1.78  -2.26   0.13   1.86
N  -0.47  -0.95   0.96   3.04   0.49  -1.24
P  -2.69  -1.89   3.68  -2.37   0.18  -0.21
Q   0.33  -0.79  -1.10  -0.79  -0.79  -1.66
R   0.76  -0.35  -0.67  -0.35  -0.35  -1.66
S   0.30   0.78   2.53   1.26   2.22  -0.62
T  -0.51   1.72   0.93  -0.67   0.45  -0.21
V  -0.39   2.15  -0.39  -1.99   0.56   2.07
W  -1.02   0.25  -1.34  -2.46  -1.02   1.86
Y  -0.34   1.42  -0.50  -1.29  -0.18   0.72
"""
PAIR_GROUPS = ("DE", "KRH", "ILVM", "FYWC", "NQSTP", "AG")
PAIR_LOGITS = """
#        by the group of the residue, in the order above; rows are the group of the parent
DE    -1.24   1.86   0.00   0.00   0.25   0.00
KRH    1.86  -1.24   0.00   0.00   0.25   0.00
ILVM   0.00   0.00   0.50  -0.50   0.00   1.24
FYWC   0.00   0.00  -0.25   1.62   0.00   0.00
NQSTP  0.25   0.25   0.00   0.00   1.62   0.00
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
