package servers

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// greeting connects to a server, says hello if it is not empty, and returns the first n bytes of the answer.
func greeting(ctx context.Context, address, hello string, n int) ([]byte, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, hello); err != nil {
		return nil, err
	}
	answer := make([]byte, n)
	_, err = io.ReadFull(conn, answer)
	return answer, err
}

// get returns the status with which a server answers a GET. header is the name and the value of one, or nothing.
func get(ctx context.Context, url string, header ...string) (status string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	if len(header) > 0 {
		request.Header.Set(header[0], header[1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	return response.Status, response.Body.Close()
}

// answers returns a function that returns nil once a server answers such a GET with the status 200.
func answers(url string, header ...string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		status, err := get(ctx, url, header...)
		if err == nil && status != "200 OK" {
			err = fmt.Errorf("servers: %s answered %s", url, status)
		}
		return err
	}
}
