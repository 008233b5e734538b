# Runs a RabbitMQ server together with an epmd of its own, and ends both together.
# Arguments: the programs epmd and rabbitmq-server. TERM ends the server cleanly, QUIT at once.
#
# The server's variables are in its environment. One that believes in systemd replaces the shell that starts it, so that its
# process id is known here.
epmd=$1 rabbitmq=$2

"$epmd" -address 127.0.0.1 -port "$ERL_EPMD_PORT" &
names=$!
RUNNING_UNDER_SYSTEMD=true "$rabbitmq" &
server=$!

trap 'kill -s TERM $server' TERM
trap 'kill -s KILL $server $names; wait; exit' QUIT
wait $server
wait $server # the first may have been cut off by the signal
ended=$?
kill -s KILL $names
wait $names # until it is gone
exit $ended
