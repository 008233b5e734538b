package around

type publisher interface {
	Publish(ctx context.Context, topic, key string, body []byte) error
}

var box *outbox.Outbox
var tx *sql.Tx
var pgxTx pgx.Tx
var body []byte
var sink outbox.Sink
var secrets []webhook.Secret
var queue publisher
var keyset *cryptstore.Keyset
var digestSecret []byte
