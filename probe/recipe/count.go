package recipe

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// countSettings say how effects are counted: at most one of its parts is set.
type countSettings struct {
	absolute bool // the target is not what answers a GET

	get     *getSettings
	sql     *sqlSettings
	webhook *webhookSettings
}

// getSettings count by asking the target.
type getSettings struct {
	path    string // follows the target; "": there is a url
	url     string
	pointer string // "": the whole body
	headers []wire.HeaderLine
}

// sqlSettings count by asking a database.
type sqlSettings struct {
	url   string
	query string
}

// webhookSettings count what the target sends.
type webhookSettings struct {
	port       int
	deliveryID string // JSON pointer of what a repeated delivery has in common; "": each counts
}

// read returns the field count with its three ways of counting, of which a recipe may have one.
func (c *countSettings) read(env environment) yamlfile.Field {
	return func(r *yamlfile.Reader, n ast.Node) {
		r.Mapping(n, "count", map[string]yamlfile.Field{
			"get":     func(r *yamlfile.Reader, n ast.Node) { c.get = readGet(r, n, env, c.absolute) },
			"sql":     yamlfile.Secretly(func(r *yamlfile.Reader, n ast.Node) { c.sql = readSQL(r, n, env) }),
			"webhook": func(r *yamlfile.Reader, n ast.Node) { c.webhook = readWebhook(r, n) },
		})
		if len(mappingOf(n)) > 1 {
			r.Fault(n, "count has more than one way to count", "keep one of get, sql and webhook")
		}
	}
}

// readGet reads count.get. absolute is for recipes whose target cannot answer a GET, such as a gRPC server: the count
// then has a URL of its own.
func readGet(r *yamlfile.Reader, n ast.Node, env environment, absolute bool) *getSettings {
	g := &getSettings{}
	before := r.Found()
	known := map[string]yamlfile.Field{
		"path":    yamlfile.Scalar(&g.path, environment{}.path),
		"url":     forGRPC("url", "write path: /payments/count, which follows the target"),
		"pointer": yamlfile.Scalar(&g.pointer, pointer),
		"headers": headers(&g.headers, env, "count.get.headers"),
	}
	missing, instead := "count.get.path is missing", "write path: /payments/count"
	if absolute {
		known["path"] = forHTTP("path", "write url: http://127.0.0.1:8080/payments/count")
		known["url"] = yamlfile.Scalar(&g.url, countURL)
		missing, instead = "count.get.url is missing", "write url: http://127.0.0.1:8080/payments/count"
	}
	r.Mapping(n, "count.get", known)
	if g.path == "" && g.url == "" && r.Found() == before {
		r.Fault(n, missing, instead)
	}
	return g
}

// countURL accepts a URL at which something other than the target counts the effects.
func countURL(s string) (string, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.Fragment != "" ||
		strings.ContainsAny(s, " \r\n\t"):
		return "", yamlfile.Wrong("this is not the URL of a count",
			"write http://127.0.0.1:8080/payments/count")
	case u.User != nil:
		return "", yamlfile.Wrong("the URL contains a user or a password",
			"write a line under count.get.headers: Authorization: Basic ${NAME}")
	}
	return s, nil
}

// readSQL reads count.sql.
func readSQL(r *yamlfile.Reader, n ast.Node, env environment) *sqlSettings {
	s := &sqlSettings{}
	before := r.Found()
	r.Mapping(n, "count.sql", map[string]yamlfile.Field{
		"url":   yamlfile.Scalar(&s.url, expanded(env, databaseURL)),
		"query": yamlfile.Scalar(&s.query, yamlfile.Filled),
	})
	if (s.url == "" || s.query == "") && r.Found() == before {
		r.Fault(n, "count.sql needs url and query",
			"write url: postgres://reader@db/shop, and query: select count(*) from payments")
	}
	return s
}

// readWebhook reads count.webhook.
func readWebhook(r *yamlfile.Reader, n ast.Node) *webhookSettings {
	w := &webhookSettings{}
	before := r.Found()
	r.Mapping(n, "count.webhook", map[string]yamlfile.Field{
		"port":        yamlfile.Scalar(&w.port, yamlfile.Between(1, 65535)),
		"delivery_id": yamlfile.Scalar(&w.deliveryID, pointer),
	})
	if w.port == 0 && r.Found() == before {
		r.Fault(n, "count.webhook.port is missing: the API sends its events to this port", "write port: 9099")
	}
	return w
}

// databaseURL accepts a URL that openSQL can open. Its error does not show the URL, which may contain a password.
func databaseURL(s string) (string, error) {
	if isPostgres(s) {
		if _, err := pgx.ParseConfig(s); err != nil {
			return "", yamlfile.Wrong("the URL of the database is malformed",
				"write postgres://USER@HOST/DATABASE; in a password, write / @ and # as %2F %40 %23, or set "+
					"PGPASSWORD instead")
		}
		return s, nil
	}
	if name := strings.TrimPrefix(s, "sqlite:"); strings.Contains(name, "://") || name == "" {
		return "", yamlfile.Wrong("unsupported database; supported: PostgreSQL, SQLite",
			"write postgres://USER@HOST/DATABASE, or the path of a SQLite file")
	}
	return s, nil
}

// isPostgres reports whether a URL is one of PostgreSQL; anything else is the path of a SQLite file.
func isPostgres(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}

// file returns the path of a SQLite file. A relative path starts at the folder of the recipe.
func (s *sqlSettings) file(dir string) (string, error) {
	name := strings.TrimPrefix(s.url, "sqlite:")
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	if info, err := os.Stat(name); err != nil || info.IsDir() {
		return "", fmt.Errorf("count.sql: the file %s does not exist", name)
	}
	return name, nil
}

// mappingOf returns the entries of a mapping, or none if the node is something else.
func mappingOf(n ast.Node) []*ast.MappingValueNode {
	if m, ok := n.(*ast.MappingNode); ok {
		return m.Values
	}
	return nil
}
