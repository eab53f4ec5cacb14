"""Launch settings -> a site."""

from inferometer.base.errors import UsageError
from inferometer.tune.launch.local import Embedded, Given, LocalOptions
from inferometer.tune.launch.remote import Remote
from inferometer.tune.launch.site import Server, Site
from inferometer.tune.settings import LaunchSettings


def open_site(launch: LaunchSettings) -> Site:
    """Not started yet; enter it."""
    return Site(_server(launch), launch.control, is_ours=launch.mode != "remote", may_load=launch.may_load)


def _server(launch: LaunchSettings) -> Server:
    if launch.mode == "remote":
        return Remote(launch.addresses, launch.control)
    if launch.mode == "c_api":
        raise UsageError(
            "the launch mode c_api is not supported yet",
            remedy="leave it out: the embedded server on loopback gives the same configuration",
        )
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
