def create_charge(request):
    order, lease = json.loads(request.body), request.headers["Retrysafe-Lease"]
    if order["amount"] <= 0:
        return JsonResponse({"error": "amount must be positive"}, status=400)

    with connection.cursor() as cursor:
        cursor.execute(
            """WITH charge AS (
                INSERT INTO charges (customer, amount) VALUES (%s, %s)
                RETURNING jsonb_build_object('id', id, 'amount', amount)::text AS answer
            ) SELECT answer, retrysafe.complete(%s, answer, 201) FROM charge""",
            [order["customer"], order["amount"], lease],
        )
        answer, _ = cursor.fetchone()
    # The statement has ended: charge and answer are committed together.
    return HttpResponse(answer, content_type="application/json", status=201)
