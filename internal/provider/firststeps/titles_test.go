package firststeps_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// titled are the functions that make an error or a warning, with the argument that is its title.
var titled = map[string]int{
	"AddError": 0, "AddWarning": 0, "AddAttributeError": 1, "AddAttributeWarning": 1,
	"NewErrorDiagnostic": 0, "NewWarningDiagnostic": 0, "NewAttributeErrorDiagnostic": 1,
	"NewAttributeWarningDiagnostic": 1,
}

// bugs are the titles of errors that no user can do anything about but report them.
var bugs = []string{"Unable to configure resource", "Unable to write private state"}

// TestDocumentation_titlesAreExplained: every error and warning can be looked up in Troubleshooting by its title. One
// that begins with a constant text, such as "Invalid ", is there with that beginning. Names after a colon vary.
func TestDocumentation_titlesAreExplained(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(root, "templates/guides/troubleshooting*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatal(err)
	}
	var explained strings.Builder
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		explained.Write(text)
	}
	for title, file := range titles(t) {
		if !slices.Contains(bugs, title) && !strings.Contains(explained.String(), "`"+title) {
			t.Errorf("%s: Troubleshooting has no row for %q", file, title)
		}
	}
}

// titles are the titles in the code, as far as they are constant, with a file of each.
func titles(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, folder := range []string{"provider", "fleet"} {
		err := filepath.WalkDir(filepath.Join(root, "internal", folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if title := strings.TrimSuffix(beginning(titleOf(n)), ": "); title != "" {
					found[title] = path
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// titleOf returns the expression of a title, nil if the node has none.
func titleOf(n ast.Node) ast.Expr {
	switch n := n.(type) {
	case *ast.CallExpr:
		f, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			return nil
		}
		if at, ok := titled[f.Sel.Name]; ok && at < len(n.Args) {
			return n.Args[at]
		}
		if of, ok := f.X.(*ast.Ident); ok && of.Name == "attrpath" && f.Sel.Name == "Error" && len(n.Args) == 3 {
			return n.Args[1]
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Summary" {
			return n.Value
		}
	case *ast.AssignStmt:
		if to, ok := n.Lhs[0].(*ast.SelectorExpr); ok && to.Sel.Name == "Summary" && len(n.Rhs) == 1 {
			return n.Rhs[0]
		}
	}
	return nil
}

// beginning is the constant text that the expression begins with.
func beginning(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return beginning(e.X)
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return strings.TrimRight(text, " :")
		}
	}
	return ""
}
