# Installs Debian packages without starting the services in them.
# Arguments: the file that says which services may start, /usr/sbin/policy-rc.d; the packages.
#
# It runs in a session of its own and finishes even if the test process is killed: half an installation helps nobody.
set -eu
policy=$1
shift
mark='# retrysafe: while test servers are installed'

# A machine that has a policy keeps it, unless an installation that was cut off has left ours.
if [ ! -e "$policy" ] || grep -qF "$mark" "$policy"; then
	trap 'rm -f "$policy"' EXIT
	trap 'exit 1' HUP INT TERM
	printf '#!/bin/sh\n%s\nexit 101\n' "$mark" >"$policy"
	chmod 755 "$policy"
fi

export DEBIAN_FRONTEND=noninteractive
install() {
	apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
}
install "$@" || { apt-get update -q && install "$@"; }
