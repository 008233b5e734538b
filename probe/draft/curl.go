package draft

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
)

// FromCurl makes a draft of a curl command line. Files that it names, as in -d @body.json, are read.
func FromCurl(line string) (*Draft, error) { return readCurl(line, os.ReadFile) }

// readCurl makes a draft of a command line. readFile reads the files that it names.
func readCurl(line string, readFile func(string) ([]byte, error)) (*Draft, error) {
	if written := regexp.MustCompile("[ \t][`^]\r?\n"); written.MatchString(line) {
		return nil, errors.New("the curl command is written for cmd or PowerShell, with lines that end in ^ or " +
			"`: copy the one for bash, or write it on one line with the quotes of a shell")
	}
	words, err := Split(line)
	if err != nil {
		return nil, fmt.Errorf("the curl command cannot be read: %w", err)
	}
	for len(words) > 0 && words[0] == "$" { // pasted with the prompt
		words = words[1:]
	}
	if len(words) == 0 || !strings.HasSuffix(strings.TrimSuffix(words[0], ".exe"), "curl") {
		return nil, errors.New("this is not a curl command: a curl command begins with curl and has a URL")
	}
	c := &curl{readFile: readFile}
	if err := c.parse(words[1:]); err != nil {
		return nil, err
	}
	return c.draft()
}

// curl is a command line that has been understood.
type curl struct {
	readFile func(string) ([]byte, error)

	method string
	url    string
	lines  []line // header lines
	data   []string
	isJSON bool
	isGet  bool
	user   string
}

// line is one of a header.
type line struct{ name, value string }

// meaningless returns the options that change how curl behaves, not what it sends. They are ignored; the value is true
// for those that take an argument.
func meaningless() map[string]bool {
	all := map[string]bool{}
	for _, flag := range strings.Fields(`-s --silent -S --show-error -i --include -v --verbose -k --insecure -L --location -f --fail
		--fail-with-body --compressed -g --globoff -N --no-buffer -# --progress-bar --http1.1 --http1.0 --http2 --http2-prior-knowledge -4 --ipv4
		-6 --ipv6 --no-progress-meter --no-keepalive --path-as-is -O --remote-name -j -0 -1 -2 -3 -n --netrc
		--http3 --tlsv1.2 --tlsv1.3 --ssl-no-revoke --retry-all-errors --retry-connrefused --location-trusted --tcp-nodelay -q --disable`) {
		all[flag] = false
	}
	for _, option := range strings.Fields(`-o --output -w --write-out -m --max-time --connect-timeout --retry --retry-delay --retry-max-time --cacert
		--resolve -D --dump-header -c --cookie-jar --max-redirs --trace-ascii --trace --limit-rate --interface --noproxy`) {
		all[option] = true
	}
	return all
}

// take returns the options that change what is sent. All of them take an argument.
func (c *curl) take() map[string]func(value string) error {
	set := func(to *string) func(string) error {
		return func(v string) error { *to = v; return nil }
	}
	header := func(name string) func(string) error {
		return func(v string) error { c.lines = append(c.lines, line{name, v}); return nil }
	}
	file := func(strip bool) func(string) error { return func(v string) error { return c.addData(v, true, strip) } }
	raw := func(v string) error { return c.addData(v, false, false) }
	asJSON := func(v string) error { c.isJSON = true; return c.addData(v, true, false) }
	return map[string]func(string) error{
		"-X": set(&c.method), "--request": set(&c.method), "--url": set(&c.url), "-u": set(&c.user), "--user": set(&c.user),
		"-H": c.addHeader, "--header": c.addHeader, "-A": header("User-Agent"), "--user-agent": header("User-Agent"),
		"-b": header("Cookie"), "--cookie": header("Cookie"), "-e": header("Referer"), "--referer": header("Referer"),
		"-d": file(true), "--data": file(true), "--data-ascii": file(true), "--data-binary": file(false), "--data-raw": raw,
		"--data-urlencode": c.addEncoded, "--json": asJSON,
		"--oauth2-bearer": func(v string) error { return c.addHeader("Authorization: Bearer " + v) },
	}
}

