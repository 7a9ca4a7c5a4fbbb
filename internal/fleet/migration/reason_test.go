package migration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every reason code has its place in the list, and is explained where people look for it.
func TestReasons_areInTheGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../../templates/guides/migration-reason-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, d := range file.Decls {
		constants, ok := d.(*ast.GenDecl)
		if !ok || constants.Tok != token.CONST {
			continue
		}
		for _, s := range constants.Specs {
			v, ok := s.(*ast.ValueSpec)
			if !ok || v.Type != nil || len(v.Values) != 1 { // The typed ones are statuses.
				continue
			}
			literal, ok := v.Values[0].(*ast.BasicLit)
			if !ok {
				continue
			}
			code, err := strconv.Unquote(literal.Value)
			if position(code) == len(knownReasons) {
				t.Errorf("%q isn't in the list of reasons", code)
			}
			if n++; err != nil || !strings.Contains(string(guide), "| `"+code+"` |") {
				t.Errorf("the guide doesn't explain %q (%v)", code, err)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d codes found", n)
	}
}

// The cause that concerns the whole target comes first, whichever check found it, and two of one kind stay in order.
func TestSortBlockers(t *testing.T) {
	t.Parallel()
	blockers := []Blocker{
		{Reason: CPUNotCompatible},
		{Reason: InsufficientMemory},
		{Reason: DisksNotLiveMigratable, Attribute: "disks.b"},
		{Reason: DisksNotLiveMigratable, Attribute: "disks.a"},
		{Reason: HostCordoned},
	}
	SortBlockers(blockers)
	var got []string
	for _, b := range blockers {
		got = append(got, b.Reason+b.Attribute)
	}
	want := []string{
		HostCordoned, DisksNotLiveMigratable + "disks.b", DisksNotLiveMigratable + "disks.a", CPUNotCompatible,
		InsufficientMemory,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
