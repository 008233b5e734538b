"""Runs own.py of docs/when-you-do-not-need-it.md for an order on each line of standard input."""

import json
import os
import sys

import psycopg

import own

connection = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
for line in sys.stdin:
    order = json.loads(line)

    def charge(conn):
        insert = "INSERT INTO charges (customer, amount) VALUES (%s, %s) RETURNING id"
        return {"id": conn.execute(insert, [order["customer"], order["amount"]]).fetchone()[0]}

    print(*own.once(connection, "buyer", order["id"], order, charge), flush=True)
