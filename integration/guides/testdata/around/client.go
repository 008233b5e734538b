package around

var request *http.Request

func authorize(r *http.Request, credential string, refused bool) error

func finish(r httpclient.Resumed) error
