# Installs Debian packages without starting the services in them.
# Arguments: the file that decides which services may start, /usr/sbin/policy-rc.d; the packages.
#
# It runs in its own session and finishes even if the test process is killed, to avoid a half-finished installation.
set -eu
policy=$1
shift
mark='# retrysafe: while test servers are installed'
output=$(mktemp)
list=$(mktemp)
trap 'rm -f "$output" "$list"' EXIT
trap 'exit 1' HUP INT TERM

# An existing policy of the machine is kept, unless it is ours and was left by an interrupted installation.
if [ ! -e "$policy" ] || grep -qF "$mark" "$policy"; then
	trap 'rm -f "$output" "$list" "$policy"' EXIT
	printf '#!/bin/sh\n%s\nexit 101\n' "$mark" >"$policy"
	chmod 755 "$policy"
fi

export DEBIAN_FRONTEND=noninteractive LC_ALL=C

# Waits for up to five minutes while another program has one of the locks; apt-get itself waits for only one of them.
# A mirror that does not answer is retried.
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

# Adds the backports of this release to the sources of this script only. The next update of the machine forgets them.
backports() {
	chmod 644 "$list" # apt-get reads it as another user
	if [ -e /etc/apt/sources.list ]; then cat /etc/apt/sources.list >"$list"; fi
	apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' |
		awk '$2 !~ /-/ { print "deb", $1, $2 "-backports main" }' | sort -u >>"$list"
	apt -o "Dir::Etc::sourcelist=$list" update && install -o "Dir::Etc::sourcelist=$list" "$@"
}

# An update finds packages that are missing from the lists, or that have moved. A release that is older than a package
# may have it in its backports.
install "$@" >/dev/null || { apt update && install "$@" >/dev/null; } || backports "$@"
