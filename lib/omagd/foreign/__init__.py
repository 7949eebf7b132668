"""Games of others behind the interface of our own battles: SMAC, SMACv2 and SMAClite, where a user has them."""
