package main

import (
	"go/ast"
	"go/token"
	"strconv"
)

// change replaces some bytes of a source by a text.
type change struct {
	start, end int
	text       string
}

// pass collects the possible changes of one piece of syntax. Changes that do not compile are removed later.
type pass struct {
	source  []byte
	offset  func(token.Pos) int
	changes []change
}

func (p *pass) replace(start, end token.Pos, text string) {
	p.changes = append(p.changes, change{p.offset(start), p.offset(end), text})
}

func (p *pass) replaceNode(n ast.Node, text string) { p.replace(n.Pos(), n.End(), text) }

func (p *pass) text(n ast.Node) string { return string(p.source[p.offset(n.Pos()):p.offset(n.End())]) }

// operators lists the replacements of each operator.
var operators = map[token.Token][]string{
	token.EQL:  {"!="},
	token.NEQ:  {"=="},
	token.LSS:  {"<="},
	token.LEQ:  {"<"},
	token.GTR:  {">="},
	token.GEQ:  {">"},
	token.LAND: {"||"},
	token.LOR:  {"&&"},
	token.ADD:  {"-"},
	token.SUB:  {"+"},
}

var assignments = map[token.Token]string{
	token.ADD_ASSIGN: "-=",
	token.SUB_ASSIGN: "+=",
	token.INC:        "--",
	token.DEC:        "++",
}

// families lists groups of names; each name is replaced by the next one of its group.
var families = [][]string{
	{"Acquired", "InFlight", "Done", "Abandoned"},
	{"Pending", "Released", "Succeeded", "Failed"},
	{"Replay", "Key", "Audit"},
	{"ReplayLeft", "KeyLeft", "AuditLeft"},
	{"Scope", "ID"},
	{"Meta", "Body"},
	{"state", "Succeeded"},
	{"true", "false"},
	{"min", "max"},
	{"Front", "Back"},
	{"Next", "Prev"},
	{"endsAt", "claimedAt"},
	{"expired", "readable"},
	{"MaxKeys", "MaxBytes"},
}

func (p *pass) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ValueSpec:
		return n.Names[0].Name != "_" // a compile-time assertion without effect
	case *ast.BinaryExpr:
		for _, other := range operators[n.Op] {
			p.replace(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other)
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			p.replaceNode(n, p.text(n.X))
		}
	case *ast.IfStmt:
		p.condition(n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			p.condition(n.Cond)
		}
	case *ast.SwitchStmt:
		if n.Tag == nil {
			p.cases(n)
		}
	case *ast.BlockStmt:
		p.statements(n.List)
	case *ast.CaseClause:
		p.statements(n.Body)
	case *ast.AssignStmt:
		p.assignment(n.TokPos, n.Tok)
	case *ast.IncDecStmt:
		p.assignment(n.TokPos, n.Tok)
	case *ast.ReturnStmt:
		p.results(n.Results)
	case *ast.CallExpr:
		p.call(n)
	case *ast.CompositeLit:
		p.elements(n)
	case *ast.BasicLit:
		p.literal(n)
	case *ast.Ident:
		p.name(n)
	}
	return true
}

// condition makes a condition constantly false and constantly true.
func (p *pass) condition(c ast.Expr) {
	p.replaceNode(c, "false && ("+p.text(c)+")")
	p.replaceNode(c, "true || ("+p.text(c)+")")
}

func (p *pass) cases(s *ast.SwitchStmt) {
	for _, stmt := range s.Body.List {
		for _, c := range stmt.(*ast.CaseClause).List {
			p.condition(c)
		}
	}
}

// statements removes each statement without which the code still compiles.
func (p *pass) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.BranchStmt, *ast.RangeStmt, *ast.SendStmt:
			p.replaceNode(s, "")
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				p.replaceNode(s, "")
			}
		case *ast.ReturnStmt:
			if len(s.Results) == 0 {
				p.replaceNode(s, "")
			}
		}
	}
}

func (p *pass) assignment(at token.Pos, t token.Token) {
	if other, ok := assignments[t]; ok {
		p.replace(at, at+token.Pos(len(t.String())), other)
	}
}

// results replaces each result by a zero value or similar.
func (p *pass) results(list []ast.Expr) {
	for _, r := range list {
		for _, other := range []string{"nil", "0", "!(" + p.text(r) + ")"} {
			if p.text(r) != other {
				p.replaceNode(r, other)
			}
		}
	}
}

// call removes a conversion or a copy: f(x) becomes x, x.f() becomes x. It also removes the last of several
// arguments.
func (p *pass) call(c *ast.CallExpr) {
	if len(c.Args) == 1 {
		p.replaceNode(c, p.text(c.Args[0]))
	}
	if s, ok := c.Fun.(*ast.SelectorExpr); ok && len(c.Args) == 0 {
		p.replaceNode(c, p.text(s.X))
	}
}

// elements removes each field of a composite literal.
func (p *pass) elements(c *ast.CompositeLit) {
	for _, e := range c.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			p.replace(kv.Key.Pos(), kv.Value.End(), "")
		}
	}
}

func (p *pass) literal(l *ast.BasicLit) {
	if l.Kind != token.INT {
		return
	}
	if i, err := strconv.ParseInt(l.Value, 0, 64); err == nil {
		p.replaceNode(l, strconv.FormatInt(i+1, 10))
	}
}

func (p *pass) name(id *ast.Ident) {
	for _, family := range families {
		for i, name := range family {
			if id.Name == name {
				p.replaceNode(id, family[(i+1)%len(family)])
			}
		}
	}
}
