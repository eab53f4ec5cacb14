"""Launch settings -> a site."""

from inferometer.tune.launch.local import Embedded, Given, LocalOptions
from inferometer.tune.launch.remote import Remote
from inferometer.tune.launch.site import Server, ServerSite, Site
from inferometer.tune.settings import IN_PROCESS, LaunchSettings


def open_site(launch: LaunchSettings) -> Site:
    """Not started yet; enter it."""
    if launch.mode == IN_PROCESS:
        from inferometer.tune.launch.in_process import InProcessSite

        return InProcessSite(launch)
    is_ours = launch.mode != "remote"
    return ServerSite(_server(launch), launch.control, is_ours=is_ours, may_load=launch.may_load)


def _server(launch: LaunchSettings) -> Server:
    if launch.mode == "remote":
        return Remote(launch.addresses, launch.control)
    options = LocalOptions(
        repositories=launch.repositories,
        executable=launch.executable,
        ports=launch.ports,
        flags=launch.flags,
        environment=launch.environment,
        log=launch.log,
        timeout_s=launch.timeout_s,
        metrics_interval_ms=launch.metrics_interval_ms,
    )
    if launch.mode == "docker":
        from inferometer.tune.launch.docker import Docker

        return Docker(options, launch)
    return Embedded(options) if launch.executable is None else Given(options)
