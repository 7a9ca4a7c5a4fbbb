// Package domaintest has values for everything that rows describe, for tests that cover all rows. Each row says which
// values it accepts, so a new row is covered without a change here.
package domaintest

import (
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// candidates are the values to try for a row that lists none, by the row's kind. The row's own check chooses among
// them. No candidate may be the path of a file that exists on computers: libvirt removes the file with a VM's UEFI
// variables, whichever file it is.
var candidates = map[domain.AttributeKind][]string{
	domain.Text: {
		"a", "/a", "auto", "5905", "en-us", "2Mi", "1,3", "Europe/Berlin", "0000:65:00.0",
		"5000c50015ea71ad", "09b11c53-8b5c-4eeb-8f00-d84eaa0aaa4e",
	},
	domain.Count:   {"1", "2", "7", "100", "48", "256", "4096", "8192", "50000"},
	domain.Switch:  {"yes", "no"},
	domain.Flag:    {"yes", "no"},
	domain.Amount:  {"1073741824", "2147483648"},
	domain.Numbers: {"42", "7,8"},
	domain.Texts: {
		"0=0\n", "1=21\n", "a=b\n", "l3/0=3Mi\n", "aes=require\n", "opt/com.example/a=/b\n", "version=1\n", "0=2Mi\n",
	},
	domain.Switches: {"csum=no\n", "csum=yes\ntso4=no\n"},
	domain.Words:    {`["-name"]`, `["0"]`, `["2022:22","192.0.2.7/5000-5020:6000,~5010"]`, `["a","b","c"]`},
	domain.Table: {
		domain.FormatTable(map[string]domain.Row{"0": {"memory": "1073741824", "cpus": "0"}}),
		domain.FormatTable(map[string]domain.Row{"0": {"mode": "strict", "nodeset": "0"}}),
		domain.FormatTable(map[string]domain.Row{"dac": {"type": "static", "label": "+0:+0"}}),
		domain.FormatTable(map[string]domain.Row{"selinux": {"type": "none"}}),
		domain.FormatTable(map[string]domain.Row{"0": {"type": "batch"}}),
		domain.FormatTable(map[string]domain.Row{"0": {"caches": "l3/0=3Mi\n"}}),
		domain.FormatTable(map[string]domain.Row{"0": {"bandwidth": "0=60\n"}}),
		domain.FormatTable(map[string]domain.Row{"/a": {"weight": "100"}}),
	},
}

// Values returns values that can be declared for a row.
func Values(a domain.Attribute) []string {
	if a.Values != nil {
		return a.Values
	}
	return slices.DeleteFunc(slices.Clone(candidates[a.Kind]), func(value string) bool {
		return a.Check != nil && a.Check(value) != "" || a.Kind == domain.Table && !isTable(a, value)
	})
}

// isTable reports whether the rows of a value have only columns that the table has, and keys that it takes.
func isTable(a domain.Attribute, value string) bool {
	for key, row := range domain.ParseTable(value) {
		if a.Key != nil && a.Key(key) != "" {
			return false
		}
		for name := range row {
			if !slices.ContainsFunc(a.Columns, func(column domain.Attribute) bool { return column.Name == name }) {
				return false
			}
		}
	}
	return true
}
