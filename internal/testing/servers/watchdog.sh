# Ends a server and removes its folder once nobody holds the other end of standard input any more: the test process has closed
# it, or is gone, however it went. Each line read is the id of the process to end; the last one counts, 0 is none.
#
# Arguments: the folder; the signal that ends the server without leaving anything behind; shell code that cleans up
# what is outside of the folder.
folder=$1 signal=$2 epilogue=$3 pids=

pid=0
while read -r line; do
	pid=$line
	pids="$pids $line"
done

alive() {
	case $(ps -o stat= -p "$1") in
	'' | Z*) return 1 ;;
	esac
}

# tree prints a process and all that descend from it.
tree() {
	ps -A -o pid= -o ppid= | awk -v top="$1" '
		{ parent[$1] = $2 }
		END {
			for (p in parent) {
				for (a = p; a != top && (a in parent) && parent[a] != a; ) a = parent[a]
				if (a == top) print p
			}
		}'
}

if [ "$pid" != 0 ] && alive "$pid"; then
	kill -s CONT $(tree "$pid") # a paused process hears no signal
	kill -s "$signal" "$pid"
	tries=0
	while alive "$pid" && [ $tries -lt 200 ]; do
		sleep 0.05
		tries=$((tries + 1))
	done
	if alive "$pid"; then kill -s KILL $(tree "$pid"); fi
fi 2>/dev/null

for p in $pids; do rm -f "/dev/shm/faketime_shm_$p" "/dev/shm/sem.faketime_sem_$p"; done # see FakeTime
eval "$epilogue"
cd / && rm -rf -- "$folder"
