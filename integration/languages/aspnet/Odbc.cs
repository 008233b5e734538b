using System;
using System.Data;
using System.Data.Common;
using System.Data.Odbc;
using System.Text.RegularExpressions;

// NamedOdbcConnection is an OdbcConnection whose commands have named parameters, as those of Npgsql and of most other
// drivers do. ODBC itself knows only the placeholder ?.
sealed class NamedOdbcConnection : DbConnection
{
    readonly OdbcConnection inner;

    NamedOdbcConnection(OdbcConnection inner) { this.inner = inner; }

    // Open connects to the database of a URL. The variable ODBC_DRIVER has the path of PostgreSQL's driver.
    public static NamedOdbcConnection Open(string url)
    {
        var database = new Uri(url);
        var settings = new OdbcConnectionStringBuilder();
        settings["Driver"] = Environment.GetEnvironmentVariable("ODBC_DRIVER");
        settings["Server"] = database.Host;
        settings["Port"] = database.Port;
        settings["Database"] = database.AbsolutePath.Substring(1);
        settings["Uid"] = database.UserInfo;
        var connection = new NamedOdbcConnection(new OdbcConnection(settings.ConnectionString));
        connection.Open();
        return connection;
    }

    public override string ConnectionString { get { return inner.ConnectionString; } set { inner.ConnectionString = value; } }
    public override string Database { get { return inner.Database; } }
    public override string DataSource { get { return inner.DataSource; } }
    public override string ServerVersion { get { return inner.ServerVersion; } }
    public override ConnectionState State { get { return inner.State; } }
    public override void ChangeDatabase(string name) { inner.ChangeDatabase(name); }
    public override void Open() { inner.Open(); }
    public override void Close() { inner.Close(); }
    protected override DbTransaction BeginDbTransaction(IsolationLevel level) { return inner.BeginTransaction(level); }
    protected override DbCommand CreateDbCommand() { return new NamedOdbcCommand(inner.CreateCommand()); }
    protected override void Dispose(bool disposing)
    {
        if (disposing) inner.Dispose();
        base.Dispose(disposing);
    }
}

// NamedOdbcCommand is a command whose parameters are @p0, @p1 and so on, in this order.
sealed class NamedOdbcCommand : DbCommand
{
    readonly OdbcCommand inner;

    public NamedOdbcCommand(OdbcCommand inner) { this.inner = inner; }

    public override string CommandText
    {
        get { return inner.CommandText; }
        set
        {
            var next = 0;
            inner.CommandText = Regex.Replace(value, "@p(\\d+)", found =>
            {
                if (int.Parse(found.Groups[1].Value) != next++) throw new ArgumentException("not in order: " + value);
                return "?";
            });
        }
    }
    public override int CommandTimeout { get { return inner.CommandTimeout; } set { inner.CommandTimeout = value; } }
    public override CommandType CommandType { get { return inner.CommandType; } set { inner.CommandType = value; } }
    public override bool DesignTimeVisible { get { return inner.DesignTimeVisible; } set { inner.DesignTimeVisible = value; } }
    public override UpdateRowSource UpdatedRowSource { get { return inner.UpdatedRowSource; } set { inner.UpdatedRowSource = value; } }
    protected override DbConnection DbConnection { get { return inner.Connection; } set { inner.Connection = (OdbcConnection)value; } }
    protected override DbTransaction DbTransaction { get { return inner.Transaction; } set { inner.Transaction = (OdbcTransaction)value; } }
    protected override DbParameterCollection DbParameterCollection { get { return inner.Parameters; } }
    public override void Cancel() { inner.Cancel(); }
    public override void Prepare() { inner.Prepare(); }
    public override int ExecuteNonQuery() { return inner.ExecuteNonQuery(); }
    public override object ExecuteScalar() { return inner.ExecuteScalar(); }
    protected override DbParameter CreateDbParameter() { return inner.CreateParameter(); }
    protected override DbDataReader ExecuteDbDataReader(CommandBehavior behavior) { return inner.ExecuteReader(behavior); }
    protected override void Dispose(bool disposing)
    {
        if (disposing) inner.Dispose();
        base.Dispose(disposing);
    }
}
