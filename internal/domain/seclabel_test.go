package domain

import (
	"strings"
	"testing"
)

// TestSeclabel_runs: what libvirt adds to a running VM is no change, and one of another type keeps nothing of the old.
func TestSeclabel_runs(t *testing.T) {
	t.Parallel()
	live := parse(t, `<domain id="1"><seclabel type="none" model="none"/>
  <seclabel type="dynamic" model="dac" relabel="yes"><label>+1:+1</label><imagelabel>+1:+1</imagelabel></seclabel>
  <seclabel type="dynamic" model="selinux" relabel="yes"><label>a:b</label><baselabel>a</baselabel></seclabel>
  </domain>`)
	const has = "none.type=none\nselinux.baselabel=a\nselinux.type=dynamic\n"
	if got := live.Spec().Values[seclabelPath]; got != has {
		t.Errorf("it has %q", got)
	}
	want := Spec{Values: Values{seclabelPath: "dac.label=+2:+2\ndac.type=static\nselinux.type=none\n"}}
	if changes := Changes(live.Spec(), want); len(changes) != 1 || changes[0].Live {
		t.Errorf("%v", changes)
	}
	if err := live.Apply(want); err != nil {
		t.Fatal(err)
	}
	becomes := `<domain id="1"><seclabel type="static" model="dac"><label>+2:+2</label></seclabel>` +
		`<seclabel type="none" model="selinux"/></domain>`
	if got := live.Canonical(); got != parse(t, becomes).Canonical() {
		t.Errorf("it has become %s", got)
	}
}

// TestSeclabel_noneConverges: a VM that isn't confined is read back as it is declared, also while it runs, when libvirt
// has added the user of QEMU. So no plan has anything to do about it.
func TestSeclabel_noneConverges(t *testing.T) {
	t.Parallel()
	const added = `<seclabel type="dynamic" model="dac" relabel="yes"><label>+1:+1</label></seclabel>`
	for model, libvirts := range map[string]string{None: added, "apparmor": added, "selinux": added, "dac": ""} {
		want := Spec{Values: Values{seclabelPath: model + ".type=none\n"}}
		d := parse(t, `<domain><name>a</name><memory>1024</memory></domain>`)
		if err := d.Apply(want); err != nil {
			t.Fatal(err)
		}
		// libvirt writes it like this.
		written := `<seclabel type="none" model="` + model + `"/>`
		persistent := parse(t, `<domain><name>a</name><memory>1024</memory>`+written+`</domain>`)
		live := parse(t, `<domain id="1"><name>a</name><memory>1024</memory>`+written+libvirts+`</domain>`).Spec()
		if d.Canonical() != persistent.Canonical() {
			t.Errorf("%s: %s", model, d.Canonical())
		}
		off := persistent.Spec()
		for where, has := range map[string]Spec{
			"off": off, "live": live, "state": Merge(&off, &live, &want, nil), "imported": Merge(&off, &live, nil, nil),
		} {
			if got := has.Values[seclabelPath]; got != want.Values[seclabelPath] {
				t.Errorf("%s, %s: it has %q", model, where, got)
			}
			if changes := Changes(has, want); len(changes) > 0 {
				t.Errorf("%s, %s: %v", model, where, changes)
			}
		}
		if pending := Pending(live, off); len(pending) > 0 {
			t.Errorf("%s waits for a restart: %v", model, pending)
		}
		if problems := want.Validate(); len(problems) > 0 {
			t.Errorf("%s: %v", model, problems)
		}
	}
}

// TestSeclabel_refuses: a label needs what its type has, and nothing else.
func TestSeclabel_refuses(t *testing.T) {
	t.Parallel()
	for value, says := range map[string]string{
		"smack.type=none\n":                      "isn't one of dac, selinux, apparmor",
		"dac.label=1:1\n":                        "dac: It needs a type",
		"dac.type=other\n":                       "isn't one of dynamic, static, none",
		"dac.type=static\n":                      "dac: The type static has a label",
		"dac.label=1:1\ndac.type=none\n":         "no other type has",
		"selinux.type=dynamic\n":                 "The type dynamic has a baselabel",
		"dac.relabel=yes\ndac.type=none\n":       "Only the type static has relabel",
		"dac.label=root\ndac.type=static\n":      `"root" isn't a user and a group`,
		"selinux.label=a b\nselinux.type=static": "",
	} {
		problems := Spec{Values: Values{seclabelPath: value}}.Validate()
		if (len(problems) == 0) != (says == "") || len(problems) > 0 && !strings.Contains(problems[0].Error(), says) {
			t.Errorf("%q: %v", value, problems)
		}
	}
}
