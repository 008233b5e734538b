package probecmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/draft"
	"github.com/retrysafe/retrysafe/probe/recipe"
)

type initCmd struct {
	File      string `arg:"" optional:"" default:"recipe.yaml" help:"Where to write the recipe; - is standard output. Default recipe.yaml."`
	Curl      string `placeholder:"COMMAND" help:"A curl command line that makes something. Default: it is read from standard input."`
	OpenAPI   string `name:"openapi" placeholder:"FILE" help:"An OpenAPI 3 document, JSON or YAML, instead of a curl command."`
	Operation string `placeholder:"ID" help:"Its operation: an operationId, or \"POST /payments\"."`
	GRPC      string `name:"grpc" placeholder:"TARGET" help:"A gRPC server that offers reflection, instead of a curl command: grpc://127.0.0.1:50051, or grpcs:// for TLS. It is asked what it has, and nothing of it is called."`
	Method    string `placeholder:"NAME" help:"Its method that makes something: shop.v1.Payments/CreatePayment, or CreatePayment if there is but one. Default: the one that could be meant."`
	Target    string `placeholder:"URL" help:"Where the API is. Default: as in the command or the document."`
	Identity  string `placeholder:"PLACE" help:"What in an answer tells one thing from another: a JSON pointer such as /data/id, or a header. Default: guessed."`
	Profile   string `placeholder:"NAME" help:"The rules that the API has declared. Default: by what carries the key, or else ietf."`
	Force     bool   `help:"Write over a file that exists."`

	Count        string   `group:"More cases, better evidence" placeholder:"PATH" help:"Count what has really happened with a GET of this path: a list, or a number behind a JSON pointer: /payments, /stats#/payments. For gRPC a URL."`
	Slow         string   `group:"More cases, better evidence" placeholder:"PATH" help:"Where the same request takes a second or more. For gRPC a method."`
	Metadata     []string `sep:"none" group:"More cases, better evidence" placeholder:"NAME:VALUE" help:"What goes with each call of gRPC, and with the questions of probe init: 'authorization: Bearer me'. May be given several times."`
	SecondCaller bool     `group:"More cases, better evidence" help:"Send requests of a second caller too, who must not see what belongs to the first."`

	AllowRemote bool `group:"Safety" help:"Ask a gRPC server that is not on this machine. Needs --i-own-this."`
	IOwnThis    bool `name:"i-own-this" group:"Safety" help:"The target may be tested although it is not on this machine: the recipe says so."`
}

// Help shows the ways in.
func (initCmd) Help() string {
	return `Secrets stay out of the file: what stands in Authorization, X-API-Key or Cookie becomes ${PROBE_CREDENTIAL_A}, which is taken from the
environment. Amounts, and identifiers that the client makes up, become {{amount}} and {{uuid}}, so that requests can differ.

Examples:

    retrysafe probe init --curl "curl localhost:8080/payments -H 'Authorization: Bearer me' --json '{\"amount\":500}'"
    retrysafe probe init --count /payments --second-caller < command.txt
    retrysafe probe init payments.yaml < command.txt
    retrysafe probe init --openapi api.yaml --operation createPayment --identity Location
    retrysafe probe init --grpc grpc://127.0.0.1:50051 --method CreatePayment --metadata 'authorization: Bearer me'`
}

// maxCommand bounds a curl command line.
const maxCommand = 1 << 20

// Run writes the file, and says what to do next.
func (c initCmd) Run(s *cli.Streams) error {
	d, err := c.drafted()
	if err != nil {
		return err
	}
	text, err := d.YAML()
	if err != nil {
		return cli.Refuse(err)
	}
	if c.File == "-" {
		_, err := s.Out.Write(text)
		return err
	}
	if err := c.write(text); err != nil {
		return err
	}
	c.tell(s.Err, d)
	return nil
}

// drafted is the draft with what the flags say.
func (c initCmd) drafted() (*draft.Draft, error) {
	if err := c.checkForGRPC(); err != nil {
		return nil, err
	}
	if c.GRPC != "" {
		return c.draftGRPC()
	}
	d, err := c.draft(os.Stdin)
	if err != nil {
		return nil, err
	}
	return d, c.override(d)
}

