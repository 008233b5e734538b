Route::post('/charges', function (Request $request) {
    if ($request->input('amount') <= 0) {
        return response()->json(['error' => 'amount must be positive'], 400);
    }
    $statement = <<<'SQL'
        WITH charge AS (
            INSERT INTO charges (customer, amount) VALUES (?, ?)
            RETURNING jsonb_build_object('id', id, 'amount', amount)::text AS answer
        ) SELECT answer, retrysafe.complete(?, answer, 201) FROM charge
        SQL;
    $lease = $request->header('Retrysafe-Lease');
    $charge = DB::selectOne($statement, [$request->input('customer'), $request->input('amount'), $lease], false);
    // The statement has ended: charge and answer are committed together.
    return response($charge->answer, 201, ['Content-Type' => 'application/json']);
});
