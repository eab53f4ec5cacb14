"""The real Triton, by its address alone."""

import pytest

from inferometer import api
from inferometer.base.errors import UsageError

pytestmark = pytest.mark.live


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_triton_is_found_on_both_ports(protocol, triton):
    url = getattr(triton, f"{protocol}_address")
    result = api.measure("simple", url=url, service_kind="auto", duration_s=0.3)
    assert (result.effective.service_kind, result.effective.protocol) == ("triton", protocol)
    assert result.levels[0].measurement is not None
    assert result.levels[0].measurement.server is not None
    title = {"http": "Triton over HTTP", "grpc": "Triton over gRPC"}[protocol]
    assert result.server["findings"] == [
        f"{url} looks like {title}, model 'simple' (--service-kind triton{' --grpc' * (protocol == 'grpc')})."
    ]


def test_its_models_are_listed(triton):
    with pytest.raises(UsageError, match=r"has \d+ models: .*simple.*; name one with -m"):
        api.measure("", url=triton.http_address, service_kind="auto", duration_s=0.3)
