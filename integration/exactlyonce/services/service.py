"""A service that charges exactly once, with the driver that the first argument names: psycopg, psycopg2 or pymysql.
With "file" it has neither a database nor a key, and writes a line for each charge. COMPLETE says which mistake it makes;
"inside" is none.

It forks a process for each request. Each process tells the test at which boundary it is, and waits until the test lets
it continue, so that the test can kill it there.
"""

import contextlib
import importlib
import json
import os
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ForkingMixIn
from urllib.parse import urlsplit

FILE = sys.argv[1] == "file"
MYSQL = sys.argv[1] == "pymysql"
driver = None if FILE else importlib.import_module(sys.argv[1])
HOW = os.environ["COMPLETE"]
APART = HOW == "apart"  # the control: complete in a transaction of its own


def helper(db, cursor, order, amount):
    """Inserts the charge; in its own block if it is the helper that makes this mistake. That of psycopg2 commits."""
    with contextlib.nullcontext() if HOW != "helper block" else db.transaction() if sys.argv[1] == "psycopg" else db:
        cursor.execute("INSERT INTO charges (order_id, amount) VALUES (%s, %s) RETURNING id", (order, amount))
        return cursor.fetchone()[0]


def connect():
    if not MYSQL:
        return driver.connect(os.environ["DATABASE"])
    at = urlsplit(os.environ["DATABASE"])
    return driver.connect(host=at.hostname, port=at.port, user=at.username, database=at.path[1:])


class Boundaries:
    """The connection to the test."""

    def __init__(self, order):
        host, port = os.environ["BOUNDARIES"].rsplit(":", 1)
        self.order, self.file = order, socket.create_connection((host, int(port))).makefile("rw")

    def reach(self, boundary):
        self.file.write(f"{self.order} {os.getpid()} {boundary}\n")
        self.file.flush()
        if self.file.readline() != "go\n":
            os._exit(1)  # the test has ended


class Service(BaseHTTPRequestHandler):
    def do_POST(self):
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["order"]
        test = Boundaries(order)
        if FILE:
            self.append(order, test)
            test.reach("responded")
            return
        try:
            db = connect()
            lease = self.headers.get("Retrysafe-Lease") or self.claim(db, order, test)
            if lease:
                test.reach("claimed")
                answer = self.charge(db, lease, order, test)
                test.reach("committed")
                self.respond(500 if HOW == "answers 500" else 201, answer)
        except driver.Error as error:
            self.respond(500, json.dumps({"error": str(error)}))
        test.reach("responded")

    def append(self, order, test):
        """Charges without a key. As "first", it answers before that, as services do that acknowledge webhooks at once."""
        if HOW == "first":
            self.respond(202, "{}")
        test.reach("claimed")
        with open(os.environ["DATABASE"], "ab", buffering=0) as ledger:
            ledger.write(f"{order}\n".encode())
            os.fsync(ledger.fileno())
        test.reach("committed")
        if HOW != "first":
            self.respond(201, json.dumps({"order": order}))

    def claim(self, db, order, test):
        """Does without the proxy what the proxy does: claims the key, or answers with what the record says."""
        test.reach("unclaimed")
        with db.cursor() as cursor:
            cursor.execute(
                "SELECT verdict, lease, code, convert_from(body, 'UTF8'), (extract(epoch FROM lease_left) * 1000)::integer"
                " FROM retrysafe.claim('charges', %s, lease_for => %s, take_over => true)",
                (order, os.environ["LEASE"]),
            )
            verdict, lease, code, body, left = cursor.fetchone()
        db.commit()
        if verdict == "done":
            self.respond(code, body)
        elif verdict != "acquired":
            self.respond(409, json.dumps({"verdict": verdict, "retry_after_ms": left}))
        return lease

    def charge(self, db, lease, order, test):
        with db.cursor() as cursor:
            if not APART and not MYSQL:
                cursor.execute("SELECT retrysafe.hold(%s)", (lease,))
            cursor.execute("SELECT amount FROM prices WHERE article = 'book'")
            (amount,) = cursor.fetchone()
            test.reach("begun")
            charge = helper(db, cursor, order, amount)
            if HOW in ("apart", "helper commits", "answers 500", "forgets complete"):
                db.commit()
            if APART:
                cursor.execute("SELECT retrysafe.hold(%s)", (lease,))
            if HOW.startswith("helper"):
                raise driver.Error("out of stock")
            test.reach("written")
            answer = json.dumps({"charge": charge, "order": order})
            if HOW not in ("answers 500", "forgets complete"):
                complete = "CALL retrysafe_complete(%s, %s, 201, NULL)" if MYSQL else "SELECT retrysafe.complete(%s, %s, 201)"
                cursor.execute(complete, (lease, answer))
            test.reach("completed")
        db.commit()
        return answer

    def respond(self, code, body):
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_request(self, *args):
        pass


class Server(ForkingMixIn, HTTPServer):
    max_children = request_queue_size = 1000


def end_with_the_test():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=end_with_the_test, daemon=True).start()
server = Server(("127.0.0.1", 0), Service)
print(server.server_port, flush=True)
server.serve_forever()
