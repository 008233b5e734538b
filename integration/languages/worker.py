"""The queue consumer of docs/exactly-once.md. Its broker is standard input: a message on each line."""

import json
import os
import sys

import psycopg


# page: begin
def handle(conn, message):
    """Does the work of a message once. Returns whether the broker may forget the message."""
    verdict, lease = conn.execute(
        "SELECT verdict, lease FROM retrysafe.claim('payments', %s, sha256(%s), take_over => true)",
        [message["id"], json.dumps(message).encode()],
    ).fetchone()
    if verdict != "acquired":
        return verdict == "done"  # in_flight: another consumer has it; the broker delivers it again later
    try:
        with conn.transaction():
            conn.execute("SELECT retrysafe.hold(%s)", [lease])  # nothing commits without complete
            conn.execute(
                "INSERT INTO charges (customer, amount) VALUES (%s, %s)",
                [message["customer"], message["amount"]],
            )
            conn.execute("SELECT retrysafe.complete(%s, '')", [lease])
    except Exception:
        conn.execute("SELECT retrysafe.release(%s)", [lease])  # nothing happened: the next delivery need not wait
        raise
    return True
# page: end


connection = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
for line in sys.stdin:
    print("acknowledged" if handle(connection, json.loads(line)) else "again", flush=True)
