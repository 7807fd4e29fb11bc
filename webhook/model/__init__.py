"""The frozen values that travel between the rooms (design: data flows one way)."""
