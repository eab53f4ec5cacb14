#!/bin/sh
# The pages are tested in a real browser. Where none is installed and apt-get can be used, Debian's is; otherwise the
# tests that need it fail and name the package.
for name in chromium chromium-browser google-chrome google-chrome-stable; do
    command -v "$name" >/dev/null 2>&1 && exit 0
done
command -v apt-get >/dev/null 2>&1 || exit 0
if [ "$(id -u)" -eq 0 ]; then
    root=""
elif sudo -n true 2>/dev/null; then
    root="sudo -n"
else
    exit 0
fi
echo "Installing chromium for the tests of the pages ..."
export DEBIAN_FRONTEND=noninteractive
$root apt-get update -qq
$root apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null || {
    echo "chromium could not be installed; the tests that need it will say so" >&2
    exit 0
}
