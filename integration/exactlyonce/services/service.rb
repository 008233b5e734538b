# A service that charges exactly once, with the driver pg. It forks a process for each connection. Each process tells the
# test at which boundary it is, and waits until the test lets it continue, so that the test can kill it there.
require "json"
require "pg"
require "socket"

APART = ENV.fetch("COMPLETE") == "apart" # the control: complete in a transaction of its own

# The connection to the test.
class Boundaries
  def initialize(order)
    @order = order
    @socket = TCPSocket.new(*ENV.fetch("BOUNDARIES").split(":"))
  end

  def reach(boundary)
    @socket.puts("#{@order} #{Process.pid} #{boundary}")
    exit!(1) unless @socket.gets == "go\n" # the test has ended
  end
end

def respond(client, code, body)
  client.write("HTTP/1.1 #{code} -\r\nContent-Type: application/json\r\nContent-Length: #{body.bytesize}\r\n" \
               "Connection: close\r\n\r\n#{body}")
rescue SystemCallError
  nil # the client has gone
end

# Does without the proxy what the proxy does: claims the key, or answers with what the record says.
def claim(db, order, test, client)
  test.reach("unclaimed")
  got = db.exec_params(<<~SQL, [order, ENV.fetch("LEASE")])[0]
    SELECT verdict, lease, code, convert_from(body, 'UTF8') AS body, (extract(epoch FROM lease_left) * 1000)::integer AS left
    FROM retrysafe.claim('charges', $1, lease_for => $2, take_over => true)
  SQL
  case got["verdict"]
  when "acquired" then return got["lease"]
  when "done" then respond(client, got["code"], got["body"])
  else respond(client, 409, { verdict: got["verdict"], retry_after_ms: got["left"].to_i }.to_json)
  end
  nil
end

def charge(db, lease, order, test)
  db.exec("BEGIN")
  db.exec_params("SELECT retrysafe.hold($1)", [lease]) unless APART
  amount = db.exec("SELECT amount FROM prices WHERE article = 'book'")[0]["amount"]
  test.reach("begun")
  id = db.exec_params("INSERT INTO charges (order_id, amount) VALUES ($1, $2) RETURNING id", [order, amount])[0]["id"]
  db.exec("COMMIT; BEGIN") if APART
  db.exec_params("SELECT retrysafe.hold($1)", [lease]) if APART
  test.reach("written")
  answer = { charge: id.to_i, order: order }.to_json
  db.exec_params("SELECT retrysafe.complete($1, $2, 201)", [lease, answer])
  test.reach("completed")
  db.exec("COMMIT")
  answer
end

def serve(client)
  client.gets
  headers = {}
  while (line = client.gets.chomp) != ""
    name, value = line.split(": ", 2)
    headers[name.downcase] = value
  end
  order = JSON.parse(client.read(headers["content-length"].to_i))["order"]
  test = Boundaries.new(order)
  begin
    db = PG.connect(ENV.fetch("DATABASE"))
    if (lease = headers["retrysafe-lease"] || claim(db, order, test, client))
      test.reach("claimed")
      answer = charge(db, lease, order, test)
      test.reach("committed")
      respond(client, 201, answer)
    end
  rescue PG::Error => e
    respond(client, 500, { error: e.message }.to_json)
  end
  test.reach("responded")
end

Thread.new do
  $stdin.read
  exit!(0) # the test has ended
end
server = TCPServer.new("127.0.0.1", 0)
server.listen(1000)
puts server.addr[1]
$stdout.flush
loop do
  client = server.accept
  Process.detach(fork do
    serve(client)
    client.close
    exit!(0)
  end)
  client.close
end
