"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# A busy machine makes any case slow: time is no reason to fail. Each run draws other cases.
settings.register_profile(
    "no clock", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("no clock")
