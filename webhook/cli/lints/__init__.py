"""What is wrong with a set of policies, though each of them can be read."""
