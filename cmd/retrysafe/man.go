package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/proxycmd"
)

// manCmd prints a page of its own. mango-kong knows neither the detailed help of commands nor the help of settings, and
// dates its pages, so that two builds would differ.
type manCmd struct{}

// Help shows how to read the page without installing it.
func (manCmd) Help() string { return "    retrysafe man | man -l -" }

// Run prints the page, made from the commands and flags of this binary.
func (manCmd) Run(s *cli.Streams, ctx *kong.Context) error {
	var b strings.Builder
	root := ctx.Model.Node
	fmt.Fprintf(&b, ".TH RETRYSAFE 1 \"\" %q\n.ad l\n", "retrysafe "+cli.Version())
	b.WriteString(".SH NAME\nretrysafe \\- make HTTP APIs safe to retry\n")
	b.WriteString(".SH SYNOPSIS\n.B retrysafe\n\\fICOMMAND\\fR [\\fIARGUMENTS\\fR] [\\fIFLAGS\\fR]\n.SH DESCRIPTION\n")
	manText(&b, root.Help)
	manFlags(&b, root)
	for _, n := range root.Children {
		manCommand(&b, n)
	}
	_, err := fmt.Fprint(s.Out, b.String())
	return err
}

// manCommand writes a section about a command, and one about each of its subcommands.
func manCommand(b *strings.Builder, n *kong.Node) {
	if n.Hidden {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", roff(strings.ToUpper(n.FullPath())))
	fmt.Fprintf(b, ".B %s\n", roff("retrysafe "+n.Summary()))
	manText(b, n.Help)
	manText(b, n.Detail)
	for _, p := range n.Positional {
		manItem(b, p.Summary(), proxycmd.FlagHelp(p))
	}
	manFlags(b, n)
	for _, sub := range n.Children {
		manCommand(b, sub)
	}
}

func manFlags(b *strings.Builder, n *kong.Node) {
	for _, f := range n.Flags {
		if !f.Hidden {
			manItem(b, f.String(), proxycmd.FlagHelp(f.Value))
		}
	}
}

func manItem(b *strings.Builder, name, help string) {
	fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(name), roff(strings.Join(strings.Fields(help), " ")))
}

// manText writes the paragraphs of a help text. Indented lines and lists are kept as they are.
func manText(b *strings.Builder, text string) {
	for _, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if strings.HasPrefix(paragraph, " ") || strings.Contains(paragraph, "\n ") {
			fmt.Fprintf(b, ".PP\n.nf\n%s\n.fi\n", roff(paragraph))
		} else if paragraph != "" {
			fmt.Fprintf(b, ".PP\n%s\n", roff(paragraph))
		}
	}
}

// roff escapes what roff would interpret: a hyphen would become a dash that cannot be pasted into a shell, and a line
// that begins with a dot or an apostrophe would be a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
