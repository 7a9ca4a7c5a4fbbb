package faults

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// begin has the beginning of each page.
//
//go:embed begin
var begin embed.FS

// Page is a guide about some operations.
type Page struct {
	// File is its name, and that of its beginning.
	File       string
	Operations []Operation
}

// Pages are the guides. Together they have every operation once.
var Pages = []Page{
	{"fault-matrix.md", []Operation{Create, Update, Stop}},
	{"fault-matrix-drains.md", []Operation{Drain, Restore}},
	{"fault-matrix-migrations.md", []Operation{PreCopy, ColdMove}},
	{"fault-matrix-post-copy.md", []Operation{PostCopy}},
}

// Markdown is the page's text.
func (p Page) Markdown() (string, error) {
	header, err := begin.ReadFile("begin/" + p.File)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.Write(header)
	b.WriteString("<!-- Generated from internal/faults by make generate. -->\n\n")
	tests := p.tests()
	for _, operation := range p.Operations {
		fmt.Fprintf(&b, "## %s\n\n| fault | you see | next plan | next apply | tests |\n| --- | --- | --- | --- | --- |\n",
			operation)
		for _, row := range rows(Matrix[operation]) {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row.columns(tests), " | "))
		}
		b.WriteString("\n")
	}
	b.WriteString("## The tests\n\n")
	for i, test := range tests {
		fmt.Fprintf(&b, "%d. `%s`\n", i+1, test)
	}
	return b.String(), nil
}

// String is how a developer finds the test.
func (t Test) String() string {
	text := t.Package + " " + t.Name
	if t.Sub != "" {
		text += "/" + t.Sub
	}
	return text
}

// tests are all tests in the order in which the page names them.
func (p Page) tests() []Test {
	var all []Test
	for _, operation := range p.Operations {
		for _, c := range Matrix[operation] {
			for _, t := range c.Tests {
				if !slices.Contains(all, t) {
					all = append(all, t)
				}
			}
		}
	}
	return all
}

// row is a cell, or cells with the same content one after another.
type row struct {
	Cell
	faults []string
}

// rows joins cells that say the same.
func rows(cells []Cell) []row {
	var all []row
	for _, c := range cells {
		if n := len(all); n > 0 && all[n-1].says(c) {
			all[n-1].faults = append(all[n-1].faults, string(c.Fault))
			for _, t := range c.Tests {
				if !slices.Contains(all[n-1].Tests, t) {
					all[n-1].Tests = append(slices.Clone(all[n-1].Tests), t)
				}
			}
			continue
		}
		all = append(all, row{c, []string{string(c.Fault)}})
	}
	return all
}

func (r row) says(c Cell) bool {
	return r.Sees == c.Sees && r.NextPlan == c.NextPlan && r.NextApply == c.NextApply && r.Impossible == c.Impossible
}

func (r row) columns(tests []Test) []string {
	fault := strings.Join(r.faults, "; ")
	if r.Impossible != "" {
		return []string{fault, "can't occur: " + r.Impossible, "", "", ""}
	}
	var proofs []string
	for _, t := range r.Tests {
		proofs = append(proofs, strconv.Itoa(slices.Index(tests, t)+1))
	}
	return []string{fault, r.Sees, r.NextPlan, r.NextApply, strings.Join(proofs, ", ")}
}
