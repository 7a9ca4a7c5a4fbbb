package domain

import (
	"slices"
	"strings"
	"testing"
)

// TestFilterParameters_severalValues: a variable of a filter may have several values, one element for each. A change of
// another variable keeps all of them and their order, and so does what was read, when it is declared.
func TestFilterParameters_severalValues(t *testing.T) {
	t.Parallel()
	const one, two, learning = `<parameter name="IP" value="10.0.0.1"/>`, `<parameter name="IP" value="10.0.0.2"/>`,
		`<parameter name="CTRL_IP_LEARNING" value="none"/>`
	for name, tt := range map[string]struct {
		parameters map[string]string
		has        []string
	}{
		"as read": {map[string]string{"IP": "10.0.0.1,10.0.0.2", "CTRL_IP_LEARNING": "none"}, []string{one, two, learning}},
		"another changed": {
			map[string]string{"IP": "10.0.0.1,10.0.0.2", "CTRL_IP_LEARNING": "dhcp"},
			[]string{one, two, strings.Replace(learning, "none", "dhcp", 1)},
		},
		"another removed": {map[string]string{"IP": "10.0.0.1,10.0.0.2"}, []string{one, two}},
		"other order": {
			map[string]string{"IP": "10.0.0.2,10.0.0.1", "CTRL_IP_LEARNING": "none"}, []string{two, one, learning},
		},
		"one more": {
			map[string]string{"IP": "10.0.0.1,10.0.0.2,::1"},
			[]string{one, two, `<parameter name="IP" value="::1"/>`},
		},
		"one less": {map[string]string{"IP": "10.0.0.2", "CTRL_IP_LEARNING": "none"}, []string{two, learning}},
	} {
		d := parse(t, corpus(t)["testdata/corpus/network-filter.xml"])
		read := d.Spec().Interfaces["net0"].Values["filter.parameters"]
		if want := "CTRL_IP_LEARNING=none\nIP=10.0.0.1,10.0.0.2\n"; read != want {
			t.Errorf("read %q; want %q", read, want)
		}
		want := Spec{Interfaces: map[string]Interface{"net0": {
			Network: "default",
			Values:  Values{"filter.name": "clean-traffic", "filter.parameters": FormatTexts(tt.parameters)},
		}}}
		if problems := want.Validate(); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
		if changes := Changes(d.Spec(), want); (len(changes) > 0) != (name != "as read") {
			t.Errorf("%s: changes %v", name, changes)
		}
		if err := d.Apply(want); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var has []string
		for line := range strings.Lines(output(t, d)) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "<parameter") {
				has = append(has, line)
			}
		}
		if !slices.Equal(has, tt.has) {
			t.Errorf("%s: %q; want %q", name, has, tt.has)
		}
		if left := Changes(d.Spec(), want); len(left) > 0 {
			t.Errorf("%s: still to be changed: %v", name, left)
		}
	}
}

// TestFilterParameters_refused: libvirt drops a parameter with other characters without an error.
func TestFilterParameters_refused(t *testing.T) {
	t.Parallel()
	for value, valid := range map[string]bool{
		"10.0.0.1": true, "10.0.0.1,fd00::2": true, "no_ip": true, "": false, "10.0.0.1,": false, "10.0.0.1, 10.0.0.2": false,
		"10.0.0.0/24": false,
	} {
		want := Spec{Interfaces: map[string]Interface{"lan": {Network: "n", Values: Values{
			"filter.name": "clean-traffic", "filter.parameters": FormatTexts(map[string]string{"IP": value}),
		}}}}
		if problems := want.Validate(); (len(problems) == 0) != valid {
			t.Errorf("%q: %v", value, problems)
		}
	}
}
