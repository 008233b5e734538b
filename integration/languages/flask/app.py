"""The program of docs/frameworks/flask.md: a Flask service behind `retrysafe proxy`."""

import json
import os
import sys

from flask import Flask, Response, request
from psycopg_pool import ConnectionPool
from waitress import serve

app = Flask(__name__)
pool = ConnectionPool(os.environ["DATABASE_URL"])


# page: begin
@app.post("/charges")
def create_charge():
    order = request.get_json()
    if order["amount"] <= 0:
        return {"error": "amount must be positive"}, 400

    with pool.connection() as conn:
        charge = conn.execute(
            "INSERT INTO charges (customer, amount) VALUES (%s, %s) RETURNING id",
            [order["customer"], order["amount"]],
        ).fetchone()
        answer = json.dumps({"id": charge[0], "amount": order["amount"]})
        conn.execute(
            "SELECT retrysafe.complete(%s, %s, 201)",
            [request.headers["Retrysafe-Lease"], answer],
        )
    # The block has ended: charge and answer are committed together.
    return Response(answer, status=201, content_type="application/json")
# page: end


serve(app, listen="127.0.0.1:" + sys.argv[1])
