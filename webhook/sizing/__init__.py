"""How much device memory one rank needs, and how we know."""
