package probecmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/probe/draft"
	"github.com/retrysafe/retrysafe/probe/profile"
	"github.com/retrysafe/retrysafe/probe/recipe"
)

type initCmd struct {
	File      string   `arg:"" optional:"" default:"recipe.yaml" help:"Where to write the recipe; - is standard output. Default recipe.yaml."`
	Curl      string   `placeholder:"COMMAND" help:"A curl command that creates a resource. Default: read from standard input."`
	OpenAPI   string   `name:"openapi" placeholder:"FILE" help:"An OpenAPI 3 document, JSON or YAML, instead of a curl command."`
	Operation []string `sep:"none" placeholder:"ID" help:"The operation in the document: an operationId, or \"POST /payments\". May be repeated, for a recipe with a route for each."`
	All       bool     `help:"Write a recipe with a route for each POST of the document."`
	GRPC      string   `name:"grpc" placeholder:"TARGET" help:"A gRPC server with reflection, instead of a curl command: grpc://127.0.0.1:50051, or grpcs:// for TLS. Only reflection is used; no method is called."`
	Method    string   `placeholder:"NAME" help:"Method that creates a resource: shop.v1.Payments/CreatePayment, or CreatePayment if that is unambiguous. Default: inferred."`
	Target    string   `placeholder:"URL" help:"Where the API is. Default: as in the command or the document."`
	Identity  string   `placeholder:"PLACE" help:"What identifies a created resource in a response: a JSON pointer such as /data/id, or a header. Default: inferred."`
	Profile   string   `placeholder:"NAME" help:"The rules that the API follows. Default: inferred from where the key is sent, otherwise ietf."`
	Force     bool     `help:"Overwrite an existing file."`

	Count        string   `group:"More cases, better evidence" placeholder:"PATH" help:"Count effects with a GET of this path, which returns a list, or a number at a JSON pointer: /payments, /stats#/payments. For gRPC a URL."`
	Slow         string   `group:"More cases, better evidence" placeholder:"PATH" help:"Path where the same request takes a second or more. For gRPC a method."`
	Metadata     []string `sep:"none" group:"More cases, better evidence" placeholder:"NAME:VALUE" help:"Metadata of each gRPC call, and of the reflection calls of probe init: 'authorization: Bearer me'. May be repeated."`
	SecondCaller bool     `group:"More cases, better evidence" help:"Also send requests of a second caller, who must not see the data of the first."`

	AllowRemote bool `group:"Safety" help:"Allow a gRPC server that is not on this machine. Needs --i-own-this."`
	IOwnThis    bool `name:"i-own-this" group:"Safety" help:"Confirm that you may test a target that is not on this machine. The recipe records it."`
}

// Help shows the ways in.
func (initCmd) Help() string {
	return `Secrets stay out of the file: the value of Authorization, X-API-Key or Cookie becomes ${PROBE_CREDENTIAL_A},
which is read from the environment. Amounts, and identifiers that the client chooses, become {{amount}} and
{{uuid}}, so that requests can differ.

Examples:

    retrysafe probe init --curl "curl localhost:8080/payments -H 'Authorization: Bearer me' --json '{\"amount\":500}'"
    retrysafe probe init --count /payments --second-caller < command.txt
    retrysafe probe init payments.yaml < command.txt
    retrysafe probe init --openapi api.yaml --operation createPayment --identity Location
    retrysafe probe init --openapi api.yaml --all
    retrysafe probe init --grpc grpc://127.0.0.1:50051 --method CreatePayment --metadata 'authorization: Bearer me'`
}

// maxCommand bounds a curl command line.
const maxCommand = 1 << 20

// Run writes the recipe, and says what to do next.
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
	c.printNext(s.Err, d)
	return nil
}

// drafted returns the draft with what the flags say.
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
	case len(c.Operation) > 0 && c.OpenAPI == "":
		return nil, cli.Refusef("--operation %s needs the document: --openapi FILE", c.Operation[0])
	case c.All && c.OpenAPI == "":
		return nil, cli.Refusef("--all needs the document: --openapi FILE")
	case c.All && len(c.Operation) > 0:
		return nil, cli.Refusef("--all and --operation: give one of them")
	case c.OpenAPI != "":
		source, err := os.ReadFile(c.OpenAPI)
		if err != nil {
			return nil, cli.Refusef("--openapi: %w", err)
		}
		d, err := c.fromOpenAPI(source)
		if err != nil {
			return nil, cli.Refusef("--openapi %s: %w", c.OpenAPI, err)
		}
		return d, nil
	}
	command := c.Curl
	if command == "" {
		if cli.IsTerminal(stdin) {
			return nil, cli.Refusef("no curl command: give one that creates a resource, as in --curl 'curl " +
				"localhost:8080/payments -d amount=500'")
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

// fromOpenAPI drafts one request, or a route for each of several.
func (c initCmd) fromOpenAPI(source []byte) (*draft.Draft, error) {
	switch len(c.Operation) {
	case 0:
		if !c.All {
			return draft.FromOpenAPI(source, "")
		}
	case 1:
		return draft.FromOpenAPI(source, c.Operation[0])
	}
	return draft.FromOpenAPIRoutes(source, c.Operation)
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
		if _, ok := profile.All()[c.Profile]; !ok {
			return cli.Refusef("unsupported --profile %s; supported: %s", c.Profile, strings.Join(profile.Names(), ", "))
		}
		d.Profile = c.Profile
	}
	if len(d.Routes) > 0 && (c.Identity != "" || c.Slow != "") {
		return cli.Refusef("--identity and --slow are for one request, but the recipe has %d routes: write them into the file",
			len(d.Routes))
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
		return cli.Refusef("--second-caller: the request does not identify its caller; add a credential to the " +
			"command, as in -H 'Authorization: Bearer me'")
	}
	return nil
}

// write creates the file. It overwrites another one only with --force.
func (c initCmd) write(text []byte) error {
	mode := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if c.Force {
		mode = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(c.File, mode, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return cli.Refusef("%s exists already: give another name, or --force to overwrite it", c.File)
	}
	if err != nil {
		return cli.Refuse(err)
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// printNext says what was inferred, and which command is next.
func (c initCmd) printNext(w io.Writer, d *draft.Draft) {
	fmt.Fprintf(w, "%s: %s at %s\n", c.File, d.Makes(), d.Target)
	for _, n := range d.Notes() {
		fmt.Fprintf(w, "  %s\n", n)
	}
	variables := d.Variables()
	switch {
	case len(variables) > 0 && d.ShowsSecret():
		fmt.Fprintln(w, "  Other secrets are not in the file. Set these variables:")
	case len(variables) > 0:
		fmt.Fprintln(w, "  No secret is in the file. Set these variables:")
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
	fmt.Fprintf(w, "  Check the file, then run: %s\n", command)
}
