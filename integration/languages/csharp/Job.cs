// Runs the job of docs/csharp.md for the order on the command line, and prints its answer.

using System;
using System.Data.Common;
using System.Text.RegularExpressions;

// page: begin
public static class Job
{
    // Charges an order once. Every call with the same order returns the same answer.
    public static string ChargeOnce(DbConnection connection, string order, string customer, long amount)
    {
        string verdict, lease, answer;
        using (var claim = Command(connection, null,
            "SELECT verdict, lease, convert_from(body, 'UTF8') FROM retrysafe.claim('charges', @p0,"
                + " sha256(convert_to(@p1, 'UTF8')), take_over => true)", order, customer + " " + amount))
        using (var row = claim.ExecuteReader())
        {
            row.Read();
            verdict = row.GetString(0);
            lease = row.IsDBNull(1) ? null : row.GetString(1);
            answer = row.IsDBNull(2) ? null : row.GetString(2);
        }
        if (verdict == "done")
            return answer;
        if (verdict != "acquired")
            throw new InvalidOperationException("order " + order + ": " + verdict);

        using (var transaction = connection.BeginTransaction()) // Dispose rolls back what is not committed
        using (var hold = Command(connection, transaction, "SELECT retrysafe.hold(@p0)", lease))
        using (var insert = Command(connection, transaction,
            "INSERT INTO charges (customer, amount) VALUES (@p0, @p1) RETURNING id", customer, amount))
        {
            hold.ExecuteNonQuery(); // nothing commits without complete
            answer = string.Format("{{\"id\": {0}, \"amount\": {1}}}", insert.ExecuteScalar(), amount);
            using (var complete = Command(connection, transaction,
                "SELECT retrysafe.complete(@p0, @p1)", lease, answer))
            {
                complete.ExecuteNonQuery();
            }
            transaction.Commit();
            return answer;
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

static class Program
{
    static void Main(string[] args)
    {
        var order = Regex.Match(args[0], "\"id\": \"(.*)\", \"customer\": \"(.*)\", \"amount\": (.*)}").Groups;
        using (var connection = NamedOdbcConnection.Open(Environment.GetEnvironmentVariable("DATABASE_URL")))
        {
            Console.WriteLine(Job.ChargeOnce(connection, order[1].Value, order[2].Value, long.Parse(order[3].Value)));
        }
    }
}
