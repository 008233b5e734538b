"""A Flask service behind `retrysafe proxy`."""

import json
import os

from flask import Flask, Response, request
from psycopg_pool import ConnectionPool
from waitress import serve

app = Flask(__name__)
pool = ConnectionPool(os.environ["DATABASE_URL"])


@app.post("/charges")
def create_charge():
    order, lease = request.get_json(), request.headers["Retrysafe-Lease"]
    if order["amount"] <= 0:
        return {"error": "amount must be positive"}, 400

    with pool.connection() as conn, conn.transaction():
        conn.execute("SELECT retrysafe.hold(%s)", [lease])  # nothing commits without complete
        charge = conn.execute(
            "INSERT INTO charges (customer, amount) VALUES (%s, %s) RETURNING id",
            [order["customer"], order["amount"]],
        ).fetchone()
        answer = json.dumps({"id": charge[0], "amount": order["amount"]})
        conn.execute("SELECT retrysafe.complete(%s, %s, 201)", [lease, answer])
    # The block has ended: charge and answer are committed together.
    return Response(answer, status=201, content_type="application/json")


if __name__ == "__main__":
    serve(app, listen="127.0.0.1:" + os.environ.get("PORT", "3000"))
