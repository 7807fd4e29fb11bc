"""From an object as the API server sends it to a `TrainingJob`."""
