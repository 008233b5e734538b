package probecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/probe/draft"
	"github.com/retrysafe/retrysafe/probe/grpcprobe"
	"github.com/retrysafe/retrysafe/probe/recipe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// checkForGRPC finds flags that are for gRPC and stand without --grpc, or the other way round.
func (c initCmd) checkForGRPC() error {
	if strings.HasPrefix(c.File, "grpc://") || strings.HasPrefix(c.File, "grpcs://") {
		return cli.Refusef("%s would be the name of the recipe file; for a server write --grpc %s", c.File, c.File)
	}
	if c.GRPC == "" {
		for flag, given := range map[string]bool{
			"--method": c.Method != "", "--metadata": len(c.Metadata) > 0, "--allow-remote": c.AllowRemote,
			"--i-own-this": c.IOwnThis,
		} {
			if given {
				return cli.Refusef("%s is for gRPC and needs the server, as in --grpc grpc://127.0.0.1:50051", flag)
			}
		}
		return nil
	}
	switch {
	case c.Curl != "" || c.OpenAPI != "":
		return cli.Refusef("--grpc, --curl and --openapi: give one of them")
	case len(c.Operation) > 0:
		return cli.Refusef("--operation %s is for OpenAPI: write --method %s", c.Operation[0], c.Operation[0])
	case c.All:
		return cli.Refusef("--all is for OpenAPI: a recipe for gRPC has one method")
	case c.Target != "":
		return cli.Refusef("--target %s: --grpc already names the server", c.Target)
	case c.Identity != "" && !strings.HasPrefix(c.Identity, "/"):
		return cli.Refusef("--identity %s: for gRPC it is a JSON pointer into the response, as in /%s", c.Identity,
			c.Identity)
	case c.Count != "" && !strings.HasPrefix(c.Count, "http://") && !strings.HasPrefix(c.Count, "https://"):
		return cli.Refusef("--count %s: for gRPC it is a URL, as in http://127.0.0.1:8080/payments#/total", c.Count)
	case c.Profile != "" && !slices.Contains(grpcprobe.Profiles(), c.Profile):
		return cli.Refusef("unsupported --profile %s for gRPC; supported: %s", c.Profile,
			strings.Join(grpcprobe.Profiles(), ", "))
	}
	return nil
}

// draftGRPC asks the server what it offers, and makes a draft of one of its methods.
func (c initCmd) draftGRPC() (*draft.Draft, error) {
	target, err := recipe.ParseGRPCTarget(c.GRPC)
	if err != nil {
		return nil, cli.Refuse(yamlfile.ForFlag("--grpc", err))
	}
	if err := c.permit(target); err != nil {
		return nil, err
	}
	written, expanded, err := c.metadata()
	if err != nil {
		return nil, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	all, undescribed, err := grpcprobe.Services(ctx, recipe.ServerAt(target, expanded))
	if err != nil {
		return nil, fmt.Errorf("--grpc: %w", err)
	}
	d, err := c.choose(draft.Service{Target: target.String(), Offers: all, Undescribed: undescribed, Metadata: written})
	if err != nil {
		return nil, cli.Refusef("--grpc %s: %w", c.GRPC, err)
	}
	return d, nil
}

// metadata returns that of the flags as it is written, and with the variables of the environment.
func (c initCmd) metadata() (written, expanded []wire.HeaderLine, err error) {
	for _, s := range c.Metadata {
		w, e, err := recipe.ParseMetadata(s, os.LookupEnv)
		if err != nil {
			return nil, nil, cli.Refuse(yamlfile.ForFlag("--metadata", err))
		}
		written, expanded = append(written, w), append(expanded, e)
	}
	return written, expanded, nil
}

// choose makes a draft of the method, with what the flags say.
func (c initCmd) choose(s draft.Service) (*draft.Draft, error) {
	d, err := draft.FromGRPC(s, c.Method)
	if err != nil {
		return nil, err
	}
	d.Profile, d.IdentityPointer = cmp.Or(c.Profile, d.Profile), cmp.Or(c.Identity, d.IdentityPointer)
	d.CountPath, d.CountPointer, _ = strings.Cut(c.Count, "#")
	d.OwnThis = c.IOwnThis
	if c.Slow != "" {
		if err := d.SetSlow(s, c.Slow); err != nil {
			return nil, fmt.Errorf("--slow: %w", err)
		}
	}
	if c.SecondCaller && !d.AddSecondCaller() {
		return nil, errors.New("--second-caller: no metadata identifies the caller; add --metadata 'authorization: " +
			"Bearer me'")
	}
	return d, d.Settle()
}

// permit refuses a target that the user may not own.
func (c initCmd) permit(target *url.URL) error {
	if isLoopback(target) || c.AllowRemote && c.IOwnThis {
		return nil
	}
	var missing []string
	for flag, given := range map[string]bool{"--allow-remote": c.AllowRemote, "--i-own-this": c.IOwnThis} {
		if !given {
			missing = append(missing, flag)
		}
	}
	slices.Sort(missing)
	return cli.Refusef("%s is not on this machine, and the probe creates resources and sends faulty requests on "+
		"purpose; if it is yours and meant for tests, say so: %s",
		target.Redacted(), strings.Join(missing, ", and "))
}
