package evacuation

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestReasons_areInTheGuide: every code of drains is explained on the page about eviction strategies.
func TestReasons_areInTheGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../../templates/guides/eviction-strategies.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "step.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(guide), "## Codes of drains")
	rows, codes := strings.Count(table, "\n| `"), 0
	ast.Inspect(file, func(n ast.Node) bool {
		v, is := n.(*ast.ValueSpec)
		if !is || !strings.HasPrefix(v.Names[0].Name, "Reason") || len(v.Values) != 1 {
			return true
		}
		literal, is := v.Values[0].(*ast.BasicLit)
		if !is {
			t.Errorf("%s isn't a text", v.Names[0].Name)
			return true
		}
		code, err := strconv.Unquote(literal.Value)
		if codes++; err != nil || !strings.Contains(table, "| `"+code+"` |") {
			t.Errorf("the guide doesn't explain %q (%v)", code, err)
		}
		return true
	})
	if codes != rows || codes == 0 {
		t.Errorf("the guide explains %d codes, the plan has %d", rows, codes)
	}
}
