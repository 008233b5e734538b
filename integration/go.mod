module github.com/retrysafe/retrysafe/integration

go 1.26.0

require (
	connectrpc.com/connect v1.21.1
	github.com/anishathalye/porcupine v1.3.1
	github.com/aws/aws-sdk-go-v2 v1.47.6
	github.com/aws/aws-sdk-go-v2/service/dynamodb v1.73.0
	github.com/aws/aws-sdk-go-v2/service/sqs v1.52.9
	github.com/envoyproxy/go-control-plane/envoy v1.40.0
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/go-sql-driver/mysql v1.10.1
	github.com/goccy/go-yaml v1.19.2
	github.com/hashicorp/go-retryablehttp v0.7.8
	github.com/jackc/pgx/v5 v5.12.0
	github.com/nats-io/nats.go v1.55.0
	github.com/rabbitmq/amqp091-go v1.16.0
	github.com/retrysafe/retrysafe v0.0.0
	github.com/retrysafe/retrysafe/connectsafe v0.0.0
	github.com/retrysafe/retrysafe/grpcsafe v0.0.0
	github.com/retrysafe/retrysafe/internal/testing/shoppb v0.0.0
	github.com/retrysafe/retrysafe/internal/yamlfile v0.0.0
	github.com/retrysafe/retrysafe/queuesafe/amqpsafe v0.0.0
	github.com/retrysafe/retrysafe/queuesafe/kafkasafe v0.0.0
	github.com/retrysafe/retrysafe/queuesafe/natssafe v0.0.0
	github.com/retrysafe/retrysafe/queuesafe/sqssafe v0.0.0
	github.com/retrysafe/retrysafe/rpcsafe v0.0.0
	github.com/retrysafe/retrysafe/stores/cryptstore v0.0.0
	github.com/retrysafe/retrysafe/stores/mysqlstore v0.0.0
	github.com/retrysafe/retrysafe/stores/pgstore v0.0.0
	github.com/retrysafe/retrysafe/stores/sqlitestore v0.0.0
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/stripe/stripe-go/v85 v85.0.0
	github.com/twmb/franz-go v1.22.2
	github.com/twmb/franz-go/pkg/kfake v0.0.0-20260918054303-01f206a7e32c
	github.com/twmb/franz-go/pkg/kmsg v1.15.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
	modernc.org/sqlite v1.60.1
)

require (
	cel.dev/expr v0.25.3 // indirect
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/aws/aws-sdk-go-v2/service/internal/accept-encoding v1.13.24 // indirect
	github.com/aws/aws-sdk-go-v2/service/internal/endpoint-discovery v1.13.9 // indirect
	github.com/cncf/xds/go v0.0.0-20260202195803-dba9d589def2 // indirect
	github.com/envoyproxy/protoc-gen-validate v1.3.3 // indirect
	github.com/planetscale/vtprotobuf v0.6.1-0.20240319094008-0393e58bdf10 // indirect
	github.com/tink-crypto/tink-go/v2 v2.9.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260817212433-ac3dfec99bb1 // indirect
)

require (
	github.com/aws/aws-sdk-go-v2/internal/configsources v1.5.9 // indirect
	github.com/aws/aws-sdk-go-v2/internal/endpoints/v2 v2.8.9 // indirect
	github.com/aws/smithy-go v1.28.8 // indirect
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/dustin/go-humanize v1.1.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/redis/rueidis v1.0.79
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/retrysafe/retrysafe/probe v0.0.0
	github.com/retrysafe/retrysafe/stores/dynamostore v0.0.0
	github.com/retrysafe/retrysafe/stores/natsstore v0.0.0
	github.com/retrysafe/retrysafe/stores/redisstore v0.0.0
	github.com/stretchr/testify v1.12.1 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	modernc.org/libc v1.77.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
)

replace (
	github.com/retrysafe/retrysafe => ..
	github.com/retrysafe/retrysafe/queuesafe/amqpsafe => ../queuesafe/amqpsafe
	github.com/retrysafe/retrysafe/queuesafe/kafkasafe => ../queuesafe/kafkasafe
	github.com/retrysafe/retrysafe/queuesafe/natssafe => ../queuesafe/natssafe
	github.com/retrysafe/retrysafe/queuesafe/sqssafe => ../queuesafe/sqssafe
	github.com/retrysafe/retrysafe/stores/cryptstore => ../stores/cryptstore
	github.com/retrysafe/retrysafe/stores/dynamostore => ../stores/dynamostore
	github.com/retrysafe/retrysafe/stores/mysqlstore => ../stores/mysqlstore
	github.com/retrysafe/retrysafe/stores/natsstore => ../stores/natsstore
	github.com/retrysafe/retrysafe/stores/pgstore => ../stores/pgstore
	github.com/retrysafe/retrysafe/stores/redisstore => ../stores/redisstore
	github.com/retrysafe/retrysafe/stores/sqlitestore => ../stores/sqlitestore
)

replace github.com/retrysafe/retrysafe/grpcsafe => ../grpcsafe

replace github.com/retrysafe/retrysafe/connectsafe => ../connectsafe

replace github.com/retrysafe/retrysafe/rpcsafe => ../rpcsafe

replace github.com/retrysafe/retrysafe/internal/testing/shoppb => ../internal/testing/shoppb

replace github.com/retrysafe/retrysafe/probe => ../probe

replace github.com/retrysafe/retrysafe/internal/yamlfile => ../internal/yamlfile
