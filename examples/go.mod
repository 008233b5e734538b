module github.com/retrysafe/retrysafe/examples

go 1.26.0

require (
	connectrpc.com/connect v1.21.1
	github.com/ThreeDotsLabs/watermill v1.5.1
	github.com/aws/aws-sdk-go-v2 v1.47.6
	github.com/aws/aws-sdk-go-v2/service/sqs v1.52.9
	github.com/gin-gonic/gin v1.12.0
	github.com/go-chi/chi/v5 v5.5.0
	github.com/jackc/pgx/v5 v5.12.0
	github.com/labstack/echo/v5 v5.3.1
	github.com/nats-io/nats.go v1.55.0
	github.com/rabbitmq/amqp091-go v1.16.0
	github.com/retrysafe/retrysafe v0.0.0
	github.com/retrysafe/retrysafe/connectsafe v0.0.0
	github.com/retrysafe/retrysafe/grpcsafe v0.0.0
	github.com/retrysafe/retrysafe/queuesafe/amqpsafe v0.0.0
	github.com/retrysafe/retrysafe/queuesafe/kafkasafe v0.0.0
	github.com/retrysafe/retrysafe/queuesafe/natssafe v0.0.0
	github.com/retrysafe/retrysafe/queuesafe/sqssafe v0.0.0
	github.com/retrysafe/retrysafe/queuesafe/watermillsafe v0.0.0
	github.com/retrysafe/retrysafe/rpcsafe v0.0.0
	github.com/retrysafe/retrysafe/stores/pgstore v0.0.0
	github.com/retrysafe/retrysafe/stores/sqlitestore v0.0.0
	github.com/twmb/franz-go v1.22.2
	github.com/twmb/franz-go/pkg/kfake v0.0.0-20260918054303-01f206a7e32c
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
	modernc.org/sqlite v1.60.1
)

require google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect

require (
	github.com/aws/aws-sdk-go-v2/internal/configsources v1.5.9 // indirect
	github.com/aws/aws-sdk-go-v2/internal/endpoints/v2 v2.8.9 // indirect
	github.com/aws/smithy-go v1.28.8 // indirect
	github.com/bytedance/gopkg v0.1.3 // indirect
	github.com/bytedance/sonic v1.15.0 // indirect
	github.com/bytedance/sonic/loader v0.5.0 // indirect
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/cloudwego/base64x v0.1.6 // indirect
	github.com/dustin/go-humanize v1.1.0 // indirect
	github.com/gabriel-vasile/mimetype v1.4.12 // indirect
	github.com/gin-contrib/sse v1.1.0 // indirect
	github.com/go-playground/locales v0.14.1 // indirect
	github.com/go-playground/universal-translator v0.18.1 // indirect
	github.com/go-playground/validator/v10 v10.30.1 // indirect
	github.com/goccy/go-json v0.10.5 // indirect
	github.com/goccy/go-yaml v1.19.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/klauspost/cpuid/v2 v2.3.0 // indirect
	github.com/leodido/go-urn v1.4.0 // indirect
	github.com/lithammer/shortuuid/v3 v3.0.7 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.2 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/oklog/ulid v1.3.1 // indirect
	github.com/pelletier/go-toml/v2 v2.2.4 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/quic-go/qpack v0.6.0 // indirect
	github.com/quic-go/quic-go v0.59.1 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/sony/gobreaker v1.0.0 // indirect
	github.com/twitchyliquid64/golang-asm v0.15.1 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.15.0 // indirect
	github.com/ugorji/go/codec v1.3.1 // indirect
	go.mongodb.org/mongo-driver/v2 v2.5.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/arch v0.22.0 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/time v0.15.0 // indirect
	modernc.org/libc v1.77.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
)

replace github.com/retrysafe/retrysafe => ..

replace github.com/retrysafe/retrysafe/stores/sqlitestore => ../stores/sqlitestore

replace github.com/retrysafe/retrysafe/stores/pgstore => ../stores/pgstore

replace github.com/retrysafe/retrysafe/queuesafe/amqpsafe => ../queuesafe/amqpsafe

replace github.com/retrysafe/retrysafe/queuesafe/kafkasafe => ../queuesafe/kafkasafe

replace github.com/retrysafe/retrysafe/queuesafe/natssafe => ../queuesafe/natssafe

replace github.com/retrysafe/retrysafe/queuesafe/sqssafe => ../queuesafe/sqssafe

replace github.com/retrysafe/retrysafe/queuesafe/watermillsafe => ../queuesafe/watermillsafe

replace github.com/retrysafe/retrysafe/grpcsafe => ../grpcsafe

replace github.com/retrysafe/retrysafe/connectsafe => ../connectsafe

replace github.com/retrysafe/retrysafe/rpcsafe => ../rpcsafe

replace github.com/retrysafe/retrysafe/internal/testing/shoppb => ../internal/testing/shoppb
