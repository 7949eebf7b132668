"""What is learnt from played episodes: advantages, losses, and the training forward over shared prefixes."""
