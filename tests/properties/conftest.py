"""How long Hypothesis looks: a minute in all by default, the same examples on every run in CI; much longer with
`HYPOTHESIS_PROFILE=thorough`."""

import os

from hypothesis import HealthCheck, settings

# Fleets and jobs are large values, and some properties speak of one verdict only.
_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)

settings.register_profile("samestep", max_examples=100, deadline=None, suppress_health_check=_SLOW)
settings.register_profile("samestep-ci", settings.get_profile("samestep"), derandomize=True, print_blob=True)
settings.register_profile("thorough", settings.get_profile("samestep"), max_examples=1000)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("samestep-ci" if os.environ.get("CI") == "true" else "samestep")
)
