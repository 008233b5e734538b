"""A shop that charges an order once: in a function, whose caller has a key, and in a service behind the proxy."""

import os

import flask
import psycopg

import retrysafe


def connect():
    return psycopg.connect(os.environ["DATABASE_URL"])


def pay(conn, order, amount):
    with retrysafe.once(conn, "payments", order, {"order": order, "amount": amount}) as op:
        if not op.done:
            op.conn.execute("INSERT INTO charges (amount) VALUES (%s)", [amount])
            op.complete({"order": order, "amount": amount})
    return op.answer


app = flask.Flask(__name__)


@app.post("/charges")
def charge():
    lease, amount = flask.request.headers["Retrysafe-Lease"], flask.request.get_json()["amount"]
    with connect() as conn:  # commits and closes at its end
        retrysafe.hold(conn, lease)
        conn.execute("INSERT INTO charges (amount) VALUES (%s)", [amount])
        answer = retrysafe.complete(conn, lease, {"amount": amount}, 201)
    return flask.Response(answer, 201, content_type="application/json")