func (c initCmd) draft(stdin *os.File) (*draft.Draft, error) {
	switch {
	case c.Curl != "" && c.OpenAPI != "":
		return nil, cli.Refusef("--curl and --openapi: give one of them")
	case c.Operation != "" && c.OpenAPI == "":
		return nil, cli.Refusef("--operation %s: of which document? Give --openapi FILE", c.Operation)
	case c.OpenAPI != "":
		source, err := os.ReadFile(c.OpenAPI)
		if err != nil {
			return nil, cli.Refusef("--openapi: %w", err)
		}
		d, err := draft.FromOpenAPI(source, c.Operation)
		if err != nil {
			return nil, cli.Refusef("--openapi %s: %w", c.OpenAPI, err)
		}
		return d, nil
	}
	command := c.Curl
	if command == "" {
		if cli.IsTerminal(stdin) {
			return nil, cli.Refusef("what should the recipe be made of? Give a curl command that makes something, as in --curl 'curl localhost:8080/payments -d amount=500'")
		}
		text, err := io.ReadAll(io.LimitReader(stdin, maxCommand))
		if err != nil {
			return nil, fmt.Errorf("read the curl command: %w", err)
		}
		command = string(text)
	}
	d, err := draft.FromCurl(strings.TrimSpace(command))
	if err != nil {
		return nil, cli.Refuse(err)
	}
	return d, nil
}

// override puts the flags that are set into the draft.
func (c initCmd) override(d *draft.Draft) error {
	if c.Target != "" {
		u, err := recipe.ParseTarget(c.Target)
		if err != nil {
			return cli.Refusef("--target: %w; write http://127.0.0.1:8080", err)
		}
		d.Target = strings.TrimSuffix(u.String(), "/")
	}
	if c.Profile != "" {
		if _, ok := probe.Profiles()[c.Profile]; !ok {
			return cli.Refusef("--profile %s: there are %s", c.Profile, strings.Join(probe.ProfileNames(), ", "))
		}
		d.Profile = c.Profile
	}
	if c.Identity != "" {
		d.IdentityPointer, d.IdentityHeader = "", ""
		if strings.HasPrefix(c.Identity, "/") {
			d.IdentityPointer = c.Identity
		} else {
			d.IdentityHeader = c.Identity
		}
	}
	return c.add(d)
}

// add puts in what makes more cases possible, and their evidence better.
func (c initCmd) add(d *draft.Draft) error {
	for flag, path := range map[string]string{"--count": c.Count, "--slow": c.Slow} {
		if path != "" && !strings.HasPrefix(path, "/") {
			return cli.Refusef("%s %s: a path begins with a slash, as in /payments", flag, path)
		}
	}
	d.CountPath, d.CountPointer, _ = strings.Cut(c.Count, "#")
	d.SlowPath = c.Slow
	if c.SecondCaller && !d.AddSecondCaller() {
		return cli.Refusef("--second-caller: nothing in the request says who the caller is; add it to the command, as in -H 'Authorization: Bearer me'")
	}
	return nil
}

// write makes the file. It never writes over another one unless it is told to.
func (c initCmd) write(text []byte) error {
	mode := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if c.Force {
		mode = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(c.File, mode, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return cli.Refusef("%s is there already: give another name, or --force to write over it", c.File)
	}
	if err != nil {
		return cli.Refuse(err)
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// tell says what was guessed, and how to go on.
func (c initCmd) tell(w io.Writer, d *draft.Draft) {
	fmt.Fprintf(w, "%s: %s at %s\n", c.File, strings.TrimSpace(d.Method+" "+d.Path+d.Call), d.Target)
	for _, n := range d.Notes() {
		fmt.Fprintf(w, "  %s\n", n)
	}
	variables := d.Variables()
	switch {
	case len(variables) > 0 && d.ShowsSecret():
		fmt.Fprintln(w, "  Other secrets are not in the file. It takes them from the environment:")
	case len(variables) > 0:
		fmt.Fprintln(w, "  No secret is in the file. It takes them from the environment:")
	}
	for _, v := range variables {
		fmt.Fprintf(w, "      export %s='…'   # %s\n", v.Name, v.Holds)
	}
	command := "retrysafe probe"
	if binary, err := os.Executable(); err == nil {
		command = cli.ProgramOf(binary) + " probe"
	}
	if c.File != "recipe.yaml" {
		command += " --recipe " + c.File
	}
	if d.OwnThis {
		command += " --allow-remote"
	}
	fmt.Fprintf(w, "  Look it over, and then: %s\n", command)
}
