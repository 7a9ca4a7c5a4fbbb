package attrpath_test

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
)

func TestPaths_asPeopleReadThem(t *testing.T) {
	t.Parallel()
	disk, size := path.Root("disks").AtMapKey("root"), path.Root("memory").AtMapKey("size")
	for _, tt := range []struct {
		at            path.Path
		text          string
		line          path.Path
		message, says string
	}{
		{path.Root("name"), "name", path.Root("name"), "It is taken.", "It is taken."},
		{path.Root("memory").AtName("size"), "memory.size", size, "Too much.", "memory.size: Too much."},
		{path.Root("memory").AtName("size"), "memory.size", size, "No memory.size.", "No memory.size."},
		{disk, "disks.root", disk, "It has no source.", "disks.root: It has no source."},
		{disk, "disks.root", disk, "Attribute disks[\"root\"] is bad.", "Attribute disks[\"root\"] is bad."},
		{disk.AtName("bus"), "disks.root.bus", disk, "Unknown.", "disks.root.bus: Unknown."},
		{
			disk.AtName("network").AtName("hosts").AtListIndex(1), "disks.root.network.hosts.1", disk,
			"Bad.", "disks.root.network.hosts.1: Bad.",
		},
	} {
		if got := attrpath.Text(tt.at); got != tt.text {
			t.Errorf("Text(%s) = %q, want %q", tt.at, got, tt.text)
		}
		if got := attrpath.Line(tt.at); !got.Equal(tt.line) {
			t.Errorf("Line(%s) = %s, want %s", tt.at, got, tt.line)
		}
		if got := attrpath.Message(tt.at, tt.message); got != tt.says {
			t.Errorf("Message(%s) = %q, want %q", tt.at, got, tt.says)
		}
	}
}

func TestParse_knowsMaps(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]path.Path{
		"name":            path.Root("name"),
		"memory.size":     path.Root("memory").AtName("size"),
		"disks.root.bus":  path.Root("disks").AtMapKey("root").AtName("bus"),
		"firmware.type":   path.Root("firmware").AtName("type"),
		"interfaces.lan":  path.Root("interfaces").AtMapKey("lan"),
		"placement.hosts": path.Root("placement").AtName("hosts"),
	} {
		if got := attrpath.Parse(text, "disks", "interfaces"); !got.Equal(want) {
			t.Errorf("Parse(%q) = %s, want %s", text, got, want)
		}
	}
}

func TestShow_asErrorDoes(t *testing.T) {
	t.Parallel()
	root := tftypes.NewAttributePath()
	disk := root.WithAttributeName("disks").WithElementKeyString("root")
	for _, tt := range []struct {
		at, line      *tftypes.AttributePath
		message, says string
	}{
		{nil, nil, "No host.", "No host."},
		{root.WithAttributeName("name"), root.WithAttributeName("name"), "Taken.", "Taken."},
		{
			root.WithAttributeName("ssh").WithAttributeName("agent"),
			root.WithAttributeName("ssh").WithElementKeyString("agent"), "Bad.",
			"ssh.agent: Bad.",
		},
		{
			disk.WithAttributeName("network").WithAttributeName("hosts").WithElementKeyInt(1), disk, "Bad.",
			"disks.root.network.hosts.1: Bad.",
		},
		{
			root.WithAttributeName("hosts").WithElementKeyValue(tftypes.NewValue(tftypes.String, "kvm1")),
			root.WithAttributeName("hosts"), "Attribute hosts is bad.", "Attribute hosts is bad.",
		},
	} {
		m := &tfprotov6.Diagnostic{Attribute: tt.at, Detail: tt.message}
		attrpath.Show([]*tfprotov6.Diagnostic{m})
		if m.Attribute.String() != tt.line.String() || m.Detail != tt.says {
			t.Errorf("%s: shown at %s: %q, want %s: %q", tt.at, m.Attribute, m.Detail, tt.line, tt.says)
		}
	}
}
