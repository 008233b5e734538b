package around

var store *sqlitestore.Store
var target string
var credentials grpc.DialOption
var request *pb.PayRequest
var payments shopv1connect.PaymentsHandler
var scope connectsafe.ScopeFunc
var options rpcsafe.Options

func authenticate(ctx context.Context, in any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error)

func callerOf(ctx context.Context) (string, error)

var in *pb.PayRequest

func save(ctx context.Context, tx *sql.Tx, in *pb.PayRequest) (*pb.Payment, error)

var intent retrysafe.Intent

func remember(intent string, answer any, err error) error
