"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# A busy machine makes any case slow: time is no reason to fail.
settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")
