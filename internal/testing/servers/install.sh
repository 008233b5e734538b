# Installs Debian packages without starting the services in them.
# Arguments: the file that says which services may start, /usr/sbin/policy-rc.d; the packages.
#
# It runs in a session of its own and finishes even if the test process is killed: half an installation helps nobody.
set -eu
policy=$1
shift
mark='# retrysafe: while test servers are installed'
output=$(mktemp)
trap 'rm -f "$output"' EXIT
trap 'exit 1' HUP INT TERM

# A machine that has a policy keeps it, unless an installation that was cut off has left ours.
if [ ! -e "$policy" ] || grep -qF "$mark" "$policy"; then
	trap 'rm -f "$output" "$policy"' EXIT
	printf '#!/bin/sh\n%s\nexit 101\n' "$mark" >"$policy"
	chmod 755 "$policy"
fi

export DEBIAN_FRONTEND=noninteractive LC_ALL=C

# apt waits for up to five minutes while another program has one of the locks: apt-get itself waits for only one of them. A
# mirror that does not answer is asked again.
apt() {
	tries=0
	until apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" >"$output" 2>&1; do
		tries=$((tries + 1))
		if [ $tries -ge 150 ] || ! grep -qE 'Could not get lock|Unable to lock' "$output"; then
			cat "$output"
			return 1
		fi
		sleep 2
	done
}

install() {
	apt install -y --no-install-recommends "$@"
}

# A package that is not in the lists, or no longer where they say, is found after an update.
install "$@" >/dev/null || { apt update && install "$@"; }
