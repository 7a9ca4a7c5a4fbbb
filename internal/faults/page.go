package faults

import (
	_ "embed" // For the beginning of the guide.
	"fmt"
	"slices"
	"strings"
)

// header begins the guide.
//
//go:embed header.md
var header string

// Page is the guide, as Markdown. check-docs.sh lets it be longer than others.
func Page() string {
	var b strings.Builder
	b.WriteString("<!-- Generated from internal/faults by make generate. -->\n\n")
	tests := numbers()
	for _, operation := range Operations {
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
	return header + b.String()
}

// String is how a developer finds the test.
func (t Test) String() string {
	text := t.Package + " " + t.Name
	if t.Sub != "" {
		text += "/" + t.Sub
	}
	return text
}

// numbers are all tests in the order in which the guide names them.
func numbers() []Test {
	var all []Test
	for _, operation := range Operations {
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
		if !c.proved() && c.Impossible == "" {
			continue // The guide tells only what a test shows.
		}
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
		proofs = append(proofs, fmt.Sprintf("[%d](#the-tests)", slices.Index(tests, t)+1))
	}
	return []string{fault, r.Sees, r.NextPlan, r.NextApply, strings.Join(proofs, " ")}
}
