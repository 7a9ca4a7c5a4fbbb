package domain

import (
	"strings"
	"testing"
)

// TestLoader_byHandAndBack: a loader takes the place of the choice that libvirt has, with secure boot as it was, and
// gives it back.
func TestLoader_byHandAndBack(t *testing.T) {
	t.Parallel()
	d := parse(t, `<domain><os><type machine="q35">hvm</type></os></domain>`)
	for _, step := range []struct {
		want   Spec
		has    []string
		hasNot []string
	}{
		{
			Spec{Firmware: Firmware{Type: new("efi"), SecureBoot: new(true)}},
			[]string{`firmware="efi"`, `enabled="yes" name="secure-boot"`},
			[]string{"<loader"},
		},
		{
			Spec{Values: Values{firmwareLoader: "/c", "firmware.nvram_template": "/t"}},
			[]string{`secure="yes"`, `type="pflash"`, `>/c</loader>`, `<nvram template="/t"/>`},
			[]string{`firmware="efi"`, "<feature "},
		},
		{Spec{Firmware: Firmware{Type: new("efi"), SecureBoot: new(true)}}, []string{`>/c</loader>`}, nil},
		{
			Spec{Values: Values{firmwareLoader: ""}},
			[]string{`firmware="efi"`, `enabled="yes" name="secure-boot"`},
			[]string{"<loader", "<nvram"},
		},
		{Spec{Firmware: Firmware{Type: new("bios")}}, nil, []string{`firmware="efi"`}},
		{Spec{Values: Values{firmwareLoader: "/bios.bin"}}, []string{`<loader type="rom">/bios.bin</loader>`}, nil},
	} {
		if err := d.Apply(step.want); err != nil {
			t.Fatal(err)
		}
		if changes := Changes(d.Spec(), step.want); len(changes) > 0 {
			t.Errorf("still to be changed: %v", changes)
		}
		xml := output(t, d)
		for _, part := range step.has {
			if !strings.Contains(xml, part) {
				t.Errorf("%q isn't in %s", part, xml)
			}
		}
		for _, part := range step.hasNot {
			if strings.Contains(xml, part) {
				t.Errorf("%q is in %s", part, xml)
			}
		}
	}
}

// TestLoader_runsWithWhatLibvirtChose: a running VM names its firmware, whoever chose it, and that is no difference.
func TestLoader_runsWithWhatLibvirtChose(t *testing.T) {
	t.Parallel()
	persistent := parse(t, `<domain><os firmware="efi"><type>hvm</type></os></domain>`).Spec()
	live := parse(t, `<domain id="1"><os><type>hvm</type><loader readonly="yes" secure="no" type="pflash">/c</loader>
  <nvram template="/t">/n</nvram></os></domain>`).Spec()
	if pending := Pending(live, persistent); len(pending) > 0 {
		t.Error(pending)
	}
	want := Spec{Values: Values{firmwareLoader: ""}}
	if changes := Changes(WithoutLibvirtDefaults(live, persistent), want); len(changes) > 0 {
		t.Error(changes)
	}
	byHand := parse(t, `<domain><os><type>hvm</type><loader type="pflash">/c</loader></os></domain>`).Spec()
	if changes := Changes(WithoutLibvirtDefaults(live, byHand), want); len(changes) != 1 {
		t.Error(changes)
	}
}

// TestSmbios_leavesIgnitionAlone: the entry with the configuration for Ignition is none of platform.fw_cfg.
func TestSmbios_leavesIgnitionAlone(t *testing.T) {
	t.Parallel()
	d := parse(t, `<domain><os><type>hvm</type></os></domain>`)
	if err := d.Apply(Spec{
		Ignition: new("/ignition"), Values: Values{"platform.fw_cfg": "opt/a=1\n", fwCfgFiles: "opt/b=/b\n"},
	}); err != nil {
		t.Fatal(err)
	}
	if got := d.Spec(); got.Values["platform.fw_cfg"] != "opt/a=1\n" || got.Values[fwCfgFiles] != "opt/b=/b\n" {
		t.Error(got.Values)
	}
	if err := d.Apply(Spec{Values: Values{"platform.fw_cfg": "", fwCfgFiles: ""}}); err != nil {
		t.Fatal(err)
	}
	if got := d.Spec(); pick(got.Ignition, nil, "") != "/ignition" || strings.Contains(output(t, d), "opt/a") {
		t.Error(output(t, d))
	}
	wrong := Spec{Values: Values{"platform.fw_cfg": FormatTexts(map[string]string{ignitionEntry: "x"})}}
	if len(wrong.Validate()) == 0 {
		t.Error("it is declared in two places")
	}
}
