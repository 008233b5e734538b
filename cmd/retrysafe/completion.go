package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

// completionCmd prints a script of its own. The libraries for this (kongplete, kong-completion) run the program at
// each Tab and bring a second engine for completion; a script with the words of this build does as well, and works
// without the program in the PATH.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help shows how to turn it on.
func (completionCmd) Help() string {
	return `bash:  source <(retrysafe completion bash)
zsh:   source <(retrysafe completion zsh)
fish:  retrysafe completion fish | source`
}

// Run prints a script made from the commands and flags of this binary.
func (c completionCmd) Run(s *cli.Streams, ctx *kong.Context) error {
	words := wordsOf(ctx.Model.Node)
	var script string
	switch c.Shell {
	case "bash":
		script = bashCompletion(words)
	case "zsh":
		script = zshCompletion(words)
	case "fish":
		script = fishCompletion(words)
	}
	_, err := fmt.Fprint(s.Out, script)
	return err
}

// commandWords are what can follow a command; the name is empty for the program itself.
type commandWords struct {
	name, help string
	words      []string
}

func wordsOf(root *kong.Node) []commandWords {
	top := commandWords{words: flagsOf(root)}
	all := []commandWords{}
	for _, n := range root.Children {
		if n.Hidden {
			continue
		}
		top.words = append(top.words, n.Name)
		w := commandWords{name: n.Name, help: n.Help, words: flagsOf(n)}
		for _, sub := range n.Children {
			w.words = append(append(w.words, sub.Name), flagsOf(sub)...)
		}
		slices.Sort(w.words)
		w.words = slices.Compact(w.words) // subcommands share flags
		for _, p := range n.Positional {
			w.words = append(w.words, p.EnumSlice()...)
		}
		all = append(all, w)
	}
	return append([]commandWords{top}, all...)
}

func flagsOf(n *kong.Node) []string {
	var flags []string
	for _, f := range n.Flags {
		if !f.Hidden {
			flags = append(flags, "--"+f.Name)
		}
	}
	return flags
}

func bashCompletion(all []commandWords) string {
	var b strings.Builder
	b.WriteString("_retrysafe() {\n\tlocal words\n\tcase \"${COMP_WORDS[1]}\" in\n")
	for _, c := range all[1:] {
		fmt.Fprintf(&b, "\t%s) words=%q ;;\n", c.name, strings.Join(c.words, " "))
	}
	fmt.Fprintf(&b, "\t*) words=%q ;;\n\tesac\n", strings.Join(all[0].words, " "))
	b.WriteString("\t[ \"$COMP_CWORD\" -eq 1 ] && words=" + fmt.Sprintf("%q", strings.Join(all[0].words, " ")) + "\n")
	b.WriteString("\tCOMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\n")
	b.WriteString("complete -o default -F _retrysafe retrysafe\n")
	return b.String()
}

// zshCompletion returns a script that works both in the path of zsh's functions, where the first line says what it is
// for, and when it is sourced.
func zshCompletion(all []commandWords) string {
	var b strings.Builder
	b.WriteString("#compdef retrysafe\n_retrysafe() {\n\tlocal -a options\n\tcase \"${words[2]}\" in\n")
	for _, c := range all[1:] {
		fmt.Fprintf(&b, "\t%s) options=(%s) ;;\n", c.name, strings.Join(c.words, " "))
	}
	b.WriteString("\tesac\n")
	fmt.Fprintf(&b, "\t[ \"$CURRENT\" -eq 2 ] && options=(%s)\n", strings.Join(all[0].words, " "))
	b.WriteString("\tcompadd -a options || _files\n}\n")
	b.WriteString("if [ \"${funcstack[1]}\" = _retrysafe ]; then _retrysafe \"$@\"; else compdef _retrysafe retrysafe; fi\n")
	return b.String()
}

func fishCompletion(all []commandWords) string {
	var b strings.Builder
	for _, c := range all[1:] {
		fmt.Fprintf(&b, "complete -c retrysafe -n __fish_use_subcommand -f -a %s -d %q\n", c.name, c.help)
		for _, w := range c.words {
			option := "-f -a " + w
			if flag, ok := strings.CutPrefix(w, "--"); ok {
				option = "-l " + flag
			}
			fmt.Fprintf(&b, "complete -c retrysafe -n '__fish_seen_subcommand_from %s' %s\n", c.name, option)
		}
	}
	return b.String()
}
