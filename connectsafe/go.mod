module github.com/retrysafe/retrysafe/connectsafe

go 1.26.0

require (
	connectrpc.com/connect v1.21.1
	github.com/retrysafe/retrysafe v0.0.0
	github.com/retrysafe/retrysafe/internal/testing/shoppb v0.0.0
	github.com/retrysafe/retrysafe/rpcsafe v0.0.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1
	google.golang.org/protobuf v1.36.12
)

replace github.com/retrysafe/retrysafe => ..

replace github.com/retrysafe/retrysafe/rpcsafe => ../rpcsafe

replace github.com/retrysafe/retrysafe/internal/testing/shoppb => ../internal/testing/shoppb
