    public static string Charge(DbConnection connection, string lease, string customer, long amount)
    {
        using (var charge = Command(connection, null,
            "WITH charge AS (INSERT INTO charges (customer, amount) VALUES (@p0, @p1)"
                + " RETURNING jsonb_build_object('id', id, 'amount', amount)::text AS answer)"
                + " SELECT answer, retrysafe.complete(@p2, answer, 201) FROM charge", customer, amount, lease))
        {
            return (string)charge.ExecuteScalar(); // charge and answer are committed together
        }
    }
