package domain

import (
	"maps"
	"strings"
	"testing"
)

// selects are the attributes that say what the others of their device mean, or exclude others, and don't depend on one
// that a configuration with these others has. What isn't declared is left alone: with such a value of the VM, a user
// has to declare it, too.
var selects = []string{
	"platform.events.on_poweroff", "platform.events.on_reboot", "firmware.stateless", "platform.launch_security.type",
	"devices.tpm.backend", "devices.tpm.version", "devices.iommu.intremap", "devices.smartcard.mode",
	"memory.huge_pages_by_cell", "memory.numatune.placement", "devices.rng.backend", "devices.serials.mode",
}

// TestApply_fromWhateverWasValid: what is valid alone can be declared of a device that has whatever else was valid.
// What only the old values mean goes with them, and a refusal names the value that the user has to declare.
func TestApply_fromWhateverWasValid(t *testing.T) {
	t.Parallel()
	refused := map[string]bool{}
	change := func(path string, d *Definition, was, is Values, want Spec) (accepted bool) {
		err := d.Apply(want)
		if err == nil {
			return true
		}
		for _, named := range selects {
			name, of := strings.CutPrefix(named, path+".")
			_, before := was[name]
			_, said := is[name]
			if text := err.Error(); of && before && !said && (strings.Contains(text, name+` is "`+was[name]+`": set it`) ||
				strings.Contains(text, name+` is "`+was[name]+`" and `) || strings.Contains(text, "Declare "+name+", too.")) {
				refused[named] = true
				return false
			}
		}
		t.Errorf("%s: %v to %v: %v", path, was, is, err)
		return false
	}
	const empty = `<domain type="qemu"><os><type arch="x86_64">hvm</type></os><vcpu>1</vcpu><devices/></domain>`
	all := map[string][]Values{"devices.rng": {{"devices.rng.rate_bytes": ""}}}
	eachFact(func(g Group, _ Attribute, declared Values) {
		if g.Check != nil && len((Spec{Values: declared}).Validate()) == 0 {
			all[g.Path] = append(all[g.Path], declared)
		}
	})
	for path, declarations := range all {
		g := Group{Path: path}
		for _, other := range Groups {
			if other.Path == path {
				g = other
			}
		}
		for _, was := range declarations {
			d := parse(t, empty)
			if d.Apply(Spec{Values: was}) != nil {
				continue // It doesn't fit to the defaults of a new device.
			}
			for _, is := range declarations {
				change(path, d.Clone(), g.byName(was), g.byName(is), Spec{Values: is})
			}
		}
	}
	for _, f := range Families {
		for _, was := range rowsOf[f.Path] {
			for _, is := range rowsOf[f.Path] {
				d, s := withRoom(t, parse(t, empty), f), Spec{}
				f.Declare(&s, map[string]Row{"a": was.declared})
				if err := d.Apply(s); err != nil {
					t.Errorf("%s: %v: %v", f.Path, was.declared, err)
				}
				f.Declare(&s, map[string]Row{"a": is.declared})
				if !change(f.Path, d, Values(was.declared), Values(is.declared), s) {
					continue
				}
				row := f.Of(d.Spec())["a"]
				for name, value := range is.declared {
					if row[name] != is.read[name] {
						t.Errorf("%s: %v to %v: %s is %q, not %q", f.Path, was.declared, is.declared, name, row[name], value)
					}
				}
			}
		}
	}
	for _, named := range selects {
		if !refused[named] {
			t.Errorf("%s is named in no refusal", named)
		}
	}
}

// TestApply_dropsWhatItHadAlone: values that have no meaning with what is declared now go, the others stay.
func TestApply_dropsWhatItHadAlone(t *testing.T) {
	t.Parallel()
	const graphics = `<graphics type="vnc" autoport="yes" websocket="-1"><listen type="address"/></graphics>`
	const rng = `<rng model="virtio"><rate bytes="10" period="100"/><backend model="random">/dev/urandom</backend></rng>`
	for _, tt := range []struct {
		device      string
		is          Values
		gone, stays string
	}{
		{graphics, Values{"devices.graphics.listen": "socket"}, "websocket", `type="vnc"`},
		{graphics, Values{"devices.graphics.listen": "none"}, "websocket", `type="vnc"`},
		{graphics, Values{"devices.graphics.address": "0.0.0.0"}, "none", `websocket="-1"`},
		{rng, Values{"devices.rng.rate_bytes": ""}, "period", "/dev/urandom"},
		{rng, Values{"devices.rng.rate_bytes": "20"}, `"10"`, `period="100"`},
	} {
		d := parse(t, `<domain type="qemu"><devices>`+tt.device+`</devices></domain>`)
		err := d.Apply(Spec{Values: maps.Clone(tt.is)})
		if now := d.Canonical(); err != nil || strings.Contains(now, tt.gone) || !strings.Contains(now, tt.stays) {
			t.Errorf("%v: %v in\n%s", tt.is, err, now)
		}
	}
	source := func(row Row) string {
		d := parse(t, `<domain type="qemu"><devices/></domain>`)
		tcp := Row{"type": "tcp", "host": "h", "service": "4000"}
		for _, declared := range []Row{tcp, row} {
			if err := d.Apply(Spec{Redirdevs: map[string]Row{"a": declared}}); err != nil {
				t.Fatal(err)
			}
		}
		return render(child(d.devices("redirdev")[0], "source"))
	}
	if is := source(Row{"type": "unix", "path": "/s"}); !strings.Contains(is, `mode="bind"`) ||
		strings.Contains(is, "host") {
		t.Errorf("a socket after TCP: %s", is)
	}
}
