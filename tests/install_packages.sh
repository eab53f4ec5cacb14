#!/bin/sh
# Debian packages of the tests: the pages are tested in a real browser, the benchmarks with nginx. What is missing is
# installed where apt-get can be used; otherwise the tests that need it fail and name the package.
packages=""
is_found() {
    for name in "$@"; do
        PATH="$PATH:/usr/sbin" command -v "$name" >/dev/null 2>&1 && return 0
    done
    return 1
}
is_found chromium chromium-browser google-chrome google-chrome-stable || packages="chromium fonts-dejavu-core"
is_found nginx || packages="$packages nginx-light"
[ -n "$packages" ] || exit 0
command -v apt-get >/dev/null 2>&1 || exit 0
if [ "$(id -u)" -eq 0 ]; then
    root="env RUNLEVEL=1"  # keeps a package from starting its service
elif sudo -n true 2>/dev/null; then
    root="sudo -n env RUNLEVEL=1"
else
    exit 0
fi
echo "Installing $packages for the tests ..."
export DEBIAN_FRONTEND=noninteractive
$root apt-get update -qq
# shellcheck disable=SC2086
$root apt-get install -y -qq --no-install-recommends $packages >/dev/null || {
    echo "$packages could not be installed; the tests that need them will say so" >&2
    exit 0
}
