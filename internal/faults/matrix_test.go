package faults

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each fault is in the matrix once with each operation: with a test and something to say, or with why it can't be.
func TestMatrix_isComplete(t *testing.T) {
	t.Parallel()
	if len(Matrix) != len(Operations) {
		t.Errorf("%d operations have cells, want %d", len(Matrix), len(Operations))
	}
	for _, operation := range Operations {
		cells := Matrix[operation]
		if len(cells) != len(Faults) {
			t.Errorf("%s: %d cells, want %d", operation, len(cells), len(Faults))
		}
		for i, c := range cells {
			if i < len(Faults) && c.Fault != Faults[i] {
				t.Errorf("%s: cell %d is of %q, want %q", operation, i, c.Fault, Faults[i])
			}
			said := c.Sees != "" && c.NextPlan != "" && c.NextApply != "" && len(c.Tests) > 0
			silent := c.Sees+c.NextPlan+c.NextApply == "" && len(c.Tests) == 0
			if (c.Impossible == "" && !said) || (c.Impossible != "" && !silent) {
				t.Errorf("%s, %s: want content and a test, or why it can't be: %+v", operation, c.Fault, c)
			}
			for _, word := range []string{"unknown", "|", "\n"} {
				if text := c.Sees + c.NextPlan + c.NextApply + c.Impossible; strings.Contains(text, word) {
					t.Errorf("%s, %s: %q is no word for a cell: %s", operation, c.Fault, word, text)
				}
			}
		}
	}
}

// Whatever a page names as proof is a test of this repository. The pages have every operation once.
func TestPages_nameTestsThatExist(t *testing.T) {
	t.Parallel()
	var operations []Operation
	for _, page := range Pages {
		operations = append(operations, page.Operations...)
		for _, want := range page.tests() {
			function := find(t, want)
			if function == nil {
				t.Errorf("there is no test %s", want)
				continue
			}
			if want.Sub != "" && !names(function, want.Sub) {
				t.Errorf("%s: the test has no case of that name", want)
			}
		}
	}
	for _, o := range Operations {
		if i := slices.Index(operations, o); i < 0 || slices.Contains(operations[i+1:], o) {
			t.Errorf("%s has to be on one page: %v", o, operations)
		}
	}
}

// find is the function of a test, nil if there is none.
func find(t *testing.T, want Test) *ast.FuncDecl {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(want.Package), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == want.Name {
				return f
			}
		}
	}
	return nil
}

// names says that the text is in a string of the function.
func names(function *ast.FuncDecl, text string) bool {
	found := false
	ast.Inspect(function, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			found = found || strings.Trim(literal.Value, "`\"") == text
		}
		return !found
	})
	return found
}

// The guides are what the matrix says now.
func TestPages_areUpToDate(t *testing.T) {
	t.Parallel()
	for _, page := range Pages {
		want, err := page.Markdown()
		if err != nil {
			t.Fatal(err)
		}
		for _, folder := range []string{"../../templates/guides", "../../docs/guides"} {
			file := filepath.Join(folder, page.File)
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != want {
				t.Errorf("%s is not what the matrix says: make generate", file)
			}
		}
	}
}
