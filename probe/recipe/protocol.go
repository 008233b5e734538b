package recipe

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
	"github.com/retrysafe/retrysafe/probe/grpcprobe"
	"github.com/retrysafe/retrysafe/probe/profile"
)

// Protocol is what differs between APIs of HTTP and services of gRPC.
type Protocol struct {
	Name     string // "HTTP", "gRPC"
	Cases    []probe.Case
	Profiles []string
	// First is the case that finds out whether the recipe's request works at all.
	First string
	// Target checks where the API is said to be; Targets says how that is written.
	Target  func(s string) (*url.URL, error)
	Targets string
}

// Protocols returns the protocols that a recipe can be for.
func Protocols() []Protocol { return []Protocol{overHTTP(), overGRPC()} }

// overHTTP returns the protocol HTTP with its cases.
func overHTTP() Protocol {
	return Protocol{
		Name: "HTTP", Cases: cases.All(), Profiles: profile.Names(), First: "B01",
		Target: ParseTarget, Targets: "http://127.0.0.1:8080 or https://api.example.test/v1",
	}
}

// overGRPC returns the protocol gRPC with its cases.
func overGRPC() Protocol {
	return Protocol{
		Name: "gRPC", Cases: grpcprobe.Cases(), Profiles: grpcprobe.Profiles(), First: "G01", Target: ParseGRPCTarget,
		Targets: grpcTargets,
	}
}

// Protocol returns the protocol that the recipe is for.
func (f *File) Protocol() Protocol {
	if f.grpc != nil {
		return overGRPC()
	}
	return overHTTP()
}

// Makes says which requests make something, with those of set-ups: POST /payments, or the name of a method.
func (f *File) Makes() string {
	if f.grpc != nil {
		return f.grpc.plain.method
	}
	var all []string
	for _, route := range f.Routes() {
		for _, step := range route.Recipe.Request.Setup {
			all = append(all, step.Method+" "+step.Path)
		}
		all = append(all, route.Recipe.Request.Method+" "+route.Recipe.Request.Path)
	}
	seen := map[string]bool{}
	return strings.Join(slices.DeleteFunc(all, func(text string) bool {
		defer func() { seen[text] = true }()
		return seen[text]
	}), ", ")
}

// Body returns what the recipe's request sends: the body, or the request of the call as JSON. Its generators are not
// filled in.
func (f *File) Body() string {
	if f.grpc != nil {
		return f.grpc.plain.request
	}
	return f.Recipe.Request.Body
}

// Run plays the cases with what Open has returned. Its errors are those of probe.Run, or of grpcprobe.Run.
func (f *File) Run(ctx context.Context, opened probe.Recipe, o probe.Options) (*probe.Report, error) {
	if f.grpc != nil {
		return grpcprobe.Run(ctx, f.grpc.open(opened), o)
	}
	return cases.Run(ctx, opened, o)
}
