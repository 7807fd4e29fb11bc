"""Gates and choice: from a job, its demand, the fleet and a policy to a verdict. Pure."""
