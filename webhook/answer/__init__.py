"""From a review to what people and the API server read."""
