app = Flask(__name__)
pool = ConnectionPool(os.environ["DATABASE_URL"], kwargs={"autocommit": True})


@app.post("/charges")
def create_charge():
    order, lease = request.get_json(), request.headers["Retrysafe-Lease"]
    if order["amount"] <= 0:
        return {"error": "amount must be positive"}, 400

    with pool.connection() as conn:
        answer, _ = conn.execute(
            """WITH charge AS (
                INSERT INTO charges (customer, amount) VALUES (%s, %s)
                RETURNING jsonb_build_object('id', id, 'amount', amount)::text AS answer
            ) SELECT answer, retrysafe.complete(%s, answer, 201) FROM charge""",
            [order["customer"], order["amount"], lease],
        ).fetchone()
    # The statement has ended: charge and answer are committed together.
    return Response(answer, status=201, content_type="application/json")
