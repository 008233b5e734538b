"""The payments service of `retrysafe demo`: a plain handler and PostgreSQL."""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

try:
    import psycopg
except ImportError:
    import psycopg2 as psycopg

DATABASE = os.environ["DATABASE_URL"]
INSERT = """INSERT INTO shop.charges (customer, order_id, amount)
            VALUES (%(customer)s, %(order)s, %(amount)s) RETURNING id"""


def charge(order, lease):  # lease: the request's header Retrysafe-Lease
    with psycopg.connect(DATABASE) as db, db.cursor() as tx:
        # COMMIT fails unless complete was called.
        tx.execute("SELECT retrysafe.hold(%s)", [lease])
        tx.execute(INSERT, order)
        body = json.dumps({"id": tx.fetchone()[0], **order})
        reach("INSERT")
        tx.execute("SELECT retrysafe.complete(%s, %s, 201)", [lease, body])
    reach("COMMIT")
    return body


def charge_in_two_transactions(order, lease):
    with psycopg.connect(DATABASE) as db, db.cursor() as tx:
        tx.execute(INSERT, order)
        body = json.dumps({"id": tx.fetchone()[0], **order})
    reach("COMMIT")
    with psycopg.connect(DATABASE) as db, db.cursor() as tx:
        tx.execute("SELECT retrysafe.hold(%s)", [lease])
        tx.execute("SELECT retrysafe.complete(%s, %s, 201)", [lease, body])
    return body


def reach(place):
    """Stands still at the place that the demo has chosen, to be killed there."""
    if place == os.environ.get("STOP_AFTER"):
        print(place, flush=True)
        threading.Event().wait()


class Handler(BaseHTTPRequestHandler):
    routes = {"/charges": charge, "/careless/charges": charge_in_two_transactions}

    def do_GET(self):
        self.respond(200, "the service is up\n")

    def do_POST(self):
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        order["customer"] = self.headers["Authorization"].replace("Bearer ", "")
        body = self.routes[self.path](order, self.headers["Retrysafe-Lease"])
        self.respond(201, body)

    def respond(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())


def end_with_the_demo():
    sys.stdin.read()  # ends when the demo does, even if it is killed
    os._exit(0)


threading.Thread(target=end_with_the_demo, daemon=True).start()
address = ("127.0.0.1", int(os.environ["PORT"]))
server = ThreadingHTTPServer(address, Handler)
print("ready", flush=True)
server.serve_forever()
