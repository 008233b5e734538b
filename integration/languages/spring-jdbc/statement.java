    String charge(String lease, String customer, long amount) {
        return jdbc.queryForObject(
            "WITH charge AS (INSERT INTO charges (customer, amount) VALUES (?, ?)"
                + " RETURNING jsonb_build_object('id', id, 'amount', amount)::text AS answer)"
                + " SELECT answer, retrysafe.complete(?, answer, 201) FROM charge",
            (row, n) -> row.getString("answer"), customer, amount, lease);
        // queryForObject has returned: charge and answer are committed together.
    }
