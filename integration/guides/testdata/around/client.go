package around

var request *http.Request
var inner client.Journal
var text []byte

func authorize(r *http.Request, credential string, refused bool) error

func finish(r httpclient.Resumed) error
