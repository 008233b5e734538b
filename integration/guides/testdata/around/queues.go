package around

var store *pgstore.Store
var consumer *queuesafe.Consumer
var url, queueURL, deadURL string
var stream jetstream.Stream
var js jetstream.JetStream
var config aws.Config
var publisher message.Publisher
var subscriber message.Subscriber
var router *message.Router

func charge(ctx context.Context, m queuesafe.Message) error

func handle(m *message.Message) error
