using System;
using System.IO;
using System.Net;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading;

// Service is a server in place of ASP.NET Core's, which Mono does not have.
static class Service
{
    static readonly Regex Order = new Regex("\"customer\": \"([^\"]*)\", \"amount\": (\\d+)");

    static void Main(string[] args)
    {
        var server = new HttpListener();
        server.Prefixes.Add("http://127.0.0.1:" + args[0] + "/");
        server.Start();
        while (true)
        {
            var request = server.GetContext();
            ThreadPool.QueueUserWorkItem(_ => Serve(request));
        }
    }

    static void Serve(HttpListenerContext http)
    {
        var status = 500;
        var answer = "{\"error\": \"the service failed\"}";
        try
        {
            var order = Order.Match(new StreamReader(http.Request.InputStream, Encoding.UTF8).ReadToEnd());
            if (!order.Success || long.Parse(order.Groups[2].Value) <= 0)
            {
                status = 400;
                answer = "{\"error\": \"amount must be positive\"}";
            }
            else
            {
                using (var connection = NamedOdbcConnection.Open(Environment.GetEnvironmentVariable("DATABASE_URL")))
                {
                    answer = Charges.Charge(connection, http.Request.Headers["Retrysafe-Lease"], order.Groups[1].Value,
                        long.Parse(order.Groups[2].Value));
                }
                status = 201;
            }
        }
        catch (Exception e)
        {
            Console.Error.WriteLine(e);
            status = 500;
            answer = "{\"error\": \"the service failed\"}";
        }
        http.Response.StatusCode = status;
        http.Response.ContentType = "application/json";
        http.Response.Close(Encoding.UTF8.GetBytes(answer), true);
    }
}
