package firststeps_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// TestDocumentation_reasonsAreExplained: each reason of a condition that the code spells out is on the page about them.
func TestDocumentation_reasonsAreExplained(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "templates/guides/condition-reasons.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "internal/fleet/status/*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, e := range reasonsOf(n) {
				reason, err := strconv.Unquote(literalOf(e))
				if err == nil && !strings.Contains(string(page), "`"+reason+"`") {
					t.Errorf("%s: the page has no row for the reason %q", path, reason)
				}
			}
			return true
		})
	}
}

// reasonsOf are the expressions that a node makes reasons.
func reasonsOf(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Reason" {
			return []ast.Expr{n.Value}
		}
	case *ast.AssignStmt:
		for i, to := range n.Lhs {
			if f, ok := to.(*ast.SelectorExpr); ok && f.Sel.Name == "Reason" && i < len(n.Rhs) {
				return []ast.Expr{n.Rhs[i]}
			}
		}
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "lacks" {
			return n.Args[:1]
		}
	case *ast.ValueSpec: // ReasonMigrating = "Migrating"
		if strings.HasPrefix(n.Names[0].Name, "Reason") || strings.HasPrefix(n.Names[0].Name, "PausedBy") {
			return n.Values
		}
	}
	return nil
}

// literalOf is the text of a literal as the code has it, "" for anything else.
func literalOf(e ast.Expr) string {
	if literal, ok := e.(*ast.BasicLit); ok && literal.Kind == token.STRING {
		return literal.Value
	}
	return ""
}

// TestDocumentation_conditionsAreShown: the example that people copy to look at a VM shows every condition, and the
// page about reasons explains it.
func TestDocumentation_conditionsAreShown(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile(filepath.Join(root, "examples/is-my-vm-alive/main.tf"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "templates/guides/condition-reasons.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range status.Types() {
		if !strings.Contains(string(example), strconv.Quote(name)) {
			t.Errorf("the example doesn't show the condition %s", name)
		}
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("the page has no row for the condition %s", name)
		}
	}
}
