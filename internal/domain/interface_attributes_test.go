package domain

import (
	"strings"
	"testing"
)

// TestApply_tagsOfVLAN: the tags of an interface get the order in which they are declared, whichever of them it has.
func TestApply_tagsOfVLAN(t *testing.T) {
	t.Parallel()
	const (
		before = "<domain type='qemu'><name>vm</name><devices><interface type='bridge'><source bridge='br0'/>" +
			"<vlan trunk='yes'>"
		after = "</vlan><virtualport type='openvswitch'/></interface></devices></domain>"
		want  = `<tag id="7" nativeMode="tagged"/><tag id="8"/></vlan>`
	)
	for _, tags := range []string{
		"<tag id='7' nativeMode='tagged'/><tag id='8'/>",
		"<tag id='9' nativeMode='untagged'/><tag id='8'/>",
		"<tag id='8'/><tag id='7' nativeMode='tagged'/>",
		"<tag id='1'/><tag id='8' nativeMode='tagged'/><tag id='7'/>",
		"\n  <tag id='9' nativeMode='tagged'/>\n  <tag id='8'/>\n",
	} {
		d, err := Parse(before + tags + after)
		if err != nil {
			t.Fatal(err)
		}
		s := d.Spec()
		nic := s.Interfaces["net0"]
		nic.Values["vlan.tags"], nic.Values["vlan.native_tag"], nic.Values["vlan.native_mode"] = "7,8", "7", "tagged"
		if err := d.Apply(s); err != nil {
			t.Fatal(err)
		}
		xml, err := d.XML()
		if err != nil {
			t.Fatal(err)
		}
		if plain := strings.NewReplacer("\n", "", "  ", "").Replace(xml); !strings.Contains(plain, want) {
			t.Errorf("from %s: %s", tags, xml)
		}
		if got := d.Spec().Interfaces["net0"].Values["vlan.tags"]; got != "7,8" {
			t.Errorf("from %s: the tags are %s", tags, got)
		}
	}
}
