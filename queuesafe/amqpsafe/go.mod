module github.com/retrysafe/retrysafe/queuesafe/amqpsafe

go 1.26.0

require (
	github.com/rabbitmq/amqp091-go v1.16.0
	github.com/retrysafe/retrysafe v0.0.0
)

replace github.com/retrysafe/retrysafe => ../..
