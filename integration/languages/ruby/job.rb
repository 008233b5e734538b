# Runs the job of docs/ruby.md for the order on the command line, and prints its answer.
# page: begin
require "json"
require "pg"

# Charges an order once. Every call with the same order returns the same answer.
def charge_once(db, order)
  got = db.exec_params(<<~SQL, [order["id"], order.to_json])[0]
    SELECT verdict, lease, convert_from(body, 'UTF8') AS body
    FROM retrysafe.claim('charges', $1, sha256(convert_to($2, 'UTF8')), take_over => true)
  SQL
  return got["body"] if got["verdict"] == "done"
  raise "order #{order['id']}: #{got['verdict']}" unless got["verdict"] == "acquired"

  db.transaction do
    db.exec_params("SELECT retrysafe.hold($1)", [got["lease"]]) # nothing commits without complete
    id = db.exec_params("INSERT INTO charges (customer, amount) VALUES ($1, $2) RETURNING id",
                        [order["customer"], order["amount"]])[0]["id"]
    answer = { id: id.to_i, amount: order["amount"] }.to_json
    db.exec_params("SELECT retrysafe.complete($1, $2)", [got["lease"], answer])
    answer
  end
end
# page: end

puts charge_once(PG.connect(ENV.fetch("DATABASE_URL")), JSON.parse(ARGV.fetch(0)))
