package around

// What a program has before it comes to a snippet.
var ctx context.Context
var guard *retrysafe.Guard
var store retrysafe.Store
var mux *http.ServeMux
var handler http.Handler
var db *sql.DB
var tenant string
var order []byte
var amount int64
var body io.Reader

var w http.ResponseWriter
var r *http.Request

type userKey struct{}

func authenticate(next http.Handler) http.Handler

func callerOf(r *http.Request) (string, error)

func pay(w http.ResponseWriter, r *http.Request)
