# Runs a RabbitMQ server together with its own epmd, and ends both together.
# Arguments: the programs epmd and rabbitmq-server. TERM ends the server cleanly, QUIT at once.
#
# The server's variables are in its environment. With RUNNING_UNDER_SYSTEMD the server's script replaces its shell by the
# server, so that the server's process ID is known here.
epmd=$1 rabbitmq=$2

"$epmd" -address 127.0.0.1 -port "$ERL_EPMD_PORT" &
names=$!
RUNNING_UNDER_SYSTEMD=true "$rabbitmq" &
server=$!

trap 'kill -s TERM $server' TERM
trap 'kill -s KILL $server $names; wait; exit' QUIT
wait $server
wait $server # again, because the signal may have interrupted the first wait
ended=$?
kill -s KILL $names
wait $names # until it has ended
exit $ended
