"""Samples in, figures out."""

from inferometer.observe.host import Gpu, HostSample
from inferometer.observe.metrics import Queue, Sample
from inferometer.stats.machine_figures import GpuFigures, QueueFigures
from inferometer.stats.merge import server_metrics

MODEL = ("simple", "1")


def of_gpus(*looks: dict[str, Gpu]) -> tuple[GpuFigures, ...]:
    return server_metrics([Sample(at_ns=number, gpus=look) for number, look in enumerate(looks)]).gpus


def of_queues(*looks: dict[tuple[str, str], Queue]) -> tuple[QueueFigures, ...]:
    return server_metrics([Sample(at_ns=number, queues=look) for number, look in enumerate(looks)]).queues


def test_gpu_figures_are_means_and_peak_memory() -> None:
    (row,) = of_gpus({"a": Gpu(0.1, 50, 10, 100)}, {"a": Gpu(0.2, 70, 30, 99)}, {"a": Gpu(0.6, 60, 20, 98)})
    assert row.uuid == "a"
    assert round(row.utilization or 0, 9) == 0.3
    assert (row.power_w, row.memory_used_bytes, row.memory_total_bytes) == (60, 30, 100)


def test_gpus_are_separate_and_ordered_by_uuid() -> None:
    first, second = of_gpus({"b": Gpu(0.5), "a": Gpu(0.1)}, {"b": Gpu(0.7)})
    assert (first.uuid, first.utilization) == ("a", 0.1)
    assert (second.uuid, second.utilization) == ("b", 0.6)


def test_missing_values_of_a_poll_are_ignored() -> None:
    (row,) = of_gpus({"a": Gpu(power_w=50)}, {"a": Gpu(memory_total_bytes=7)}, {})
    assert row == GpuFigures("a", None, 50, None, 7)


def test_queues_have_counter_differences_and_gauge_means_and_peaks() -> None:
    assert of_queues(
        {MODEL: Queue(1, 1000, 10)}, {MODEL: Queue(5, 1500, 20)}, {MODEL: Queue(3, 3000, 30)}
    ) == (QueueFigures("simple", "1", pending_mean=3, pending_max=5, requests=20, queue_us=100),)


def test_models_without_calls_are_left_out() -> None:
    idle = Queue(0, 500, 7)
    assert of_queues({MODEL: idle}, {MODEL: idle}) == ()


def test_a_single_poll_has_no_difference() -> None:
    assert of_queues({MODEL: Queue(2, 500, 7)}) == (QueueFigures("simple", "1", 2, 2, None, None),)


def test_a_restarted_server_has_no_difference() -> None:
    assert of_queues({MODEL: Queue(2, 500, 7)}, {MODEL: Queue(0, 0, 0)})[0].requests is None


def test_the_hosts_share_covers_the_time_between_polls() -> None:
    looks = [HostSample(100, 1000, 5, {"a": Gpu(0.2)}), HostSample(103, 1004, 9, {"a": Gpu(0.4)})]
    host = server_metrics([Sample(at_ns=number, host=look) for number, look in enumerate(looks)]).host
    assert host is not None
    assert (host.cpu_share, host.memory_used_bytes) == (0.75, 9)
    assert round(host.gpus[0].utilization or 0, 9) == 0.3


def test_a_busy_host_has_no_share_above_one() -> None:
    """Sums of many clock ticks differ in their last digits."""
    looks = [HostSample(0.1, 0.1, 5), HostSample(0.7 + 1e-9, 0.7, 5)]
    host = server_metrics([Sample(at_ns=at, host=look) for at, look in enumerate(looks)]).host
    assert host is not None
    assert host.cpu_share == 1.0


def test_a_single_poll_gives_no_share_of_the_host() -> None:
    host = server_metrics([Sample(at_ns=0, host=HostSample(1, 2, 3))]).host
    assert host is not None
    assert host.cpu_share is None


def test_no_poll_gives_no_figure() -> None:
    found = server_metrics([])
    assert (found.polls, found.gpus, found.cpu_share, found.queues, found.host) == (0, (), None, (), None)


def test_the_servers_host() -> None:
    found = server_metrics(
        [
            Sample(at_ns=0),
            Sample(at_ns=1, cpu_share=0.2, memory_used_bytes=4, memory_total_bytes=9),
            Sample(at_ns=2, cpu_share=0.4, memory_used_bytes=6, memory_total_bytes=8),
        ]
    )
    assert round(found.cpu_share or 0, 9) == 0.3
    assert (found.memory_used_bytes, found.memory_total_bytes, found.polls) == (6, 9, 3)
