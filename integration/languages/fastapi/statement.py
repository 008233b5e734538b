@app.post("/charges")
def create_charge(order: Order, retrysafe_lease: str = Header()):
    if order.amount <= 0:
        return JSONResponse({"error": "amount must be positive"}, status_code=400)

    statement = """WITH charge AS (
        INSERT INTO charges (customer, amount) VALUES (:customer, :amount)
        RETURNING jsonb_build_object('id', id, 'amount', amount)::text AS answer
    ) SELECT answer, retrysafe.complete(:lease, answer, 201) FROM charge"""
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        answer = connection.execute(
            text(statement),
            {"customer": order.customer, "amount": order.amount, "lease": retrysafe_lease},
        ).one()[0]
    # The statement has ended: charge and answer are committed together.
    return Response(answer, status_code=201, media_type="application/json")
