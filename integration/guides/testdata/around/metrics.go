package around

var store *pgstore.Store
var box *outbox.Outbox
