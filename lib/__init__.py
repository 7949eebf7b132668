"""What the four trainers share. Imports go one way: scripts -> lib.<domain> -> lib."""