// parse reads the words after curl. An option that is neither known nor meaningless is an error: ignoring it might
// change what is sent.
func (c *curl) parse(words []string) error {
	take, ignored := c.take(), meaningless()
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		switch {
		case word == "-G" || word == "--get":
			c.isGet = true
			continue
		case word == "-I" || word == "--head":
			c.method = "HEAD"
			continue
		case !strings.HasPrefix(word, "-") || word == "-":
			if c.url != "" {
				return fmt.Errorf("the curl command has two URLs, %s and %s: keep one, and check the quotes", c.url, word)
			}
			c.url = word
			continue
		case !strings.HasPrefix(word, "--") && len(word) > 2: // -sX POST, -XPOST
			_, takes := take[word[:2]]
			if takes || ignored[word[:2]] {
				words = append([]string{word[:2], word[2:]}, words...)
			} else {
				words = append([]string{word[:2], "-" + word[2:]}, words...)
			}
			continue
		}
		do, takes := take[word]
		hasValue, known := ignored[word]
		switch {
		case !takes && !known:
			return fmt.Errorf("curl's option %s cannot be put into a recipe: leave it out%s", word, advice(word))
		case !takes && !hasValue:
			continue
		case len(words) == 0:
			return fmt.Errorf("curl's option %s has no value", word)
		case takes:
			if err := do(words[0]); err != nil {
				return err
			}
		}
		words = words[1:]
	}
	return nil
}

// advice returns what to do about an option that cannot be put into a recipe.
func advice(option string) string {
	switch option {
	case "-F", "--form":
		return ", and write the multipart body into the recipe by hand"
	case "-T", "--upload-file":
		return ", and give the body with --data-binary @FILE"
	case "--next", "-:":
		return ": a recipe has one request"
	}
	return ""
}

// addHeader adds what -H gives. "Name;" is an empty header, "Name:" takes one away.
func (c *curl) addHeader(text string) error {
	if strings.HasPrefix(text, "@") {
		return errors.New("headers from a file cannot be put into a recipe: write them with -H")
	}
	name, value, ok := strings.Cut(text, ":")
	if name, value = strings.TrimSpace(name), strings.TrimSpace(value); ok && value != "" {
		c.lines = append(c.lines, line{name, value})
	}
	return nil
}

// maxBody is what a recipe's body may have: it is written out in the recipe.
const maxBody = 256 << 10

// addData adds what -d and its variants give. files says that @ names a file, strip that line ends of files are
// removed, as -d does.
func (c *curl) addData(text string, files, strip bool) error {
	if name, ok := strings.CutPrefix(text, "@"); ok && files {
		if name == "-" {
			return errors.New("the body comes from standard input: put it into the command, or into a file")
		}
		body, err := c.readFile(name)
		if err != nil {
			return fmt.Errorf("the body of the curl command: %w", err)
		}
		if text = string(body); strip {
			text = strings.NewReplacer("\r", "", "\n", "").Replace(text)
		}
	}
	if len(text) > maxBody {
		return fmt.Errorf("the body has %d bytes; the body of a recipe may have at most %d", len(text), maxBody)
	}
	c.data = append(c.data, text)
	return nil
}

// addEncoded adds what --data-urlencode gives: content, =content, or name=content.
func (c *curl) addEncoded(text string) error {
	name, content, named := strings.Cut(text, "=")
	if !named {
		name, content = "", text
	}
	if strings.Contains(name, "@") || !named && strings.HasPrefix(text, "@") {
		return errors.New("--data-urlencode with a file cannot be put into a recipe: write the text")
	}
	encoded := url.QueryEscape(content)
	if name != "" {
		encoded = name + "=" + encoded
	}
	c.data = append(c.data, encoded)
	return nil
}
