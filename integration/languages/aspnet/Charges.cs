// The program of docs/frameworks/aspnet.md. Service.cs has the server, and Odbc.cs the connection to PostgreSQL.

using System.Data.Common;

// page: begin
public static class Charges
{
    // Charges a customer, and completes the key of the request in the same transaction.
    public static string Charge(DbConnection connection, string lease, string customer, long amount)
    {
        using (var transaction = connection.BeginTransaction())
        using (var hold = Command(connection, transaction, "SELECT retrysafe.hold(@p0)", lease))
        using (var insert = Command(connection, transaction,
            "INSERT INTO charges (customer, amount) VALUES (@p0, @p1) RETURNING id", customer, amount))
        {
            hold.ExecuteNonQuery(); // nothing commits without complete
            var id = (long)insert.ExecuteScalar();
            var answer = string.Format("{{\"id\": {0}, \"amount\": {1}}}", id, amount);
            using (var complete = Command(connection, transaction,
                "SELECT retrysafe.complete(@p0, @p1, 201)", lease, answer))
            {
                complete.ExecuteNonQuery();
            }
            transaction.Commit();
            return answer; // charge and answer are committed together
        }
    }

    // Returns a command with the parameters @p0, @p1 and so on. Without a transaction it is one by itself.
    static DbCommand Command(DbConnection connection, DbTransaction transaction, string sql, params object[] values)
    {
        var command = connection.CreateCommand();
        command.Transaction = transaction;
        command.CommandText = sql;
        foreach (var value in values)
        {
            var parameter = command.CreateParameter();
            parameter.ParameterName = "p" + command.Parameters.Count;
            parameter.Value = value;
            command.Parameters.Add(parameter);
        }
        return command;
    }
}
// page: end
