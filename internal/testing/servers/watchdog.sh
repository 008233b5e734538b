# Ends a server and removes its folder once the other end of standard input is closed: by the test process, or because that
# has ended. Each line read is the ID of the process to end. The last line counts; 0 means none.
#
# Arguments: the folder; the signal that ends the server and lets it clean up; shell code that cleans up outside of the
# folder.
folder=$1 signal=$2 epilogue=$3 pids=

pid=0
while read -r line; do
	pid=$line
	pids="$pids $line"
done

# alive reports whether one of the processes has not ended.
alive() { (
	IFS=,
	ps -o stat= -p "$*"
) | grep -qv '^Z'; }

# tree prints the IDs of a process and all its descendants.
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
	kill -s CONT $(tree "$pid") # a paused process ignores other signals
	family=$pid
	if [ "$signal" = KILL ]; then family=$(tree "$pid"); fi # the workers of nginx and Apache would go on without the first
	kill -s "$signal" $family
	tries=0
	while alive $family && [ $tries -lt 200 ]; do
		sleep 0.05
		tries=$((tries + 1))
	done
	if alive "$pid"; then kill -s KILL $(tree "$pid"); fi
fi 2>/dev/null

for p in $pids; do rm -f "/dev/shm/faketime_shm_$p" "/dev/shm/sem.faketime_sem_$p"; done # see FakeTime
eval "$epilogue"
cd / && rm -rf -- "$folder"
