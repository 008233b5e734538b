package around

var body []byte
