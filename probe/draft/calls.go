package draft

import "cmp"

// writeGRPC writes what follows the target in a recipe for gRPC.
func (d *Draft) writeGRPC(w *writer, block bool) {
	w.line("# The rules that the service has declared: ietf has the key in the metadata idempotency-key, and names " +
		"codes and a marker; aip155 has")
	w.line("# it in the field request_id; none checks only what must hold for every service.")
	w.line("profile: %s", cmp.Or(d.Profile, "ietf"))
	w.line("")
	d.writeCall(w, block)
	w.line("# What identifies the created thing in a response: a JSON pointer into its JSON form.")
	w.line("identity: {pointer: %s}", quote(d.IdentityPointer))
	w.line("")
	d.writeGRPCCount(w)
	d.writeGRPCCallers(w)
	w.line("# Each of these lines makes more cases possible. What a variant leaves out is taken from grpc.")
	mark := "# "
	if d.SlowPath != "" {
		mark = ""
	}
	w.line("%svariants:\n%s  slow: {method: %s}   # takes a second or more", mark, mark,
		cmp.Or(d.SlowPath, d.Call+"Slowly"))
	w.line(`#   failing: {request: '{"amount": {{amount}}, "card": "declined"}'}   # is refused for a business reason
#   broken: {request: '{"amount": {{amount}}, "card": "crash"}'}       # ends with an error of the server's
# limits: {requests: 5000, rate: 500}                 # in all, and a second`)
}

func (d *Draft) writeCall(w *writer, block bool) {
	w.generators("called")
	w.line("grpc:\n  method: %s", d.Call)
	switch {
	case d.Profile == aip155 && d.KeyField != "request_id":
		w.line("  key_field: %s", d.KeyField)
	case d.Profile != aip155:
		w.line("  # key_metadata: idempotency-key   # what carries the key; or key_field: request_id")
	}
	if len(d.headers) > 0 {
		w.line("  metadata:")
	}
	for _, group := range grouped(d.headers) {
		w.line("    %s: %s", quote(group.name), group.value)
	}
	w.body("request", d.Body, block)
	d.writeNotes(w)
}

func (d *Draft) writeGRPCCount(w *writer) {
	if d.CountPath != "" {
		w.line("# How effects are counted: the answer is a number, or a list whose elements are counted. sql and " +
			"webhook are other ways.")
		w.line("count:\n  get: {url: %s%s}\n", quote(d.CountPath), also(", pointer: ", d.CountPointer))
		return
	}
	w.line(`# Without a count, the probe has to believe the responses. Count effects in one of these ways:
# count:
#   get: {url: "http://127.0.0.1:8080/payments", pointer: /total}   # a number, or a list that is counted
#   sql: {url: "${DATABASE_URL}", query: "select count(*) from payments"}   # PostgreSQL, or the path of a SQLite file
#   webhook: {port: 9099, delivery_id: /id}           # the service sends its events to http://127.0.0.1:9099
`)
}

func (d *Draft) writeGRPCCallers(w *writer) {
	w.line("# Metadata of callers. Secrets come from the environment. With a second caller, the probe checks that " +
		"neither sees")
	w.line("# what belongs to the other.")
	if len(d.credentials) == 0 {
		w.line(`# credentials:
#   a: {authorization: "Bearer ${PROBE_CREDENTIAL_A}"}
#   b: {authorization: "Bearer ${PROBE_CREDENTIAL_B}"}
`)
		return
	}
	d.writeCallers(w)
}
